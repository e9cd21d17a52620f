"""When an endpoint that fails is left alone, and when it is tried again."""

import pytest

from assay.guarded_http.failure import CallError
from assay.runners.webhook.breaker import Breaker

PROBE_S = 8.0


def failing(breaker: Breaker, times: int, now: float, retry_after_s: float | None = None) -> None:
    for _ in range(times):
        breaker.failed(CallError("connection", "gone", passing=True, retry_after_s=retry_after_s), now)


def test_it_opens_after_five_failures_in_a_row() -> None:
    breaker = Breaker()
    failing(breaker, 4, 100)
    assert breaker.delay_s(100, probe_s=PROBE_S) == 0
    breaker.answered()
    failing(breaker, 4, 100)
    assert breaker.delay_s(100, probe_s=PROBE_S) == 0
    failing(breaker, 1, 100)
    assert breaker.delay_s(101, probe_s=PROBE_S) == 4


def test_half_open_lets_one_call_through_at_a_time() -> None:
    breaker = Breaker()
    failing(breaker, 5, 100)
    assert breaker.delay_s(105, probe_s=PROBE_S) == 0
    assert [breaker.delay_s(now, probe_s=PROBE_S) for now in (105, 106, 112)] == [0.5, 0.5, 0.5]
    assert breaker.delay_s(113, probe_s=PROBE_S) == 0


def test_a_probe_that_is_answered_closes_it() -> None:
    breaker = Breaker()
    failing(breaker, 5, 100)
    assert breaker.delay_s(105, probe_s=PROBE_S) == 0
    breaker.answered()
    assert [breaker.delay_s(105, probe_s=PROBE_S) for _ in range(3)] == [0, 0, 0]


def test_each_probe_that_fails_keeps_it_open_for_twice_as_long_up_to_a_minute() -> None:
    breaker = Breaker()
    now, waits = 100.0, list[float]()
    failing(breaker, 5, now)
    for _ in range(7):
        waits.append(breaker.delay_s(now, probe_s=PROBE_S))
        now += waits[-1]
        assert breaker.delay_s(now, probe_s=PROBE_S) == 0
        failing(breaker, 1, now)
    assert waits == [5, 10, 20, 40, 60, 60, 60]


def test_failures_of_calls_that_were_on_their_way_do_not_keep_it_open_longer() -> None:
    breaker = Breaker()
    failing(breaker, 5, 100)
    failing(breaker, 7, 103)
    assert breaker.delay_s(103, probe_s=PROBE_S) == 2
    assert breaker.delay_s(105, probe_s=PROBE_S) == 0
    failing(breaker, 1, 105)
    assert breaker.delay_s(105, probe_s=PROBE_S) == 10


@pytest.mark.parametrize(("asked_s", "held_s"), [(7, 7), (0, 0), (100_000, 300)])
def test_retry_after_holds_calls_back_though_others_are_answered(asked_s: float, held_s: float) -> None:
    breaker = Breaker()
    failing(breaker, 1, 100, retry_after_s=asked_s)
    breaker.answered()
    assert breaker.delay_s(100, probe_s=PROBE_S) == held_s
    assert breaker.delay_s(100 + held_s, probe_s=PROBE_S) == 0

"""When something that fails is left alone, and when it is tried again."""

from assay.domain.breaker import FAILURES_TO_OPEN, PROBE_LOOK_S, Breaker, Pauses, after

PAUSES = Pauses(first_s=10, longest_s=100)
CLOSED = Breaker(pauses=PAUSES)


def failed(breaker: Breaker, times: int, now: float) -> Breaker:
    for _ in range(times):
        breaker = breaker.failed(now)
    return breaker


def test_it_opens_after_so_many_failures_in_a_row() -> None:
    almost = failed(CLOSED, FAILURES_TO_OPEN - 1, 100)
    assert almost.wait_s(100) == 0
    assert failed(almost.succeeded(), FAILURES_TO_OPEN - 1, 100).wait_s(100) == 0
    assert almost.failed(100).wait_s(103) == 7


def test_one_probe_at_a_time_goes_through_when_the_pause_is_over() -> None:
    half_open = failed(CLOSED, FAILURES_TO_OPEN, 100)
    assert half_open.wait_s(110) == 0
    probing = half_open.probing(130)
    assert [probing.wait_s(now) for now in (110, 129)] == [PROBE_LOOK_S] * 2
    assert probing.wait_s(130) == 0
    assert probing.unprobed().wait_s(111) == 0
    assert probing.succeeded() == CLOSED


def test_each_probe_that_fails_opens_it_for_twice_as_long_up_to_the_longest() -> None:
    breaker, now, waits = failed(CLOSED, FAILURES_TO_OPEN, 0), 0.0, list[float]()
    for _ in range(6):
        waits.append(breaker.wait_s(now))
        now += waits[-1]
        breaker = breaker.probing(now + 5).failed(now)
    assert waits == [10, 20, 40, 80, 100, 100]
    assert breaker.openings == 7


def test_a_failure_that_was_on_its_way_when_it_opened_does_not_keep_it_open_longer() -> None:
    opened = failed(CLOSED, FAILURES_TO_OPEN, 100)
    late = failed(opened, 3, 105)
    assert (late.open_until, late.openings, late.failures) == (opened.open_until, 1, FAILURES_TO_OPEN + 3)


def test_of_several_results_the_one_that_opened_it_is_named() -> None:
    breaker, opened_by = after(CLOSED, [True, *[False] * (FAILURES_TO_OPEN + 2)], 100)
    assert (breaker.openings, opened_by) == (1, FAILURES_TO_OPEN)
    assert after(breaker, [False], 105)[1] is None
    reopened, opened_by = after(breaker, [False], 110)
    assert (reopened.openings, opened_by) == (2, 0)


def test_none_is_named_when_a_later_result_closed_it_again() -> None:
    assert after(CLOSED, [*[False] * FAILURES_TO_OPEN, True], 100) == (CLOSED, None)
    assert after(CLOSED, [], 100) == (CLOSED, None)

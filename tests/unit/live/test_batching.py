"""How many checks are claimed at once."""

from hypothesis import given, settings
from hypothesis import strategies as st

from assay.live.batching import FIRST, LARGEST, next_size


def settled(seconds_each: float) -> int:
    size = FIRST
    for _ in range(10):
        size = next_size(size, size * seconds_each, size)
    return size


def test_a_fast_evaluator_gets_the_largest_batches() -> None:
    assert settled(0.0001) == LARGEST


def test_a_batch_takes_about_a_second() -> None:
    assert settled(0.05) == 20


def test_a_slow_evaluator_gets_one_at_a_time() -> None:
    assert settled(8.0) == 1


def test_growth_is_fourfold_at_most() -> None:
    assert next_size(4, 0.000001, 4) == 16


def test_a_batch_of_nothing_says_nothing() -> None:
    assert next_size(16, 0.5, 0) == 16
    assert next_size(16, 0.0, 16) == 16


@settings(max_examples=50, deadline=None)
@given(st.integers(1, LARGEST), st.floats(0, 1000), st.integers(0, LARGEST))
def test_a_size_is_always_one_that_can_be_claimed(size: int, took_s: float, ran: int) -> None:
    assert 1 <= next_size(size, took_s, ran) <= LARGEST

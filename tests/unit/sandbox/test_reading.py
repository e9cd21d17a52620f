"""What a child sends, taken apart in whatever pieces it arrives; anything else than the harness's own is a forgery."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.domain.outcome import Limits, Returned
from assay.runners.children import frames
from assay.runners.children.conversation import _Reader  # pyright: ignore[reportPrivateUsage]

BATCH = b"12345678"


def result(
    item: int, value: bytes, status: int = 0, logs: bytes = b"", batch: bytes = BATCH, spent_s: float = 0.5
) -> bytes:
    return frames.RESULT.pack(batch, item, status, spent_s, len(logs), len(value), len(logs)) + value + logs


def stream(values: list[bytes]) -> bytes:
    return frames.BEGUN + b"".join(result(item, value, logs=b"log") for item, value in enumerate(values)) + BATCH


def read(data: bytes, count: int, cuts: list[int]) -> _Reader:
    reader = _Reader(BATCH, count, Limits(), begun=False)
    start = 0
    for cut in [*sorted(min(cut, len(data)) for cut in cuts), len(data)]:
        if cut > start and not reader.feed(data[start:cut]):
            break
        start = max(start, cut)
    return reader


@given(st.lists(st.integers(), min_size=1, max_size=5), st.lists(st.integers(0, 400), max_size=8))
def test_answers_are_the_same_however_they_are_cut(numbers: list[int], cuts: list[int]) -> None:
    reader = read(stream([str(number).encode() for number in numbers]), len(numbers), cuts)
    assert reader.complete
    assert reader.round.outcomes == [Returned(value=number, logs="log", duration_s=0.5) for number in numbers]


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=4))
def test_noise_never_counts_as_an_answer(noise: bytes, cuts: list[int]) -> None:
    reader = read(frames.BEGUN + noise, 3, cuts)
    assert not reader.complete
    assert reader.round.outcomes == []


@pytest.mark.parametrize(
    "data",
    [
        b"x",
        frames.BEGUN + result(1, b"1"),
        frames.BEGUN + result(0, b"1", batch=b"87654321"),
        frames.BEGUN + result(0, b"1", status=9),
        frames.BEGUN + result(0, b"not json"),
        frames.BEGUN + result(0, b"null", status=frames.STATUS_RAISED),
        frames.BEGUN + result(0, b'{"kind":"timeout","type":"","message":"","line":1,"traceback":""}', status=1),
        frames.BEGUN + result(0, b"-x", status=frames.STATUS_RESULT),
        frames.BEGUN + result(0, b"[" * 100 + b"]" * 100),
        frames.BEGUN + result(0, b"1" * (Limits().result_bytes + 1)),
        frames.BEGUN + result(0, b"1", logs=b"x" * (Limits().log_bytes + 1)),
        frames.BEGUN + frames.RESULT.pack(BATCH, 0, 0, 0.0, 0, 0xFFFFFFFF, 0),
        stream([b"1"])[:-1] + b"x",
    ],
)
def test_what_the_harness_cannot_have_sent_is_a_forgery(data: bytes) -> None:
    reader = read(data, 1, [])
    assert reader.round.end == "forged"


@pytest.mark.parametrize("spent_s", [float("nan"), float("inf"), -1.0, 1e9])
def test_an_impossible_duration_is_the_budget(spent_s: float) -> None:
    [outcome] = read(frames.BEGUN + result(0, b"1", spent_s=spent_s) + BATCH, 1, []).round.outcomes
    assert outcome.duration_s == Limits().wall_s


def test_nothing_is_read_after_memory_ran_out() -> None:
    reader = read(frames.BEGUN + result(0, b"1") + result(1, b"null", frames.STATUS_MEMORY), 3, [])
    assert reader.round.end == "memory"
    assert len(reader.round.outcomes) == 1


@given(st.binary(max_size=80), st.lists(st.integers(0, 200), max_size=4))
def test_what_follows_a_batch_is_left_for_the_next(more: bytes, cuts: list[int]) -> None:
    data = stream([b"1", b"2"])
    reader = read(data + more, 2, cuts)
    assert reader.complete
    assert (data + more).startswith(data + reader.rest)

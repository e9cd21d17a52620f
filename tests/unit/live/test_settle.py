"""When a trace is whole."""

from dataclasses import replace

import pytest

from assay.live.settle import is_whole
from assay.live.work import TraceDue
from assay.ports import TraceRecord

SECOND_NS = 1_000_000_000
MOST_S = 30.0
RECORD = TraceRecord(
    project_id="default",
    trace_id="t",
    revision=3,
    checked_revision=0,
    agent_id=None,
    name=None,
    span_count=2,
    created_at_ns=0,
    updated_at_ns=0,
    pending_since_ns=0,
)


def whole(due_revision: int, record: TraceRecord | None, after_s: float) -> bool:
    due = TraceDue("default", "t", due_revision)
    return is_whole(due, record, now_ns=int(after_s * SECOND_NS), settle_max_s=MOST_S)


def test_a_trace_that_stayed_as_it_was_is_whole() -> None:
    assert whole(3, RECORD, after_s=2)


def test_a_trace_that_changed_since_waits_for_its_later_entry() -> None:
    assert not whole(2, RECORD, after_s=2)


def test_a_trace_that_never_gets_quiet_is_checked_after_the_longest_wait() -> None:
    assert not whole(2, RECORD, after_s=29.9)
    assert whole(2, RECORD, after_s=30)


def test_the_longest_wait_counts_from_the_first_change_not_yet_checked() -> None:
    assert not whole(2, replace(RECORD, checked_revision=1, pending_since_ns=20 * SECOND_NS), after_s=40)


@pytest.mark.parametrize("checked_revision", [3, 4])
def test_a_trace_whose_checks_are_owed_already_is_done(checked_revision: int) -> None:
    assert not whole(3, replace(RECORD, checked_revision=checked_revision), after_s=60)


def test_a_trace_that_is_gone_is_done() -> None:
    assert not whole(3, None, after_s=60)

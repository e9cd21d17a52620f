"""Muted signals go on counting and tell nobody."""

from typing import Literal

import pytest

from assay.domain.failure_window import FailureWindow
from assay.domain.severity import Severity
from assay.domain.signal import Decision, Fold, MutedUntil, Reopen, Signal, fold
from assay.domain.signal_log import entry_of
from assay.domain.signal_steps import (
    MOST_NOTES,
    ImpossibleStep,
    acknowledge,
    archive,
    assign,
    mute,
    note,
    resolve,
    unmute,
)
from support.records import a_check, a_signal, an_evaluator


def failing(signal: Signal, *, now_ns: int, severity: Severity = "high") -> Decision:
    check = a_check(f"t{now_ns}", failed=True)
    return fold(signal, FailureWindow(), check, evaluator=an_evaluator(severity=severity), now_ns=now_ns)[0]


def muted(signal: Signal, until: MutedUntil, *, now_ns: int = 1) -> Signal:
    made = mute(signal, until=until, now_ns=now_ns)
    assert isinstance(made, Signal)
    return made


def resolved(signal: Signal) -> Signal:
    made = resolve(signal, reason="fixed", now_ns=2)
    assert isinstance(made, Signal)
    return made


@pytest.fixture
def signal() -> Signal:
    return a_signal(a_check(failed=True))


def test_a_muted_signal_counts_and_is_muted_until_its_time(signal: Signal) -> None:
    decision = failing(muted(signal, 100), now_ns=99)
    assert isinstance(decision, Fold)
    assert (decision.signal.count, decision.signal.is_muted(99)) == (2, True)
    assert (decision.signal.is_muted(100), signal.is_muted(99)) == (False, False)


def test_a_mute_that_is_over_is_taken_off_by_the_next_failure(signal: Signal) -> None:
    decision = failing(muted(signal, 100), now_ns=100)
    assert isinstance(decision, Fold)
    assert decision.signal.muted_until is None


@pytest.mark.parametrize("closing", ["resolved", "archived"])
def test_a_mute_until_resolved_ends_with_closing_and_one_until_a_time_does_not(
    signal: Signal, closing: Literal["resolved", "archived"]
) -> None:
    lasting: tuple[tuple[MutedUntil, bool], ...] = (("resolved", False), (100, True))
    for until, is_silent in lasting:
        held = muted(signal, until)
        closed = resolved(held) if closing == "resolved" else archive(held, now_ns=2)
        reopened = failing(closed, now_ns=50)
        assert isinstance(reopened, Reopen)
        assert reopened.signal.is_muted(50) == is_silent


@pytest.mark.parametrize("is_closed", [True, False], ids=["reopened", "escalated"])
def test_what_happened_unheard_is_told_with_the_first_failure_after_the_mute(signal: Signal, is_closed: bool) -> None:
    held = muted(resolved(signal) if is_closed else signal, 100)
    happened = failing(held, now_ns=50, severity="critical")
    assert happened.kind == ("reopened" if is_closed else "escalated")
    assert isinstance(happened.signal, Signal)
    unheard = happened.signal
    again = failing(unheard, now_ns=60, severity="critical")
    assert again.kind is None
    for heard, now_ns in ((unheard, 100), (unmute(unheard, now_ns=55), 60)):
        told = failing(heard, now_ns=now_ns, severity="critical")
        assert told.kind == "resurfaced"
        assert told.signal is not None
        assert failing(told.signal, now_ns=101, severity="critical").kind is None


def test_who_acknowledges_what_happened_unheard_has_heard_of_it(signal: Signal) -> None:
    reopened = failing(muted(resolved(signal), 100), now_ns=50).signal
    assert isinstance(reopened, Signal)
    acknowledged = acknowledge(reopened, now_ns=60)
    assert isinstance(acknowledged, Signal)
    assert failing(acknowledged, now_ns=200).kind is None


def test_a_mute_has_to_end_in_the_future_and_what_is_closed_cannot_be_muted_until_resolved(signal: Signal) -> None:
    assert isinstance(mute(signal, until=5, now_ns=5), ImpossibleStep)
    step = mute(resolved(signal), until="resolved", now_ns=5)
    assert isinstance(step, ImpossibleStep)
    assert "resolved" in step.message


def test_steps_that_change_nothing_leave_it_as_it_is(signal: Signal) -> None:
    held = muted(assign(signal, assignee="ada", now_ns=3), 100)
    assert assign(held, assignee="ada", now_ns=9) == held
    assert mute(held, until=100, now_ns=9) == held
    assert unmute(signal, now_ns=9) == signal
    assert assign(held, assignee=None, now_ns=9).assignee is None
    assert resolve(resolved(signal), reason="fixed", now_ns=9) == resolved(signal)


def test_notes_are_counted_up_to_a_thousand(signal: Signal) -> None:
    for _ in range(MOST_NOTES):
        noted = note(signal, now_ns=3)
        assert isinstance(noted, Signal)
        signal = noted
    assert isinstance(note(signal, now_ns=3), ImpossibleStep)


def test_a_log_entry_says_how_the_signal_was_left_and_no_mute_that_is_over(signal: Signal) -> None:
    entry = entry_of(muted(signal, 100), "noted", actor="key_1", at_ns=100, note="seen")
    assert (entry.signal_id, entry.actor, entry.muted_until, entry.detail) == (
        signal.id,
        "key_1",
        None,
        {"note": "seen"},
    )
    assert entry_of(muted(signal, 100), "noted", actor=None, at_ns=99).muted_until == 100

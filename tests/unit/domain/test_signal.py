"""The life of a signal."""

from dataclasses import replace

import pytest

from assay.domain.check import Check, Reading, Verdict
from assay.domain.failure_window import FailureWindow
from assay.domain.severity import Severity
from assay.domain.signal import Decision, Fold, Nothing, Raise, Reopen, Signal, fold
from assay.domain.signal_steps import ImpossibleStep, acknowledge, archive, resolve
from support.records import an_evaluator


def failing(number: int, *, agent_id: str | None = "agt_1", failed: bool = True, trace: bool = True) -> Check:
    return Check(
        id=f"chk_{number:03}",
        project_id="default",
        evaluator_id="evl_1",
        revision_id="evl_1_1",
        trace_id=f"t{number}" if trace else None,
        trace_revision=1,
        agent_id=agent_id,
        reading=Reading(
            status="scored", metrics={"n": number}, verdict=Verdict(failed=failed, reason=f"reason {number}")
        ),
        logs="",
        duration_s=0,
        runner="fake",
        recorded_at_ns=number,
    )


def folded(existing: Signal | None, check: Check, *, severity: Severity, now_ns: int) -> Decision:
    return fold(existing, FailureWindow(), check, evaluator=an_evaluator(severity=severity), now_ns=now_ns)[0]


def raised(number: int = 1) -> Signal:
    decision = folded(None, failing(number), severity="high", now_ns=100)
    assert isinstance(decision, Raise)
    return decision.signal


def test_the_first_failure_raises_a_signal_with_its_evidence() -> None:
    signal = raised(7)
    assert (signal.status, signal.severity, signal.count) == ("open", "high", 1)
    assert (signal.first_seen_ns, signal.last_seen_ns, signal.updated_at_ns) == (7, 7, 100)
    (occurrence,) = signal.evidence
    assert (occurrence.trace_id, occurrence.metrics, occurrence.reason) == ("t7", {"n": 7}, "reason 7")


def test_there_is_one_signal_for_each_evaluator_and_agent() -> None:
    other = folded(None, failing(1, agent_id="agt_2"), severity="high", now_ns=100)
    nobody = folded(None, failing(1, agent_id=None), severity="high", now_ns=100)
    assert other.signal is not None
    assert nobody.signal is not None
    assert len({raised(1).id, raised(2).id, other.signal.id, nobody.signal.id}) == 3


def test_further_failures_fold_whatever_order_they_come_in() -> None:
    decision = folded(raised(5), failing(3), severity="low", now_ns=200)
    assert isinstance(decision, Fold)
    signal = decision.signal
    assert (signal.count, signal.first_seen_ns, signal.last_seen_ns) == (2, 3, 5)
    assert (signal.severity, signal.updated_at_ns) == ("low", 200)
    assert [occurrence.trace_id for occurrence in signal.evidence] == ["t5", "t3"]


def test_the_last_ten_occurrences_are_kept_and_all_are_counted() -> None:
    signal = raised(1)
    for number in (*range(2, 31), 0):
        decision = folded(signal, failing(number), severity="high", now_ns=100)
        assert isinstance(decision, Fold)
        signal = decision.signal
    assert signal.count == 31
    assert [occurrence.occurred_at_ns for occurrence in signal.evidence] == list(range(30, 20, -1))


@pytest.mark.parametrize(
    "check",
    [
        failing(2, failed=False),
        failing(2, trace=False),
        replace(failing(2), reading=Reading(status="skipped")),
        replace(failing(2), reading=Reading(status="errored")),
    ],
)
def test_a_check_that_did_not_fail_on_a_trace_changes_nothing(check: Check) -> None:
    assert folded(None, check, severity="high", now_ns=100) == Nothing(signal=None)
    existing = raised()
    assert folded(existing, check, severity="high", now_ns=100) == Nothing(signal=existing)


def test_a_new_failure_reopens_what_was_resolved_or_archived() -> None:
    resolved = resolve(raised(), reason="fixed the prompt", now_ns=150)
    assert isinstance(resolved, Signal)
    for closed in (resolved, archive(resolved, now_ns=160)):
        decision = folded(closed, failing(9), severity="high", now_ns=200)
        assert isinstance(decision, Reopen)
        assert (decision.signal.status, decision.signal.resolution, decision.signal.count) == ("open", None, 2)


def test_a_new_failure_leaves_an_acknowledged_signal_acknowledged() -> None:
    acknowledged = acknowledge(raised(), now_ns=150)
    assert isinstance(acknowledged, Signal)
    decision = folded(acknowledged, failing(9), severity="high", now_ns=200)
    assert isinstance(decision, Fold)
    assert decision.signal.status == "acknowledged"


def test_acknowledging_is_for_what_is_open_and_twice_is_once() -> None:
    acknowledged = acknowledge(raised(), now_ns=150)
    assert isinstance(acknowledged, Signal)
    assert acknowledge(acknowledged, now_ns=170) == acknowledged
    step = acknowledge(archive(acknowledged, now_ns=160), now_ns=170)
    assert isinstance(step, ImpossibleStep)
    assert "archived" in step.message


def test_resolving_needs_a_reason_and_may_be_repeated_with_another() -> None:
    assert isinstance(resolve(raised(), reason="  ", now_ns=150), ImpossibleStep)
    resolved = resolve(raised(), reason=" first ", now_ns=150)
    assert isinstance(resolved, Signal)
    assert (resolved.status, resolved.resolution) == ("resolved", "first")
    again = resolve(resolved, reason="second", now_ns=160)
    assert isinstance(again, Signal)
    assert again.resolution == "second"
    assert isinstance(resolve(archive(resolved, now_ns=170), reason="third", now_ns=180), ImpossibleStep)


def test_anything_can_be_archived_and_keeps_its_resolution() -> None:
    resolved = resolve(raised(), reason="done", now_ns=150)
    assert isinstance(resolved, Signal)
    archived = archive(resolved, now_ns=160)
    assert (archived.status, archived.resolution, archived.updated_at_ns) == ("archived", "done", 160)
    assert archive(archived, now_ns=170) == archived

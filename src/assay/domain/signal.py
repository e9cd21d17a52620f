"""Signals: what failing checks raise, one per (evaluator, agent), folding its occurrences."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, TypeAlias

from assay.domain.check import Check
from assay.domain.evaluator import Evaluator
from assay.domain.failure_window import (
    EVERY_FAILURE,
    Failures,
    FailureWindow,
    Occurrence,
    newest,
    slid,
    taken,
)
from assay.domain.identity import derived_id
from assay.domain.severity import Severity, is_worse, severity_of

SignalStatus = Literal["open", "acknowledged", "resolved", "archived"]
ChangeKind = Literal["raised", "reopened", "escalated", "resurfaced"]
MutedUntil: TypeAlias = int | Literal["resolved"]
"""When a mute ends: at a time in nanoseconds, or when the signal is closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """A failure that somebody should see: its count, first and last time, and its last ten occurrences, newest first.

    `resolution` is the reason somebody gave when resolving it; a new failure takes it away. `closings` counts how often
    it was resolved or archived. `is_unheard` says that it was reopened or escalated while muted.
    """

    id: str
    project_id: str
    evaluator_id: str
    agent_id: str | None
    severity: Severity
    status: SignalStatus = "open"
    resolution: str | None = None
    count: int
    first_seen_ns: int
    last_seen_ns: int
    updated_at_ns: int
    evidence: tuple[Occurrence, ...]
    assignee: str | None = None
    muted_until: MutedUntil | None = None
    is_unheard: bool = False
    closings: int = 0
    notes: int = 0

    @property
    def is_closed(self) -> bool:
        """Tell whether it takes a new failure to open it again."""
        return self.status in ("resolved", "archived")

    def is_muted(self, now_ns: int) -> bool:
        """Tell whether nobody is to be told of it now."""
        return self.muted_until == "resolved" or (self.muted_until is not None and now_ns < self.muted_until)


@dataclass(frozen=True, slots=True, kw_only=True)
class Raise:
    """The first failure: this signal is new."""

    kind: ClassVar[ChangeKind] = "raised"
    signal: Signal
    failures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """Another failure of a signal that is still open or acknowledged."""

    kind: ClassVar[None] = None
    signal: Signal
    failures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalate:
    """Another failure, which is worse than the signal was."""

    kind: ClassVar[ChangeKind] = "escalated"
    signal: Signal
    failures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Resurface:
    """The first failure after a mute under which the signal was reopened or escalated, and nobody heard."""

    kind: ClassVar[ChangeKind] = "resurfaced"
    signal: Signal
    failures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reopen:
    """A failure after the signal was resolved or archived: it is open again."""

    kind: ClassVar[ChangeKind] = "reopened"
    signal: Signal
    failures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    """The check is no reason for a signal: it did not fail, belongs to no trace, or too few failed with it."""

    kind: ClassVar[None] = None
    signal: Signal | None
    failures: ClassVar[int] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalChange:
    """What a recording did to a signal that somebody should hear of, unless it is `muted`; the signal is as it is then.

    It was raised, reopened, or escalated to a higher severity; or it has resurfaced: failed again after a mute under
    which one of these happened unheard.
    """

    kind: ChangeKind
    signal: Signal
    evaluator: Evaluator
    muted: bool


Decision: TypeAlias = Raise | Fold | Escalate | Resurface | Reopen | Nothing


def counts(check: Check) -> bool:
    """Tell whether a check says anything about signals: it was scored on a trace, or failed there in another way."""
    return check.trace_id is not None and (check.reading.status == "scored" or check.failed)


def fold(
    existing: Signal | None, window: FailureWindow, check: Check, *, evaluator: Evaluator, now_ns: int
) -> tuple[Decision, FailureWindow]:
    """Decide what a check means for the signal of its evaluator and agent; it may arrive out of order.

    Where the evaluator wants several failures, the checks count in the order in which they are folded, and those of a
    signal that is open go into it one by one. A check that errored and fails all the same needs no company.
    """
    if not counts(check):
        return Nothing(signal=existing), window
    severity = severity_of(check.reading.metrics.get("score"), evaluator.severity_bands, evaluator.severity)
    occurrence = _occurrence(check) if check.failed else None
    if evaluator.raise_after == EVERY_FAILURE or check.reading.status != "scored":
        if occurrence is None:
            return Nothing(signal=existing), window
        return _folded(existing, _alone(occurrence, severity), check, evaluator, now_ns), window
    closings = existing.closings if existing is not None else 0
    if window.closings != closings:
        window = FailureWindow(closings=closings)
    window = slid(window, None if occurrence is None else (occurrence, severity), of=evaluator.raise_after.of)
    is_closed = existing is None or existing.is_closed
    if occurrence is None or (is_closed and window.failures < evaluator.raise_after.failures):
        return Nothing(signal=existing), window
    failures, window = taken(window)
    if failures is None:
        return Nothing(signal=existing), window
    return _folded(existing, failures, check, evaluator, now_ns), window


def _folded(
    existing: Signal | None, failures: Failures, check: Check, evaluator: Evaluator, now_ns: int
) -> Raise | Fold | Escalate | Resurface | Reopen:
    """Put failures into the signal.

    It takes the severity its evaluator has now; where that depends on the score, the worst since it was opened.
    """
    if existing is None:
        return Raise(signal=_new(check, failures, now_ns), failures=failures.count)
    muted = existing.is_muted(now_ns)
    folded = replace(
        existing,
        severity=failures.severity,
        count=existing.count + failures.count,
        first_seen_ns=min(existing.first_seen_ns, failures.first_ns),
        last_seen_ns=max(existing.last_seen_ns, failures.last_ns),
        updated_at_ns=now_ns,
        evidence=newest((*existing.evidence, *failures.occurrences)),
        muted_until=existing.muted_until if muted else None,
    )
    if existing.is_closed:
        opened = replace(folded, status="open", resolution=None, is_unheard=muted)
        return Reopen(signal=opened, failures=failures.count)
    if is_worse(failures.severity, existing.severity):
        return Escalate(signal=replace(folded, is_unheard=muted), failures=failures.count)
    if evaluator.severity_bands:
        folded = replace(folded, severity=existing.severity)
    if existing.is_unheard and not muted:
        return Resurface(signal=replace(folded, is_unheard=False), failures=failures.count)
    return Fold(signal=folded, failures=failures.count)


def _occurrence(check: Check) -> Occurrence:
    verdict = check.reading.verdict
    return Occurrence(
        check_id=check.id,
        trace_id=check.trace_id or "",
        metrics=check.reading.metrics,
        reason=verdict.reason if verdict is not None else None,
        occurred_at_ns=check.recorded_at_ns,
    )


def _alone(occurrence: Occurrence, severity: Severity) -> Failures:
    at_ns = occurrence.occurred_at_ns
    return Failures(count=1, severity=severity, first_ns=at_ns, last_ns=at_ns, occurrences=(occurrence,))


def _new(check: Check, failures: Failures, now_ns: int) -> Signal:
    return Signal(
        id=derived_id("sig", check.project_id, check.evaluator_id, check.agent_id or ""),
        project_id=check.project_id,
        evaluator_id=check.evaluator_id,
        agent_id=check.agent_id,
        severity=failures.severity,
        count=failures.count,
        first_seen_ns=failures.first_ns,
        last_seen_ns=failures.last_ns,
        updated_at_ns=now_ns,
        evidence=failures.occurrences,
    )

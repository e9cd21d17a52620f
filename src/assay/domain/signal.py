"""Signals: what failing checks raise, one per (evaluator, agent), folding its occurrences."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, TypeAlias

from assay.domain.check import Check, Metrics
from assay.domain.evaluator import Evaluator, Severity
from assay.domain.identity import derived_id

SignalStatus = Literal["open", "acknowledged", "resolved", "archived"]
ChangeKind = Literal["raised", "reopened", "escalated", "resurfaced"]
EVIDENCE_KEPT = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """One failing check, as a signal remembers it."""

    check_id: str
    trace_id: str
    metrics: Metrics
    reason: str | None
    occurred_at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """A failure that somebody should see: its count, first and last time, and its last ten occurrences, newest first.

    `resolution` is the reason somebody gave when resolving it; a new failure takes it away.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Raise:
    """The first failure: this signal is new."""

    raises: ClassVar[bool] = True
    signal: Signal


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """Another failure of a signal that is still open or acknowledged."""

    raises: ClassVar[bool] = False
    signal: Signal


@dataclass(frozen=True, slots=True, kw_only=True)
class Reopen:
    """A failure after the signal was resolved or archived: it is open again."""

    raises: ClassVar[bool] = True
    signal: Signal


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    """The check is no reason for a signal: it did not fail, or belongs to no trace."""

    raises: ClassVar[bool] = False
    signal: Signal | None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ImpossibleStep:
    """The signal cannot make this step now; `message` says why and what it can do."""

    message: str


Decision: TypeAlias = Raise | Fold | Reopen | Nothing


def fold(existing: Signal | None, check: Check, *, severity: Severity, now_ns: int) -> Decision:
    """Decide what a check means for the signal of its evaluator and agent; it may arrive out of order.

    The signal takes the severity the evaluator has now.
    """
    if not check.failed or check.trace_id is None:
        return Nothing(signal=existing)
    occurrence = _occurrence(check, check.trace_id)
    if existing is None:
        return Raise(signal=_new(check, occurrence, severity, now_ns))
    folded = replace(
        existing,
        severity=severity,
        count=existing.count + 1,
        first_seen_ns=min(existing.first_seen_ns, occurrence.occurred_at_ns),
        last_seen_ns=max(existing.last_seen_ns, occurrence.occurred_at_ns),
        updated_at_ns=now_ns,
        evidence=_newest((*existing.evidence, occurrence)),
    )
    if existing.status in ("open", "acknowledged"):
        return Fold(signal=folded)
    return Reopen(signal=replace(folded, status="open", resolution=None))


def acknowledge(signal: Signal, *, now_ns: int) -> Signal | ImpossibleStep:
    """Note that somebody looks at it; only what is open can be, and once more changes nothing."""
    if signal.status == "acknowledged":
        return signal
    if signal.status != "open":
        return ImpossibleStep(
            message=f"This signal is {signal.status}; only an open one can be acknowledged. A new failure reopens it."
        )
    return replace(signal, status="acknowledged", updated_at_ns=now_ns)


def resolve(signal: Signal, *, reason: str, now_ns: int) -> Signal | ImpossibleStep:
    """Close it with a reason, which must be given; resolving again replaces the reason."""
    if not reason.strip():
        return ImpossibleStep(message="Resolving a signal needs a reason: say what was done about it.")
    if signal.status == "archived":
        return ImpossibleStep(
            message="This signal is archived; only an open, acknowledged or resolved one can be resolved."
        )
    return replace(signal, status="resolved", resolution=reason.strip(), updated_at_ns=now_ns)


def archive(signal: Signal, *, now_ns: int) -> Signal:
    """Put it away, from any state; a resolution stays with it, and a new failure reopens it."""
    if signal.status == "archived":
        return signal
    return replace(signal, status="archived", updated_at_ns=now_ns)


def _occurrence(check: Check, trace_id: str) -> Occurrence:
    verdict = check.reading.verdict
    return Occurrence(
        check_id=check.id,
        trace_id=trace_id,
        metrics=check.reading.metrics,
        reason=verdict.reason if verdict is not None else None,
        occurred_at_ns=check.recorded_at_ns,
    )


def _new(check: Check, occurrence: Occurrence, severity: Severity, now_ns: int) -> Signal:
    return Signal(
        id=derived_id("sig", check.project_id, check.evaluator_id, check.agent_id or ""),
        project_id=check.project_id,
        evaluator_id=check.evaluator_id,
        agent_id=check.agent_id,
        severity=severity,
        count=1,
        first_seen_ns=occurrence.occurred_at_ns,
        last_seen_ns=occurrence.occurred_at_ns,
        updated_at_ns=now_ns,
        evidence=(occurrence,),
    )


def _newest(occurrences: tuple[Occurrence, ...]) -> tuple[Occurrence, ...]:
    ordered = sorted(occurrences, key=lambda occurrence: (occurrence.occurred_at_ns, occurrence.check_id), reverse=True)
    return tuple(ordered[:EVIDENCE_KEPT])

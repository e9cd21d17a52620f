"""Write each check once, and fold the signals of those that failed."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from assay.domain.check import Check
from assay.domain.evaluator import Evaluator
from assay.domain.failure_window import EVERY_FAILURE, FailureWindow
from assay.domain.signal import ChangeKind, Signal, SignalChange, counts, fold
from assay.domain.signal_log import LogEntry, entry_of
from assay.ports import Transaction

STRONGEST_FIRST: tuple[ChangeKind | None, ...] = ("raised", "reopened", "escalated", "resurfaced", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What a recording really added: checks by status, and what happened to signals, one change of each at most."""

    statuses: Counter[str]
    changes: tuple[SignalChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Folded:
    """A signal that got failures in this recording, with the strongest thing that happened to it."""

    kind: ChangeKind | None
    signal: Signal
    entry: LogEntry


async def record(transaction: Transaction, checks: Sequence[Check], *, now_ns: int) -> Recorded:
    """Record checks and signals; a check recorded before counts for nothing, so redelivery is harmless.

    Evaluators and signals are taken in the order of their keys, and the log comes last, so that two recordings never
    wait for each other in a ring. An evaluator cannot be deleted meanwhile.
    """
    new_ids = await transaction.add_checks(checks)
    new = [check for check in checks if check.id in new_ids]
    telling: dict[tuple[str, str], dict[str, list[Check]]] = {}
    for check in new:
        if counts(check):
            of_agents = telling.setdefault((check.project_id, check.evaluator_id), {})
            of_agents.setdefault(check.agent_id or "", []).append(check)
    evaluators = await transaction.held_evaluators(list(telling))
    folded: list[tuple[_Folded, Evaluator]] = []
    for key, evaluator in sorted(evaluators.items()):
        for _, members in sorted(telling[key].items()):
            made = await _fold_all(transaction, evaluator, members, now_ns)
            if made is not None:
                folded.append((made, evaluator))
    await transaction.put_signals([made.signal for made, _ in folded], [made.entry for made, _ in folded])
    return Recorded(
        statuses=Counter(check.reading.status for check in new),
        changes=tuple(
            SignalChange(kind=made.kind, signal=made.signal, evaluator=evaluator, muted=made.signal.is_muted(now_ns))
            for made, evaluator in folded
            if made.kind is not None
        ),
    )


async def _fold_all(
    transaction: Transaction, evaluator: Evaluator, checks: Sequence[Check], now_ns: int
) -> _Folded | None:
    """Fold the checks of one agent in the order given."""
    is_windowed = evaluator.raise_after != EVERY_FAILURE
    if not is_windowed and not any(check.failed for check in checks):
        return None
    agent_id = checks[0].agent_id
    before = signal = await transaction.signal_for_update(evaluator.project_id, evaluator.id, agent_id)
    window = await transaction.failure_window(evaluator.id, agent_id) if is_windowed else FailureWindow()
    failures = 0
    kind: ChangeKind | None = None
    for check in checks:
        decision, window = fold(signal, window, check, evaluator=evaluator, now_ns=now_ns)
        signal = decision.signal
        failures += decision.failures
        if STRONGEST_FIRST.index(decision.kind) < STRONGEST_FIRST.index(kind):
            kind = decision.kind
    if is_windowed:
        await transaction.put_failure_window(evaluator.id, agent_id, window)
    if signal is None or not failures:
        return None
    rose = {"before": before.severity} if kind == "escalated" and before is not None else {}
    entry = entry_of(signal, kind or "folded", actor=None, at_ns=now_ns, failures=failures, **rose)
    return _Folded(kind=kind, signal=signal, entry=entry)

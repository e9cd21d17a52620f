"""Write each check once, and fold the signals of those that failed."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from assay.domain.check import Check
from assay.domain.signal import Raise, Reopen, SignalChange, fold
from assay.ports import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What a recording really added: checks by status, and what happened to signals, one change of each at most."""

    statuses: Counter[str]
    changes: tuple[SignalChange, ...]


async def record(transaction: Transaction, checks: Sequence[Check], *, now_ns: int) -> Recorded:
    """Record checks and signals; a check recorded before counts for nothing, so redelivery is harmless.

    Signals are taken in the order of their keys, so that two recordings never wait for each other in a ring.
    """
    new_ids = await transaction.add_checks(checks)
    new = [check for check in checks if check.id in new_ids]
    changes: list[SignalChange] = []
    failed: dict[tuple[str, str, str], list[Check]] = {}
    for check in new:
        if check.failed:
            failed.setdefault((check.project_id, check.evaluator_id, check.agent_id or ""), []).append(check)
    for project_id, evaluator_id, agent_id in sorted(failed):
        evaluator = await transaction.evaluator(project_id, evaluator_id)
        if evaluator is None:
            continue
        signal = await transaction.signal_for_update(project_id, evaluator_id, agent_id or None)
        kind = None
        for check in failed[project_id, evaluator_id, agent_id]:
            decision = fold(signal, check, severity=evaluator.severity, now_ns=now_ns)
            signal = decision.signal
            if isinstance(decision, Raise):
                kind = "raised"
            elif isinstance(decision, Reopen):
                kind = "reopened"
        if signal is not None:
            await transaction.put_signal(signal)
            if kind is not None:
                changes.append(SignalChange(kind=kind, signal=signal, evaluator=evaluator, muted=False))
    return Recorded(statuses=Counter(check.reading.status for check in new), changes=tuple(changes))

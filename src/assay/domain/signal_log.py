"""The log of signals: what failures and people did to each, in the order in which it became durable."""

from dataclasses import dataclass, field
from typing import Literal, get_args

from assay.domain.json_value import JsonObject, JsonValue
from assay.domain.severity import Severity
from assay.domain.signal import MutedUntil, Signal, SignalStatus

LogKind = Literal[
    "raised",
    "reopened",
    "escalated",
    "resurfaced",
    "folded",
    "acknowledged",
    "resolved",
    "archived",
    "muted",
    "unmuted",
    "assigned",
    "noted",
]
AUDITED: tuple[LogKind, ...] = tuple(kind for kind in get_args(LogKind) if kind != "folded")
"""What an audit tells, and what is kept for ever; of folds the last ones are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """Something that was done to a signal, and how that left it.

    `number` counts the entries of a project without a gap, from 1; it is 0 until the entry is written. `actor` is the
    id of the key it was done with, None for what failures did. `detail` has what the kind calls for: `failures`, and
    `before` where a severity or an assignee changed; `reason`; `note`.
    """

    number: int = 0
    project_id: str
    signal_id: str
    evaluator_id: str
    agent_id: str | None
    kind: LogKind
    at_ns: int
    actor: str | None
    status: SignalStatus
    severity: Severity
    count: int
    assignee: str | None
    muted_until: MutedUntil | None
    detail: JsonObject = field(default_factory=dict[str, JsonValue])


def entry_of(signal: Signal, kind: LogKind, *, actor: str | None, at_ns: int, **detail: JsonValue) -> LogEntry:
    """Return the entry of something that left the signal like this."""
    return LogEntry(
        project_id=signal.project_id,
        signal_id=signal.id,
        evaluator_id=signal.evaluator_id,
        agent_id=signal.agent_id,
        kind=kind,
        at_ns=at_ns,
        actor=actor,
        status=signal.status,
        severity=signal.severity,
        count=signal.count,
        assignee=signal.assignee,
        muted_until=signal.muted_until if signal.is_muted(at_ns) else None,
        detail=detail,
    )

"""Signals and agents, as sent and as answered."""

from typing import Annotated, Literal, cast

from pydantic import BeforeValidator, Field, JsonValue, WithJsonSchema
from pydantic_core import PydanticCustomError

from assay.api.schemas.fields import Answer, Cursor, Identifier, Limit, Moment, Query, Request, Text, iso, shown
from assay.domain.agent import Agent
from assay.domain.severity import Severity
from assay.domain.signal import MutedUntil, Signal, SignalStatus
from assay.domain.signal_log import LogEntry, LogKind
from assay.ingest.moments import read_moment
from assay.ports import SignalOrder

MOST_WORDS = 10
UNTIL_RESOLVED = "resolved"


def _muted_until(value: object) -> MutedUntil | None:
    if value is None or value == UNTIL_RESOLVED:
        return cast("MutedUntil | None", value)
    until_ns = read_moment(value) if isinstance(value, str) else None
    if until_ns is None:
        raise PydanticCustomError(
            "muted-until",
            'must be a time with its zone, like "2026-12-01T10:00:00Z", "resolved", or null; found {found}',
            {"found": shown(value)},
        )
    return until_ns


class SignalQuery(Query):
    """Which signals; what is left out filters nothing."""

    limit: Limit = 50
    cursor: Cursor = None
    order: Annotated[
        SignalOrder, Field(description="`seen` has the one seen last first; `raised` never moves under a reader.")
    ] = "seen"
    status: SignalStatus | None = None
    severity: Severity | None = None
    evaluator_id: Identifier | None = None
    agent_id: Identifier | None = None
    seen_since: Annotated[Moment | None, Field(description="Seen last then or later.")] = None
    seen_until: Annotated[Moment | None, Field(description="Seen last before then.")] = None
    reason: Annotated[
        Text | None, Field(max_length=200, description="Words that all stand in the reasons kept, in any case.")
    ] = None

    @property
    def words(self) -> tuple[str, ...]:
        """Return the words looked for."""
        return tuple(dict.fromkeys((self.reason or "").split()))


class HistoryQuery(Query):
    """Which page."""

    limit: Limit = 50
    cursor: Cursor = None


class SignalStep(Request):
    """What to do with a signal; what is left out stays. Resolving needs a reason; only a new failure opens it again."""

    status: Literal["acknowledged", "resolved", "archived"] | None = None
    reason: Annotated[Text | None, Field(max_length=2000)] = None
    assignee: Annotated[
        Text | None, Field(min_length=1, max_length=200, description="Who sees to it; null for nobody.")
    ] = None
    muted_until: Annotated[
        int | Literal["resolved"] | None,
        BeforeValidator(_muted_until),
        WithJsonSchema({"anyOf": [{"type": "string", "format": "date-time"}, {"const": "resolved"}, {"type": "null"}]}),
        Field(description="Tell nobody until then; null tells again."),
    ] = None


class NewNote(Request):
    """A note on a signal, which stays as it is."""

    note: Annotated[Text, Field(min_length=1, max_length=4000)]


class OccurrenceAnswer(Answer):
    """One failing check of a signal."""

    check_id: str
    trace_id: str
    metrics: dict[str, JsonValue]
    reason: str | None
    occurred_at: str


class SignalAnswer(Answer):
    """A failure that somebody should see, with its last ten occurrences, newest first."""

    id: str
    evaluator_id: str
    agent_id: str | None
    severity: Severity
    status: SignalStatus
    resolution: str | None
    assignee: str | None
    muted_until: Annotated[str | None, Field(description="A time, or `resolved`.")]
    note_count: int
    count: int
    first_seen_at: str
    last_seen_at: str
    updated_at: str
    evidence: list[OccurrenceAnswer]


class NoteAnswer(Answer):
    """What somebody noted; `author` is the id of their key."""

    number: int
    note: str
    author: str | None
    noted_at: str


class NoteList(Answer):
    """A page of notes, newest first."""

    notes: list[NoteAnswer]
    next_cursor: str | None


class LogEntryAnswer(Answer):
    """What was done to a signal, and how that left it; `actor` is the id of a key, null for what failures did."""

    number: int
    kind: LogKind
    occurred_at: str
    actor: str | None
    signal_id: str
    evaluator_id: str
    agent_id: str | None
    status: SignalStatus
    severity: Severity
    count: int
    assignee: str | None
    muted_until: str | None
    detail: dict[str, JsonValue]


class AuditAnswer(Answer):
    """A page of what was done to a signal, newest first."""

    entries: list[LogEntryAnswer]
    next_cursor: str | None


class SignalList(Answer):
    """A page of signals, the one seen or raised last first."""

    signals: list[SignalAnswer]
    next_cursor: str | None


class AgentAnswer(Answer):
    """An application that sent traces."""

    id: str
    name: str
    framework: str | None
    first_seen_at: str
    last_seen_at: str


class AgentList(Answer):
    """All agents of the project, by name."""

    agents: list[AgentAnswer]


def _shown_mute(until: MutedUntil | None) -> str | None:
    return iso(until) if isinstance(until, int) else until


def log_entry_answer(entry: LogEntry) -> LogEntryAnswer:
    """Return an entry as the API shows it."""
    return LogEntryAnswer(
        number=entry.number,
        kind=entry.kind,
        occurred_at=iso(entry.at_ns),
        actor=entry.actor,
        signal_id=entry.signal_id,
        evaluator_id=entry.evaluator_id,
        agent_id=entry.agent_id,
        status=entry.status,
        severity=entry.severity,
        count=entry.count,
        assignee=entry.assignee,
        muted_until=_shown_mute(entry.muted_until),
        detail=entry.detail,
    )


def note_answer(entry: LogEntry) -> NoteAnswer:
    """Return a note as the API shows it."""
    return NoteAnswer(
        number=entry.number, note=str(entry.detail["note"]), author=entry.actor, noted_at=iso(entry.at_ns)
    )


def signal_answer(signal: Signal, now_ns: int) -> SignalAnswer:
    """Return a signal as the API shows it; a mute that is over is none."""
    return SignalAnswer(
        id=signal.id,
        evaluator_id=signal.evaluator_id,
        agent_id=signal.agent_id,
        severity=signal.severity,
        status=signal.status,
        resolution=signal.resolution,
        assignee=signal.assignee,
        muted_until=_shown_mute(signal.muted_until) if signal.is_muted(now_ns) else None,
        note_count=signal.notes,
        count=signal.count,
        first_seen_at=iso(signal.first_seen_ns),
        last_seen_at=iso(signal.last_seen_ns),
        updated_at=iso(signal.updated_at_ns),
        evidence=[
            OccurrenceAnswer(
                check_id=occurrence.check_id,
                trace_id=occurrence.trace_id,
                metrics=occurrence.metrics,
                reason=occurrence.reason,
                occurred_at=iso(occurrence.occurred_at_ns),
            )
            for occurrence in signal.evidence
        ],
    )


def agent_answer(agent: Agent) -> AgentAnswer:
    """Return an agent as the API shows it."""
    return AgentAnswer(
        id=agent.id,
        name=agent.name,
        framework=agent.framework,
        first_seen_at=iso(agent.first_seen_ns),
        last_seen_at=iso(agent.last_seen_ns),
    )

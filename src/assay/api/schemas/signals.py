"""Signals and agents, as sent and as answered."""

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from assay.api.schemas.fields import Answer, Cursor, Identifier, Limit, Query, Request, Text, iso
from assay.domain.agent import Agent
from assay.domain.evaluator import Severity
from assay.domain.signal import Signal, SignalStatus


class SignalQuery(Query):
    """Which signals."""

    limit: Limit = 50
    cursor: Cursor = None
    status: SignalStatus | None = None
    evaluator_id: Identifier | None = None
    agent_id: Identifier | None = None


class SignalStep(Request):
    """What to do with a signal; resolving needs a reason. Only a new failure opens one again."""

    status: Literal["acknowledged", "resolved", "archived"]
    reason: Annotated[Text | None, Field(max_length=2000)] = None


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
    count: int
    first_seen_at: str
    last_seen_at: str
    updated_at: str
    evidence: list[OccurrenceAnswer]


class SignalList(Answer):
    """A page of signals, the one seen last first."""

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


def signal_answer(signal: Signal) -> SignalAnswer:
    """Return a signal as the API shows it."""
    return SignalAnswer(
        id=signal.id,
        evaluator_id=signal.evaluator_id,
        agent_id=signal.agent_id,
        severity=signal.severity,
        status=signal.status,
        resolution=signal.resolution,
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

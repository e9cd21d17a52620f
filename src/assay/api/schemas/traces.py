"""Stored traces, as answered."""

from typing import Annotated

from pydantic import Field, JsonValue

from assay.api.schemas.checks import EventAnswer
from assay.api.schemas.fields import Answer, Cursor, Identifier, Limit, Query, iso
from assay.domain.trace import Trace
from assay.interfaces.spans import microseconds_iso, span_record
from assay.interfaces.webhook import trace_record
from assay.ports import TraceRecord


class TraceQuery(Query):
    """Which traces."""

    limit: Limit = 50
    cursor: Cursor = None
    agent_id: Identifier | None = None


class TraceSummary(Answer):
    """What a listing tells of a trace; `revision` counts the changes to its spans."""

    id: str
    name: str | None
    agent_id: str | None
    span_count: int
    revision: int
    created_at: str
    updated_at: str


class TraceList(Answer):
    """A page of traces, newest first."""

    traces: list[TraceSummary]
    next_cursor: str | None


class WholeTrace(Answer):
    """A trace with its spans, root first, and the checks made over it, newest first.

    `trace` has the fields that an external evaluator gets; `spans` those that `handler` gets, and the attributes sent.
    """

    trace: dict[str, JsonValue]
    spans: list[dict[str, JsonValue]]
    checks: Annotated[list[EventAnswer], Field(description="The newest 200.")]


class Accepted(Answer):
    """What was stored of a request."""

    trace_ids: list[str]
    spans: int


def trace_summary(record: TraceRecord) -> TraceSummary:
    """Return a line of the listing."""
    return TraceSummary(
        id=record.trace_id,
        name=record.name,
        agent_id=record.agent_id,
        span_count=record.span_count,
        revision=record.revision,
        created_at=iso(record.created_at_ns),
        updated_at=iso(record.updated_at_ns),
    )


def whole_trace(trace: Trace, checks: list[EventAnswer]) -> WholeTrace:
    """Return a trace with all there is to it."""
    shown: dict[str, JsonValue] = {
        "id": trace.trace_id,
        "agentId": trace.agent_id,
        "agent": trace.agent,
        "revision": trace.revision,
        **trace_record(trace),
        "totalTokens": trace.totals.total_tokens,
        "cost": trace.totals.cost,
    }
    spans: list[dict[str, JsonValue]] = [
        {
            **span_record(span),
            "ended_at": microseconds_iso(span.ended_at_ns),
            "status": span.status,
            "total_tokens": span.total_tokens,
            "cache_read_tokens": span.cache_read_tokens,
            "cache_write_tokens": span.cache_write_tokens,
            "cost": span.cost,
            "attributes": span.attributes,
        }
        for span in trace.spans
    ]
    return WholeTrace(trace=shown, spans=spans, checks=checks)

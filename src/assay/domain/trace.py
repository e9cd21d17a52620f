"""Traces and their spans, in Assay's own terms whatever instrumentation sent them."""

from dataclasses import dataclass, field
from typing import Literal

from assay.domain.identity import derived_id
from assay.domain.json_value import JsonObject, JsonValue

SpanType = Literal["llm", "tool", "retrieval", "span"]
SpanStatus = Literal["UNSET", "OK", "ERROR"]
MOST_SPANS = 20_000
"""Spans that are kept of one trace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One operation of a trace.

    Ids are lower-case hex (OTLP) or the sender's own text (plain JSON). Times are nanoseconds since the
    epoch, UTC; None when the sender's were missing or impossible. `cost` is in the sender's currency.
    `kind` is what the instrumentation itself calls the span ("retrieval", "tool", ...), if it does.
    """

    trace_id: str
    span_id: str
    parent_span_id: str | None = None
    name: str
    started_at_ns: int | None = None
    ended_at_ns: int | None = None
    status: SpanStatus = "UNSET"
    error: str | None = None
    input: JsonValue = None
    output: JsonValue = None
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cost: float | None = None
    tool_calls: list[JsonValue] | None = None
    metadata: JsonObject | None = None
    kind: str | None = None
    agent: str | None = None
    framework: str | None = None
    session_id: str | None = None
    attributes: JsonObject = field(default_factory=dict[str, JsonValue])

    @property
    def type(self) -> SpanType:
        """Derive the type, in the order of the code-scorer contract: retrieval, llm, tool, else span."""
        if (self.metadata is not None and self.metadata.get("kind") == "retrieval") or self.kind == "retrieval":
            return "retrieval"
        if self.model:
            return "llm"
        if self.tool_calls:
            return "tool"
        return "span"

    @property
    def latency_ms(self) -> float | None:
        """Return the span's duration in milliseconds, None when a time is missing."""
        if self.started_at_ns is None or self.ended_at_ns is None:
            return None
        return (self.ended_at_ns - self.started_at_ns) / 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What a trace used in all, without counting a parent's repetition of its children."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One request through an application: its spans, root first, then by start time.

    `revision` counts the changes to its spans, so that late spans are checked again and a replay is not.
    """

    project_id: str
    trace_id: str
    revision: int = 1
    agent_id: str | None = None
    agent: str | None = None
    session_id: str | None = None
    created_at_ns: int
    spans: tuple[Span, ...]
    totals: Totals
    model: str | None = None
    framework: str | None = None
    tool_calls: list[JsonValue] = field(default_factory=list["JsonValue"])
    error: str | None = None
    metadata: JsonObject = field(default_factory=dict[str, JsonValue])

    @property
    def root(self) -> Span:
        """Return the span that stands for the trace: the top-most that arrived."""
        return self.spans[0]


def agent_id_of(project_id: str, agent: str) -> str:
    """Return the id of the agent with this name; the same on every server."""
    return derived_id("agt", project_id, agent)

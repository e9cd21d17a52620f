"""A trace as plain JSON, for senders without OpenTelemetry: the span fields that evaluators read, and nothing else."""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

import msgspec

from assay.domain.json_value import JsonObject, JsonValue
from assay.domain.text import storable
from assay.domain.trace import Span, SpanStatus
from assay.errors import InvalidInputError, UnsupportedMediaTypeError
from assay.ingest.bodies import BodyLimits, demand_repeated, demand_spans, plain_body
from assay.ingest.conventions import readers
from assay.ingest.json_document import kind_of, read_document, shown
from assay.ingest.moments import read_moment
from assay.ingest.otlp import JSON, Decoded
from assay.ingest.received import (
    LONGEST_NAME,
    LONGEST_SHARED,
    MAX_DEPTH,
    MOST_ENTRIES,
    STATUSES,
    cut_text,
    plausible_time,
)

EXPECTED = 'a trace such as {"agent": "support", "spans": [{"name": "answer", "input": "…", "output": "…"}]}'
LONGEST_ID = 200
NS_PER_MS = 1_000_000
INT64_HIGH = 2**63 - 1
Value = TypeVar("Value")


def _spellings(*names: str, **synonyms: str) -> dict[str, str]:
    """Return the field each accepted spelling stands for: snake_case, camelCase, and further synonyms."""
    camel = {name.split("_")[0] + "".join(word.title() for word in name.split("_")[1:]): name for name in names}
    return {**{name: name for name in names}, **camel, **synonyms}


TRACE_FIELDS = _spellings("trace_id", "agent", "session_id", "metadata", "spans", id="trace_id", agentName="agent")
SPAN_FIELDS = _spellings(
    "span_id",
    "parent_span_id",
    "name",
    "kind",
    "input",
    "output",
    "error",
    "status",
    "model",
    "framework",
    "latency_ms",
    "input_tokens",
    "output_tokens",
    "total_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cost",
    "tool_calls",
    "metadata",
    "attributes",
    "started_at",
    "ended_at",
    id="span_id",
    type="kind",
)


def decode_plain(
    body: bytes, content_type: str | None, content_encoding: str | None, limits: BodyLimits, *, now_ns: int
) -> Decoded:
    """Decode one trace, a list of traces, or `{"traces": [...]}`.

    Ids may be any text, and are made when absent. `started_at` and `ended_at` are ISO 8601 with a time zone, or a
    number since the epoch in seconds, milliseconds, microseconds or nanoseconds, told apart by its size.
    `latency_ms` gives the time that is missing; a span with no other time is taken to have ended at `now_ns`.

    Raises UnsupportedMediaTypeError and PayloadTooLargeError as OTLP does, and InvalidInputError that names the trace,
    the span and the field; nothing of such a request is taken.
    """
    named = (content_type or "").partition(";")[0].strip().lower()
    if named != JSON:
        found = f"is {named!r}" if named else "is missing"
        raise UnsupportedMediaTypeError(f"Content-Type {found}; allowed is {JSON}.")
    plain = plain_body(body, content_encoding, limits)
    document = read_document(plain, EXPECTED, limits.values)
    if isinstance(document, dict) and set(document) == {"traces"}:
        document = document["traces"]
        if not isinstance(document, list):
            raise InvalidInputError(f"traces is {kind_of(document)}; expected a list of traces.", field="traces")
    several = isinstance(document, list)
    traces = document if isinstance(document, list) else [document]
    count = sum(map(_count, traces))
    demand_spans(count, limits)
    if len(plain) * count > limits.decompressed_bytes:
        demand_repeated(sum(map(_repeated, traces)), "The metadata of traces", limits)
    spans: dict[tuple[str, str], Span] = {}
    for position, trace in enumerate(traces):
        for span in _trace(trace, f"traces[{position}]" if several else "", now_ns):
            spans[span.trace_id, span.span_id] = span
    return Decoded(spans=list(spans.values()), rejected=0, message="")


def _count(trace: JsonValue) -> int:
    spans = trace.get("spans") if isinstance(trace, dict) else None
    return len(spans) if isinstance(spans, list) else 0


def _repeated(trace: JsonValue) -> int:
    """Return how many bytes the trace's metadata would take with every span of it, which is the most it can."""
    metadata = trace.get("metadata") if isinstance(trace, dict) else None
    return _count(trace) * len(msgspec.json.encode(metadata)) if metadata else 0


class _Fields:
    """The fields of one JSON object under their snake_case names, each read once or refused with its place."""

    def __init__(self, value: JsonValue, where: str, allowed: Mapping[str, str]) -> None:
        self._where = where
        self._values: JsonObject = {}
        if not isinstance(value, dict):
            raise InvalidInputError(
                f"{where or 'The body'} is {kind_of(value)}; expected an object.", field=where or None
            )
        for spelling, inner in value.items():
            name = allowed.get(spelling)
            place = self.place(spelling)
            if name is None:
                fields = ", ".join(dict.fromkeys(allowed.values()))
                raise InvalidInputError(
                    f"{place} is not a field; allowed are {fields}. Put fields of your own into metadata.", field=place
                )
            if self._values.get(name) is not None and inner is not None:
                raise InvalidInputError(f"{place} repeats {name}, which is there already; keep one.", field=place)
            if inner is not None:
                self._values[name] = _kept(inner, place, 0)

    def place(self, name: str) -> str:
        """Return where a field is, as error messages say it."""
        return f"{self._where}.{name}" if self._where else name

    def any(self, name: str) -> JsonValue:
        """Return a field that may hold anything."""
        return self._values.get(name)

    def read(self, name: str, reader: Callable[[JsonValue], Value | None], expected: str) -> Value | None:
        """Return a field as the reader reads it; None when it is absent or null."""
        value = self._values.get(name)
        if value is None:
            return None
        read = reader(value)
        if read is None:
            place = self.place(name)
            raise InvalidInputError(f"{place} is {shown(value)}; expected {expected}.", field=place)
        return read

    def text(self, name: str) -> str | None:
        """Return a field of text; empty text is as good as none."""
        return self.read(name, _text, "text") or None

    def title(self, name: str) -> str | None:
        """Return a field of text that is shown in listings."""
        return self.read(name, _title, f"text of at most {LONGEST_SHARED} characters") or None

    def attributes(self) -> JsonObject:
        """Return the attributes, of which there may be only so many."""
        attributes = self.record("attributes") or {}
        if len(attributes) > MOST_ENTRIES:
            place = self.place("attributes")
            raise InvalidInputError(
                f"{place} holds {len(attributes)} entries; at most {MOST_ENTRIES} are allowed.", field=place
            )
        return attributes

    def identifier(self, name: str) -> str | None:
        """Return an id: text or a whole number, as text."""
        return self.read(name, _identifier, f"text of 1 to {LONGEST_ID} characters")

    def count(self, name: str) -> int | None:
        """Return a whole number."""
        return self.read(name, readers.count, "a whole number of at least 0")

    def amount(self, name: str) -> float | None:
        """Return a number."""
        return self.read(name, readers.amount, "a number from 0 to 1e18")

    def record(self, name: str) -> JsonObject | None:
        """Return an object."""
        return self.read(name, _object, "an object")

    def listed(self, name: str) -> list[JsonValue] | None:
        """Return a list."""
        return self.read(name, _list, "a list")

    def moment(self, name: str) -> int | None:
        """Return a time in nanoseconds since the epoch."""
        return self.read(
            name,
            read_moment,
            "ISO 8601 with a time zone, such as 2026-06-09T10:13:20Z, or a number since the epoch, after 1970",
        )


def _trace(value: JsonValue, where: str, now_ns: int) -> list[Span]:
    fields = _Fields(value, where, TRACE_FIELDS)
    listed = fields.listed("spans")
    if not listed:
        found = "is missing" if listed is None else "is empty"
        place = fields.place("spans")
        raise InvalidInputError(f"{place} {found}; expected a list of at least one span.", field=place)
    trace_id = fields.identifier("trace_id") or uuid.uuid4().hex
    agent, session_id = fields.title("agent"), fields.title("session_id")
    spans = [
        _span(_Fields(span, f"{fields.place('spans')}[{position}]", SPAN_FIELDS), position, trace_id, now_ns)
        for position, span in enumerate(listed)
    ]
    ids: set[str] = set()
    for position, span in enumerate(spans):
        if span.span_id in ids:
            place = f"{fields.place('spans')}[{position}].span_id"
            raise InvalidInputError(f"{place} is {span.span_id!r}, as that of a span before it.", field=place)
        ids.add(span.span_id)
    metadata = fields.record("metadata") or {}
    return [
        replace(
            span,
            agent=agent,
            session_id=session_id,
            metadata=span.metadata if span.parent_span_id in ids else {**metadata, **(span.metadata or {})} or None,
        )
        for span in spans
    ]


def _span(fields: _Fields, position: int, trace_id: str, now_ns: int) -> Span:
    started_at_ns, ended_at_ns = _times(fields, now_ns)
    status, error = _outcome(fields)
    given, answered = fields.count("input_tokens"), fields.count("output_tokens")
    total = fields.count("total_tokens")
    if total is None and (given is not None or answered is not None):
        total = (given or 0) + (answered or 0)
    return Span(
        trace_id=trace_id,
        span_id=fields.identifier("span_id") or _new_span_id(position),
        parent_span_id=fields.identifier("parent_span_id"),
        name=cut_text(fields.text("name") or "", LONGEST_NAME),
        started_at_ns=started_at_ns,
        ended_at_ns=ended_at_ns,
        status=status,
        error=error,
        input=fields.any("input"),
        output=fields.any("output"),
        model=fields.text("model"),
        input_tokens=given,
        output_tokens=answered,
        total_tokens=total,
        cache_read_tokens=fields.count("cache_read_tokens"),
        cache_write_tokens=fields.count("cache_write_tokens"),
        cost=fields.amount("cost"),
        tool_calls=fields.listed("tool_calls"),
        metadata=fields.record("metadata"),
        kind=(fields.text("kind") or "").lower() or None,
        framework=fields.title("framework"),
        attributes=fields.attributes(),
    )


def _outcome(fields: _Fields) -> tuple[SpanStatus, str | None]:
    """Return status and error: either gives the other."""
    status = fields.read("status", _status, f"one of {', '.join(STATUSES)}")
    error = fields.text("error")
    if status is None:
        return "ERROR" if error else "UNSET", error
    return status, error or ("error" if status == "ERROR" else None)


def _times(fields: _Fields, now_ns: int) -> tuple[int | None, int | None]:
    started_at_ns, ended_at_ns = fields.moment("started_at"), fields.moment("ended_at")
    latency_ms = fields.amount("latency_ms")
    if started_at_ns is not None and ended_at_ns is not None and ended_at_ns < started_at_ns:
        place = fields.place("ended_at")
        raise InvalidInputError(f"{place} lies before started_at; a span ends after it started.", field=place)
    if latency_ms is None:
        return started_at_ns, ended_at_ns
    latency_ns = round(latency_ms * NS_PER_MS)
    if started_at_ns is None:
        ended_at_ns = now_ns if ended_at_ns is None else ended_at_ns
        started_at_ns = plausible_time(ended_at_ns - latency_ns)
    elif ended_at_ns is None:
        ended_at_ns = plausible_time(started_at_ns + latency_ns)
    if started_at_ns is None or ended_at_ns is None:
        place = fields.place("latency_ms")
        raise InvalidInputError(f"{place} is {latency_ms:g}, longer than any span; it is in milliseconds.", field=place)
    return started_at_ns, ended_at_ns


def _new_span_id(position: int) -> str:
    """Return a new id; those of one trace sort by position, which keeps spans without a time in the order given."""
    return f"{position:06x}{uuid.uuid4().hex[:10]}"


def _kept(value: JsonValue, place: str, depth: int) -> JsonValue:
    """Return a value that every store and reader can hold; integers beyond 64 bits become text."""
    if depth > MAX_DEPTH:
        raise InvalidInputError(f"{place} is nested deeper than {MAX_DEPTH} levels.", field=place)
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, list):
        return [_kept(item, place, depth + 1) for item in value]
    if isinstance(value, dict):
        return {storable(key): _kept(item, place, depth + 1) for key, item in value.items()}
    if isinstance(value, int) and not -INT64_HIGH <= value <= INT64_HIGH:
        return str(value)
    return value


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None


def _title(value: JsonValue) -> str | None:
    return value if isinstance(value, str) and len(value) <= LONGEST_SHARED else None


def _status(value: JsonValue) -> SpanStatus | None:
    return next((status for status in STATUSES if isinstance(value, str) and value.upper() == status), None)


def _identifier(value: JsonValue) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    return value if isinstance(value, str) and value.strip() and len(value) <= LONGEST_ID else None


def _object(value: JsonValue) -> JsonObject | None:
    return value if isinstance(value, dict) else None


def _list(value: JsonValue) -> list[JsonValue] | None:
    return value if isinstance(value, list) else None

"""OTLP in protobuf: messages parsed by upb, read into plain spans."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias, TypeVar

import msgspec
from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1 import trace_pb2

from assay.domain.json_value import JsonObject, JsonValue
from assay.domain.text import without_nul
from assay.errors import InvalidInputError
from assay.ingest.bodies import BodyLimits, demand_spans, too_many_values
from assay.ingest.protobuf_wire import WireDefect, count_messages, layout
from assay.ingest.received import (
    LONGEST_NAME,
    LONGEST_SHARED,
    MOST_ENTRIES,
    STATUSES,
    Received,
    ReceivedSpan,
    Source,
    SpanDefect,
    cut_text,
    demand_entries,
    plausible_time,
)

TRACE_ID_BYTES = 16
SPAN_ID_BYTES = 8
NO_TRACE_ID = bytes(TRACE_ID_BYTES)
NO_SPAN_ID = bytes(SPAN_ID_BYTES)
LARGE = 256 * 1024
"""From here on, in bytes, a body could hold so many messages that they are counted before they are built."""
COUNTED = 10
"""How many times as many spans as allowed are counted, to say how many came."""


def read_protobuf(body: bytes, limits: BodyLimits) -> Received:
    """Return the spans of an ExportTraceServiceRequest; raise InvalidInputError when it is not one.

    Nesting is bounded by the parser: what is too deep for it is not a request. More spans or values than the limits
    allow raise PayloadTooLargeError; a message is many times larger than its bytes, so a large body is never parsed
    as a whole.
    """
    received = Received()
    values = _Values(limits.values)
    for where, source, spans in _large(body, limits, values) if len(body) > LARGE else _small(body, limits, values):
        for at, span in enumerate(spans):
            try:
                received.spans.append(_span(span, source, values))
            except SpanDefect as defect:
                received.reject(f"{where}.spans[{at}]", str(defect))
    return received


Batch: TypeAlias = tuple[str, Source, Iterable[trace_pb2.Span]]
AnyMessage = TypeVar("AnyMessage", bound=Message)


def _small(body: bytes, limits: BodyLimits, values: "_Values") -> Iterator[Batch]:
    request = _parsed(ExportTraceServiceRequest, body)
    demand_spans(sum(len(scope.spans) for group in request.resource_spans for scope in group.scope_spans), limits)
    for at_resource, group in enumerate(request.resource_spans):
        resource = _shared(group.resource, values)
        for at_scope, scope in enumerate(group.scope_spans):
            source = Source(resource=resource, scope=cut_text(without_nul(scope.scope.name), LONGEST_SHARED))
            yield _place(at_resource, at_scope), source, scope.spans


def _large(body: bytes, limits: BodyLimits, values: "_Values") -> Iterator[Batch]:
    """Parse span by span, as they are asked for."""
    try:
        groups, found = layout(body, COUNTED * limits.spans)
    except WireDefect as error:
        raise _no_request(error) from error
    spans = sum(len(scope.spans) for group in groups for scope in group.scopes)
    demand_spans(spans if found < COUNTED * limits.spans else found, limits)
    for at_resource, group in enumerate(groups):
        resource = _shared(_piece(Resource, "resource", group.resource, limits), values)
        for at_scope, scope in enumerate(group.scopes):
            name = _piece(InstrumentationScope, "scope", scope.scope, limits).name
            source = Source(resource=resource, scope=cut_text(without_nul(name), LONGEST_SHARED))
            pieces = (_piece(trace_pb2.Span, "span", body[start:end], limits) for start, end in scope.spans)
            yield _place(at_resource, at_scope), source, pieces


def _place(at_resource: int, at_scope: int) -> str:
    return f"resource_spans[{at_resource}].scope_spans[{at_scope}]"


def _piece(kind: type[AnyMessage], name: str, data: bytes, limits: BodyLimits) -> AnyMessage:
    """Parse a part of a body; one that is large is counted first."""
    if len(data) > LARGE:
        try:
            count = count_messages(name, data, 0, len(data), limits.values)
        except WireDefect as error:
            raise _no_request(error) from error
        if count > limits.values:
            raise too_many_values(limits.values)
    return _parsed(kind, data)


def _parsed(kind: type[AnyMessage], data: bytes) -> AnyMessage:
    message = kind()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise _no_request(error) from error
    return message


def _no_request(error: Exception) -> InvalidInputError:
    return InvalidInputError(f"The body is not an OTLP ExportTraceServiceRequest in protobuf: {error}.")


def _shared(resource: Resource, values: "_Values") -> JsonObject:
    """Return the resource's attributes; a malformed resource costs its attributes, not the spans."""
    try:
        return values.of_pairs(resource.attributes, "resource.attributes")
    except SpanDefect:
        return {}


def _span(span: trace_pb2.Span, source: Source, values: "_Values") -> ReceivedSpan:
    trace_id = span.trace_id
    if len(trace_id) != TRACE_ID_BYTES or trace_id == NO_TRACE_ID:
        raise SpanDefect(f"trace_id is {_shown(trace_id)}; expected {TRACE_ID_BYTES} bytes that are not all zero.")
    span_id = span.span_id
    if len(span_id) != SPAN_ID_BYTES or span_id == NO_SPAN_ID:
        raise SpanDefect(f"span_id is {_shown(span_id)}; expected {SPAN_ID_BYTES} bytes that are not all zero.")
    parent_id = span.parent_span_id
    if parent_id and len(parent_id) != SPAN_ID_BYTES:
        raise SpanDefect(f"parent_span_id is {_shown(parent_id)}; expected {SPAN_ID_BYTES} bytes, or none.")
    status = span.status
    code = status.code
    events = span.events
    if events:
        demand_entries(len(events), "events")
    return ReceivedSpan(
        trace_id.hex(),
        span_id.hex(),
        parent_id.hex() if parent_id and parent_id != NO_SPAN_ID else None,
        cut_text(without_nul(span.name), LONGEST_NAME),
        plausible_time(span.start_time_unix_nano),
        plausible_time(span.end_time_unix_nano),
        STATUSES[code] if code in (0, 1, 2) else "UNSET",
        without_nul(status.message),
        values.of_pairs(span.attributes, "attributes"),
        [(without_nul(event.name), values.of_pairs(event.attributes, "event.attributes")) for event in events]
        if events
        else [],
        source,
    )


def _shown(identifier: bytes) -> str:
    return identifier[:32].hex() or "empty"


class _Values:
    """Reads attributes and their values, as many in all as the limits allow."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._left = most

    def of_pairs(self, pairs: Sequence[KeyValue], where: str) -> JsonObject:
        """Return attributes of a span, an event or a resource, of which there may be only so many."""
        if len(pairs) > MOST_ENTRIES:
            demand_entries(len(pairs), where)
        return self._object(pairs)

    def _object(self, pairs: Sequence[KeyValue]) -> JsonObject:
        self._left -= len(pairs)
        if self._left < 0:
            raise too_many_values(self._most)
        attributes: JsonObject = {}
        for pair in pairs:
            value = pair.value
            # Most attributes are text, and this look costs a third of asking which kind it is.
            text = value.string_value
            if text:
                attributes[without_nul(pair.key)] = without_nul(text)
            else:
                attributes[without_nul(pair.key)] = self._value(value)
        return attributes

    def _value(self, value: AnyValue) -> JsonValue:
        match value.WhichOneof("value"):
            case "string_value":
                return without_nul(value.string_value)
            case "int_value":
                return value.int_value
            case "double_value":
                number = value.double_value
                return number if math.isfinite(number) else _special(number)
            case "bool_value":
                return value.bool_value
            case "array_value":
                items = value.array_value.values
                self._left -= len(items)
                if self._left < 0:
                    raise too_many_values(self._most)
                return [self._value(item) for item in items]
            case "kvlist_value":
                return self._object(value.kvlist_value.values)
            case "bytes_value":
                return msgspec.to_builtins(value.bytes_value)
            case _:
                return None


def _special(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    return "Infinity" if number > 0 else "-Infinity"

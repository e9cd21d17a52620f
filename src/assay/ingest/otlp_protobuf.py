"""OTLP in protobuf: messages parsed by upb, read into plain spans."""

import math
from collections.abc import Iterable

import msgspec
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1 import trace_pb2

from assay.domain.json_value import JsonObject, JsonValue
from assay.errors import InvalidInputError
from assay.ingest.received import (
    STATUSES,
    Received,
    ReceivedSpan,
    Source,
    SpanDefect,
    plausible_time,
)

TRACE_ID_BYTES = 16
SPAN_ID_BYTES = 8
NO_TRACE_ID = bytes(TRACE_ID_BYTES)
NO_SPAN_ID = bytes(SPAN_ID_BYTES)


def read_protobuf(body: bytes) -> Received:
    """Return the spans of an ExportTraceServiceRequest; raise InvalidInputError when it is not one.

    Nesting is bounded by the parser: what is too deep for it is not a request.
    """
    request = ExportTraceServiceRequest()
    try:
        request.ParseFromString(body)
    except DecodeError as error:
        raise InvalidInputError(f"The body is not an OTLP ExportTraceServiceRequest in protobuf: {error}.") from error
    received = Received()
    for at_resource, resource_spans in enumerate(request.resource_spans):
        resource = _object(resource_spans.resource.attributes)
        for at_scope, scope_spans in enumerate(resource_spans.scope_spans):
            source = Source(resource=resource, scope=_text(scope_spans.scope.name))
            for at_span, span in enumerate(scope_spans.spans):
                try:
                    received.spans.append(_span(span, source))
                except SpanDefect as defect:
                    where = f"resource_spans[{at_resource}].scope_spans[{at_scope}].spans[{at_span}]"
                    received.reject(where, str(defect))
    return received


def _span(span: trace_pb2.Span, source: Source) -> ReceivedSpan:
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
    return ReceivedSpan(
        trace_id.hex(),
        span_id.hex(),
        parent_id.hex() if parent_id and parent_id != NO_SPAN_ID else None,
        _text(span.name),
        plausible_time(span.start_time_unix_nano),
        plausible_time(span.end_time_unix_nano),
        STATUSES[code] if code in (0, 1, 2) else "UNSET",
        _text(status.message),
        _object(span.attributes),
        [(_text(event.name), _object(event.attributes)) for event in span.events],
        source,
    )


def _shown(identifier: bytes) -> str:
    return identifier[:32].hex() or "empty"


def _object(pairs: Iterable[KeyValue]) -> JsonObject:
    attributes: JsonObject = {}
    for pair in pairs:
        value = pair.value
        # Most attributes are text, and this look costs a third of asking which kind it is.
        text = value.string_value
        if text:
            attributes[_text(pair.key)] = _text(text)
        else:
            attributes[_text(pair.key)] = _value(value)
    return attributes


def _value(value: AnyValue) -> JsonValue:
    match value.WhichOneof("value"):
        case "string_value":
            return _text(value.string_value)
        case "int_value":
            return value.int_value
        case "double_value":
            number = value.double_value
            return number if math.isfinite(number) else _special(number)
        case "bool_value":
            return value.bool_value
        case "array_value":
            return [_value(item) for item in value.array_value.values]
        case "kvlist_value":
            return _object(value.kvlist_value.values)
        case "bytes_value":
            return msgspec.to_builtins(value.bytes_value)
        case _:
            return None


def _text(text: str) -> str:
    return text if "\0" not in text else text.replace("\0", "\ufffd")


def _special(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    return "Infinity" if number > 0 else "-Infinity"

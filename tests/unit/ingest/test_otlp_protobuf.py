"""OTLP in protobuf: what is refused as a whole, and what costs one span."""

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1 import trace_pb2

from assay.errors import InvalidInputError, UnsupportedMediaTypeError
from assay.ingest.otlp import BodyLimits, Decoded, decode_traces, encode_error, encode_response

PROTOBUF = "application/x-protobuf"
JSON = "application/json"
FIRST_FIELD, SECOND_FIELD, ANY_VALUE_ARRAY, SPAN_ATTRIBUTE = 0x0A, 0x12, 0x2A, 0x4A


def decode(body: bytes) -> Decoded:
    return decode_traces(body, PROTOBUF, None, BodyLimits())


def request(*spans: trace_pb2.Span) -> bytes:
    scope = trace_pb2.ScopeSpans(spans=spans)
    return ExportTraceServiceRequest(resource_spans=[trace_pb2.ResourceSpans(scope_spans=[scope])]).SerializeToString()


@pytest.mark.parametrize(
    ("trace_id", "span_id", "parent_span_id", "told"),
    [
        (b"", b"\x01" * 8, b"", "trace_id is empty"),
        (b"\0" * 16, b"\x01" * 8, b"", "not all zero"),
        (b"\x01" * 16, b"\x01" * 7, b"", "span_id is 01010101010101"),
        (b"\x01" * 16, b"\0" * 8, b"", "not all zero"),
        (b"\x01" * 16, b"\x01" * 8, b"\x01", "parent_span_id is 01"),
    ],
)
def test_a_bad_id_costs_its_span_and_no_other(
    trace_id: bytes, span_id: bytes, parent_span_id: bytes, told: str
) -> None:
    good = trace_pb2.Span(trace_id=b"\x02" * 16, span_id=b"\x02" * 8)
    bad = trace_pb2.Span(trace_id=trace_id, span_id=span_id, parent_span_id=parent_span_id)
    decoded = decode(request(bad, good))
    assert [span.span_id for span in decoded.spans] == ["02" * 8]
    assert decoded.rejected == 1
    assert told in decoded.message
    assert "spans[0]" in decoded.message


def test_text_that_is_not_utf8_makes_the_body_no_request() -> None:
    body = request(trace_pb2.Span(trace_id=b"\x01" * 16, span_id=b"\x01" * 8, name="NAME")).replace(
        b"NAME", b"\xff\xfe\xff\xfe"
    )
    with pytest.raises(InvalidInputError, match="not an OTLP ExportTraceServiceRequest"):
        decode(body)


def test_a_nesting_bomb_is_refused() -> None:
    value = b""
    for _ in range(3000):
        value = field(ANY_VALUE_ARRAY, field(FIRST_FIELD, value))
    span = trace_pb2.Span(trace_id=b"\x01" * 16, span_id=b"\x01" * 8).SerializeToString()
    attribute = field(SPAN_ATTRIBUTE, field(FIRST_FIELD, b"k") + field(SECOND_FIELD, value))
    body = field(FIRST_FIELD, field(SECOND_FIELD, field(SECOND_FIELD, span + attribute)))
    with pytest.raises(InvalidInputError):
        decode(body)


def field(tag: int, content: bytes) -> bytes:
    """Return a length-delimited field, for messages deeper than the library makes."""
    length, size = len(content), bytearray()
    while length > 0x7F:
        size.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([tag, *size, length]) + content


def test_json_sent_as_protobuf_is_refused() -> None:
    with pytest.raises(InvalidInputError):
        decode(b'{"resourceSpans": []}')


@pytest.mark.parametrize("content_type", [None, "", "text/plain", "application/x-www-form-urlencoded"])
def test_another_content_type_is_refused_with_those_allowed(content_type: str | None) -> None:
    with pytest.raises(UnsupportedMediaTypeError, match=r"application/x-protobuf and application/json"):
        decode_traces(b"", content_type, None, BodyLimits())


def test_success_answers_in_the_senders_encoding_and_tells_of_rejected_spans_only() -> None:
    assert encode_response(f"{JSON}; charset=utf-8", 0, "") == (b"{}", JSON)
    assert encode_response(JSON, 2, "bad ids") == (
        b'{"partialSuccess":{"rejectedSpans":"2","errorMessage":"bad ids"}}',
        JSON,
    )
    assert encode_response(PROTOBUF, 0, "") == (b"", PROTOBUF)
    body, _ = encode_response(PROTOBUF, 2, "bad ids")
    partial = ExportTraceServiceResponse.FromString(body).partial_success
    assert (partial.rejected_spans, partial.error_message) == (2, "bad ids")


def test_errors_are_a_status_in_the_senders_encoding() -> None:
    assert encode_error(JSON, 400, "no") == (b'{"code":3,"message":"no"}', JSON)
    assert encode_error("text/plain", 415, "no")[1] == JSON
    body, media_type = encode_error(PROTOBUF, 429, "x" * 200)
    assert media_type == PROTOBUF
    assert body == b"\x08\x08\x12\xc8\x01" + b"x" * 200

"""A small body cannot become a large number of objects, nor a large store."""

import json
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan

from assay.errors import InvalidInputError, PayloadTooLargeError
from assay.ingest.bodies import BodyLimits
from assay.ingest.otlp import Decoded, decode_traces
from assay.ingest.plain import decode_plain
from support.otlp_bodies import SPAN_ID, TRACE_ID, otlp_body, otlp_span
from support.otlp_json import as_otlp_json

PROTOBUF = "application/x-protobuf"
JSON = "application/json"
LARGE = 300_000
"""Bytes of a body that is not parsed as a whole."""


def request(*spans: OtlpSpan, resource: dict[str, str] | None = None) -> ExportTraceServiceRequest:
    message = ExportTraceServiceRequest()
    group = message.resource_spans.add()
    for key, value in (resource or {}).items():
        group.resource.attributes.append(KeyValue(key=key, value=AnyValue(string_value=value)))
    scope = group.scope_spans.add()
    scope.scope.name = "agenta.sdk"
    scope.spans.extend(spans)
    return message


def a_proto_span(number: int, *attributes: KeyValue, text: str = "") -> OtlpSpan:
    held = [*attributes, KeyValue(key="input.value", value=AnyValue(string_value=text))] if text else attributes
    return OtlpSpan(
        trace_id=bytes.fromhex(TRACE_ID), span_id=number.to_bytes(8, "big"), name=f"s{number}", attributes=held
    )


def read(body: bytes, content_type: str = PROTOBUF, **limits: int) -> Decoded:
    return decode_traces(body, content_type, None, BodyLimits(**limits))


def read_plain(document: Any, **limits: int) -> Decoded:
    return decode_plain(json.dumps(document).encode(), JSON, None, BodyLimits(**limits), now_ns=2**60)


@pytest.mark.parametrize("encoding", [PROTOBUF, JSON])
def test_as_many_spans_as_allowed_are_read_and_more_refused_with_both_numbers(encoding: str) -> None:
    message = request(*(a_proto_span(number) for number in range(1, 12)))
    body = message.SerializeToString() if encoding == PROTOBUF else as_otlp_json(message)
    assert len(read(body, encoding, spans=11).spans) == 11
    with pytest.raises(PayloadTooLargeError, match="holds 11 spans; at most 10 are allowed"):
        read(body, encoding, spans=10)


def test_spans_of_plain_traces_are_counted_over_the_request() -> None:
    assert len(read_plain([{"spans": [{}, {}]}, {"spans": [{}]}], spans=3).spans) == 3
    with pytest.raises(PayloadTooLargeError, match="holds 3 spans; at most 2 are allowed"):
        read_plain([{"spans": [{}, {}]}, {"spans": [{}]}], spans=2)


def test_seven_hundred_thousand_empty_spans_are_counted_before_they_are_read() -> None:
    spans = b"{}," * 699_999 + b"{}"
    with pytest.raises(PayloadTooLargeError, match="holds 700000 spans"):
        decode_plain(b'{"trace_id":"z","spans":[' + spans + b"]}", JSON, None, BodyLimits(), now_ns=0)
    with pytest.raises(PayloadTooLargeError, match="holds 700000 spans"):
        read(b'{"resourceSpans":[{"scopeSpans":[{"spans":[' + spans + b"]}]}]}", JSON)


@pytest.mark.parametrize("filling", [b"{},", b"[],", b"0,"])
def test_a_document_of_too_many_values_is_refused_before_it_is_read(filling: bytes) -> None:
    body = b'{"resourceSpans":[{"x":[' + filling * 2_100_000 + b"0]}]}"
    with pytest.raises(PayloadTooLargeError, match="more than 2000000 values"):
        read(body, JSON)


def test_a_large_protobuf_body_reads_as_the_same_spans_sent_in_json() -> None:
    message = request(*(a_proto_span(number, text="x" * 1000) for number in range(1, 400)), resource={"a": "b"})
    message.resource_spans.add().resource.attributes.append(KeyValue(key="c", value=AnyValue(int_value=5)))
    message.resource_spans[1].scope_spans.add().spans.append(a_proto_span(1000, text="last"))
    message.resource_spans[1].scope_spans.add().spans.append(OtlpSpan(trace_id=b"short"))
    body = message.SerializeToString()
    assert len(body) > LARGE
    decoded = read(body)
    assert decoded.spans == read(as_otlp_json(message), JSON).spans
    assert (len(decoded.spans), decoded.spans[0].framework) == (400, "agenta")
    assert decoded.spans[-1].attributes["resource"] == {"c": 5}
    assert decoded.rejected == 1
    assert decoded.message.startswith("resource_spans[1].scope_spans[1].spans[0]: trace_id is")


@pytest.mark.parametrize(
    "body",
    [b"\x0a\x00" * LARGE, b"\x0a\x80\x89\x7a" + b"\x12\x00" * 1_000_000],
    ids=["resources", "scopes"],
)
def test_empty_messages_in_protobuf_are_counted_before_they_are_built(body: bytes) -> None:
    with pytest.raises((PayloadTooLargeError, InvalidInputError)):
        read(body)


@pytest.mark.parametrize("body", [b"\x0a\xff", b"\x0a\x7f" * 3, b"\x0b" * 3, b"\x08" + b"\xff" * 20, b"\x09"])
def test_a_large_body_that_is_no_protobuf_is_refused(body: bytes) -> None:
    text = "x" * LARGE
    good = request(a_proto_span(1, text=text)).SerializeToString()
    assert read(good).spans[0].input == text
    with pytest.raises(InvalidInputError, match="in protobuf"):
        read(good + body)


def test_a_span_with_too_many_attributes_or_events_is_rejected_alone() -> None:
    many = {str(number): number for number in range(2001)}
    full = dict(list(many.items())[:2000])
    decoded = read(otlp_body(otlp_span(many), otlp_span(full, spanId="00000000000000aa")), JSON)
    assert [len(span.attributes) for span in decoded.spans] == [2000]
    assert "attributes holds 2001 entries; at most 2000 are allowed" in decoded.message
    pairs = [KeyValue(key=str(number)) for number in range(2001)]
    decoded = read(request(a_proto_span(1, *pairs), a_proto_span(2)).SerializeToString())
    assert (len(decoded.spans), decoded.rejected) == (1, 1)
    assert "attributes holds 2001 entries" in decoded.message
    span = a_proto_span(1)
    span.events.extend(OtlpSpan.Event() for _ in range(2001))
    for decoded in (read(request(span).SerializeToString()), read(as_otlp_json(request(span)), JSON)):
        assert decoded.spans == []
        assert "events holds 2001 entries" in decoded.message
    with pytest.raises(InvalidInputError, match="attributes holds 2001 entries"):
        read_plain({"spans": [{"attributes": many}]})


def test_values_inside_attributes_are_counted_over_the_request() -> None:
    listed = KeyValue(key="k", value=AnyValue(array_value=ArrayValue(values=[AnyValue() for _ in range(50)])))
    body = request(*(a_proto_span(number, listed) for number in range(1, 11))).SerializeToString()
    assert len(read(body, values=600).spans) == 10
    with pytest.raises(PayloadTooLargeError, match="more than 300 values"):
        read(body, values=300)


def test_a_large_span_is_counted_before_it_is_built() -> None:
    empty = KeyValue(key="k", value=AnyValue(array_value=ArrayValue(values=[AnyValue()] * 200_000)))
    body = request(a_proto_span(1, empty)).SerializeToString()
    assert len(body) > LARGE
    with pytest.raises(PayloadTooLargeError, match="more than 100000 values"):
        read(body, values=100_000)


@pytest.mark.parametrize("encoding", [PROTOBUF, JSON])
def test_a_resource_kept_with_every_span_cannot_fill_the_store(encoding: str) -> None:
    message = request(*(a_proto_span(number) for number in range(1, 101)), resource={"k": "x" * 10_000})
    body = message.SerializeToString() if encoding == PROTOBUF else as_otlp_json(message)
    assert len(read(body, encoding).spans) == 100
    with pytest.raises(PayloadTooLargeError, match="attributes of resources, which are kept with every span"):
        read(body, encoding, decompressed_bytes=500_000)


def test_metadata_kept_with_every_span_cannot_fill_the_store() -> None:
    document: dict[str, Any] = {"metadata": {"k": "x" * 10_000}, "spans": [{}] * 100}
    assert len(read_plain(document).spans) == 100
    with pytest.raises(PayloadTooLargeError, match="metadata of traces, which are kept with every span"):
        read_plain(document, decompressed_bytes=500_000)


def test_names_are_cut_and_say_so() -> None:
    long = otlp_span({"session.id": "s" * 500}, name="n" * 5000, spanId=SPAN_ID)
    (span,) = read(otlp_body(long, scope="openinference.instrumentation." + "f" * 900), JSON).spans
    assert span.name == "n" * 999 + "…"
    assert span.session_id == "s" * 199 + "…"
    assert len(span.framework or "") <= 200
    with pytest.raises(InvalidInputError, match=r"agent is .*expected text of at most 200 characters"):
        read_plain({"agent": "a" * 201, "spans": [{}]})

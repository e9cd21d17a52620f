"""Whatever a request holds, its protobuf and its JSON are read as the same spans."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1 import trace_pb2

from assay.ingest.otlp import BodyLimits, decode_traces
from support.otlp_json import as_otlp_json

PROTOBUF = "application/x-protobuf"
MEANT = (
    "gen_ai.request.model",
    "gen_ai.usage.input_tokens",
    "gen_ai.input.messages",
    "gen_ai.prompt.0.content",
    "input.value",
    "input.mime_type",
    "output.value",
    "metadata",
    "session.id",
    "ag.data.inputs",
    "ag.data.outputs.x",
    "ag.metrics.unit.costs.total",
    "ag.type.node",
    "openinference.span.kind",
    "llm.input_messages.0.message.content",
    "tool.name",
)

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
keys = st.sampled_from(MEANT) | text


def as_array(values: list[AnyValue]) -> AnyValue:
    return AnyValue(array_value=ArrayValue(values=values))


def as_list(pairs: list[tuple[str, AnyValue]]) -> AnyValue:
    return AnyValue(kvlist_value=KeyValueList(values=as_pairs(pairs)))


def as_pairs(pairs: list[tuple[str, AnyValue]]) -> list[KeyValue]:
    return [KeyValue(key=key, value=value) for key, value in pairs]


values: st.SearchStrategy[AnyValue] = st.recursive(
    st.one_of(
        st.builds(AnyValue, string_value=text | st.sampled_from(['{"a": [1]}', "12", "tool"])),
        st.builds(AnyValue, int_value=st.integers(-(2**63), 2**63 - 1)),
        st.builds(AnyValue, double_value=st.floats()),
        st.builds(AnyValue, bool_value=st.booleans()),
        st.builds(AnyValue, bytes_value=st.binary(max_size=4)),
        st.just(AnyValue()),
    ),
    lambda inner: st.lists(inner, max_size=3).map(as_array) | st.lists(st.tuples(keys, inner), max_size=3).map(as_list),
    max_leaves=6,
)
attributes = st.lists(st.tuples(keys, values), max_size=5).map(as_pairs)
identifiers = st.sampled_from([b"", b"\0" * 8, b"\x01" * 8, b"\xab" * 8, b"\x01" * 7])
times = st.integers(0, 2**64 - 1) | st.integers(1_780_000_000 * 10**9, 1_790_000_000 * 10**9)
spans = st.builds(
    trace_pb2.Span,
    trace_id=st.sampled_from([b"\x01" * 16, b"\xfe" * 16, b"\0" * 16, b"\x01"]),
    span_id=identifiers,
    parent_span_id=identifiers,
    name=text,
    start_time_unix_nano=times,
    end_time_unix_nano=times,
    status=st.builds(trace_pb2.Status, code=st.integers(0, 3), message=text),
    attributes=attributes,
    events=st.lists(
        st.builds(
            trace_pb2.Span.Event,
            name=st.sampled_from(["exception", "gen_ai.user.message", "gen_ai.choice", "other"]),
            attributes=attributes,
        ),
        max_size=2,
    ),
)
resource_spans = st.builds(
    trace_pb2.ResourceSpans,
    resource=st.builds(Resource, attributes=attributes),
    scope_spans=st.lists(
        st.builds(
            trace_pb2.ScopeSpans,
            scope=st.builds(InstrumentationScope, name=text | st.just("openinference.instrumentation.langchain")),
            spans=st.lists(spans, max_size=3),
        ),
        max_size=2,
    ),
)
requests = st.builds(ExportTraceServiceRequest, resource_spans=st.lists(resource_spans, max_size=2))


@given(requests)
@settings(max_examples=60, deadline=None)
def test_protobuf_and_json_of_one_request_are_read_alike(request: Any) -> None:
    from_protobuf = decode_traces(request.SerializeToString(), PROTOBUF, None, BodyLimits())
    from_json = decode_traces(as_otlp_json(request), "application/json", None, BodyLimits())
    assert from_json.spans == from_protobuf.spans
    assert from_json.rejected == from_protobuf.rejected

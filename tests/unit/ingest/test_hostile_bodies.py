"""Whatever a body holds, it is read or refused; and what is read can be checked, shown and stored."""

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.domain.trace import Span
from assay.errors import InvalidInputError
from assay.ingest.assembly import assemble
from assay.ingest.bodies import BodyLimits
from assay.ingest.conventions.families import EXACT
from assay.ingest.otlp import decode_traces
from assay.ingest.plain import SPAN_FIELDS, TRACE_FIELDS, decode_plain
from assay.interfaces import evaluate, handler, webhook
from assay.testing import a_revision
from support.otlp_bodies import SPAN_ID, TRACE_ID, otlp_body, otlp_span, pairs

OTLP_NAMES = (
    "resourceSpans resource attributes scopeSpans scope name spans traceId spanId parentSpanId startTimeUnixNano "
    "endTimeUnixNano status code message events key value stringValue intValue doubleValue boolValue arrayValue "
    "kvlistValue bytesValue values"
)
KEYS = (
    *EXACT,
    "gen_ai.prompt.0.content",
    "gen_ai.prompt.0",
    "llm.input_messages.0.message",
    "ag.metrics",
    "ag",
    "ag.x.",
)

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(
        [TRACE_ID, SPAN_ID, "1781000000000000000", '[{"role": "user", "parts": [1]}]', "@ag.type=json:[1]"]
    )
)


def tree(names: Sequence[str]) -> st.SearchStrategy[Any]:
    return st.recursive(
        scalars,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(names) | st.text(max_size=3), inner, max_size=4)
        ),
        max_leaves=12,
    )


def as_body(document: Any) -> bytes:
    return json.dumps(document).encode()


def use(spans: list[Span]) -> None:
    """Do with spans what the live flow does."""
    traces: dict[str, list[Span]] = {}
    for span in spans:
        traces.setdefault(span.trace_id, []).append(span)
    for members in traces.values():
        trace = assemble("default", members, revision=1, created_at_ns=0, agent_id=None, agent=None)
        for seen in (
            evaluate.arguments(trace),
            handler.arguments(trace),
            webhook.payload(a_revision(), trace),
            trace.spans,
            trace.totals,
        ):
            encoded = msgspec.json.encode(seen)
            assert b"\\u0000" not in encoded


@given(tree(OTLP_NAMES.split()))
@settings(max_examples=100, deadline=None)
def test_any_json_as_otlp(document: Any) -> None:
    with suppress(InvalidInputError):
        use(decode_traces(as_body(document), "application/json", None, BodyLimits()).spans)


@given(st.dictionaries(st.sampled_from(sorted(otlp_span())), tree(OTLP_NAMES.split()), max_size=2))
@settings(max_examples=100, deadline=None)
def test_a_span_with_any_json_in_its_fields(fields: Any) -> None:
    decoded = decode_traces(otlp_body({**otlp_span(), **fields}), "application/json", None, BodyLimits())
    assert len(decoded.spans) + decoded.rejected == 1
    use(decoded.spans)


@given(st.dictionaries(st.sampled_from(KEYS), tree(["role", "parts", "content", "message", "0"]), max_size=5))
@settings(max_examples=100, deadline=None)
def test_a_span_with_any_value_under_the_names_of_the_conventions(attributes: Any) -> None:
    span = {**otlp_span(), "attributes": pairs(attributes)}
    decoded = decode_traces(otlp_body(span), "application/json", None, BodyLimits())
    assert decoded.message == ""
    use(decoded.spans)


@given(st.binary(max_size=60))
@settings(max_examples=100, deadline=None)
def test_any_bytes_as_protobuf(body: bytes) -> None:
    with suppress(InvalidInputError):
        use(decode_traces(body, "application/x-protobuf", None, BodyLimits()).spans)


plain_spans = st.dictionaries(st.sampled_from(sorted(SPAN_FIELDS)), tree(["kind", "name"]), max_size=3)
plain_traces = st.fixed_dictionaries(
    {"spans": st.lists(plain_spans, min_size=1, max_size=3)},
    optional={"metadata": tree(["kind"]), "agent": st.text(max_size=3), "id": scalars},
)


@given(plain_traces | st.lists(plain_traces, max_size=2) | tree([*TRACE_FIELDS, *SPAN_FIELDS, "traces"]))
@settings(max_examples=100, deadline=None)
def test_any_json_as_a_plain_trace(document: Any) -> None:
    with suppress(InvalidInputError):
        use(decode_plain(as_body(document), "application/json", None, BodyLimits(), now_ns=0).spans)

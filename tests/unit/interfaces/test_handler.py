"""What `handler` is given, and what its answers mean."""

from dataclasses import replace

import pytest

from assay.domain.json_value import JsonValue
from assay.domain.subject import Testcase as Row
from assay.domain.trace import Span
from assay.interfaces import handler
from assay.testing import a_revision, a_span, a_trace

REVISION = a_revision(interface="handler")
SPAN_FIELDS = [
    "span_id",
    "parent_span_id",
    "name",
    "type",
    "input",
    "output",
    "error",
    "model",
    "latency_ms",
    "input_tokens",
    "output_tokens",
    "tool_calls",
    "metadata",
    "started_at",
]


def test_a_trace_gives_input_output_no_expectation_metadata_and_its_spans() -> None:
    trace = replace(a_trace(), metadata={"plan": "pro"})
    input, output, expected, metadata, spans = handler.arguments(trace)
    assert (input, output, expected, metadata) == ("hello", "hi", None, {"plan": "pro"})
    assert isinstance(spans, list)
    assert all(isinstance(span, dict) and list(span) == SPAN_FIELDS for span in spans)
    first = spans[0]
    assert isinstance(first, dict)
    assert (first["span_id"], first["latency_ms"], first["started_at"]) == ("root", 100, "2025-06-15T15:06:40.000Z")


def test_spans_of_a_trace_are_in_its_own_order() -> None:
    orphan = a_span("orphan", parent="never came", started_ms=-5)
    spans = handler.arguments(a_trace(orphan, a_span("root")))[4]
    assert isinstance(spans, list)
    assert [span["span_id"] for span in spans if isinstance(span, dict)] == ["root", "orphan"]


@pytest.mark.parametrize(
    "spans",
    [
        (a_span("orphan", parent="never came", started_ms=-5), a_span("child", parent="root"), a_span("root")),
        (a_span("child", parent="root", started_ms=-9), a_span("root", parent="root")),
        (a_span("root", parent="child"), a_span("child", parent="root", started_ms=1)),
    ],
)
def test_a_rows_spans_are_ordered_as_a_trace_would_be(spans: tuple[Span, ...]) -> None:
    row = Row(inputs="q", outputs="a", expected="b", metadata={"k": 1}, spans=spans)
    *given, records = handler.arguments(row)
    assert given == ["q", "a", "b", {"k": 1}]
    assert isinstance(records, list)
    assert isinstance(records[0], dict)
    assert records[0]["span_id"] == "root"
    assert len(records) == len(spans)


def test_none_skips() -> None:
    reading = handler.read(REVISION, None)
    assert (reading.status, reading.metrics, reading.verdict) == ("skipped", {}, None)


@pytest.mark.parametrize(("score", "fails"), [(0.49, True), (0.5, False), (1, False), (0, True)])
def test_a_score_below_the_threshold_fails_and_an_equal_one_does_not(score: float, fails: bool) -> None:
    answers: list[JsonValue] = [score, {"score": score}]
    for value in answers:
        reading = handler.read(REVISION, value)
        assert reading.metrics == {"score": float(score)}
        assert reading.verdict is not None
        assert reading.verdict.failed is fails


def test_name_and_metadata_are_kept_and_further_keys_are_metrics() -> None:
    reading = handler.read(
        REVISION, {"score": 0.9, "name": "tone", "metadata": {"a": [1]}, "reason": "kind", "parts": {"x": 1}}
    )
    assert (reading.name, reading.metadata, reading.reason) == ("tone", {"a": [1]}, "kind")
    assert reading.metrics == {"score": 0.9, "reason": "kind", "parts.x": 1}


@pytest.mark.parametrize(
    ("value", "kind", "told"),
    [
        (True, "unsupported-return-type", "bool True"),
        ("0.9", "unsupported-return-type", "str 0.9"),
        ([0.9], "unsupported-return-type", "list"),
        ({}, "unsupported-return-type", "it has no keys"),
        ({"value": 1}, "unsupported-return-type", 'it has "value"'),
        ({"score": "0.9"}, "unsupported-return-type", 'The "score" is str 0.9'),
        ({"score": True}, "unsupported-return-type", 'The "score" is bool True'),
        ({"score": None}, "unsupported-return-type", 'The "score" is None'),
        ({"score": 0.9, "name": 5}, "unsupported-return-type", 'The "name"'),
        ({"score": 0.9, "metadata": []}, "unsupported-return-type", 'The "metadata"'),
        ({"score": 7.5}, "score-out-of-range", "7.5"),
        ({"score": 0.5, "a": {"b": 1}, "a.b": 2}, "metric-name-collision", "a.b"),
        (float("nan"), "non-finite", "nan"),
    ],
)
def test_an_answer_that_is_no_score_is_errored(value: JsonValue, kind: str, told: str) -> None:
    reading = handler.read(REVISION, value)
    assert (reading.status, reading.verdict) == ("errored", None)
    assert reading.error is not None
    assert reading.error.kind == kind
    assert told in reading.error.message

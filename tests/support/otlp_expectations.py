"""What the OTLP cases expect of spans and traces, held against what was read."""

import json
from collections.abc import Sequence
from typing import Any

from assay.domain.trace import Span, Trace
from assay.interfaces import evaluate
from assay.interfaces.spans import span_record

Expected = dict[str, Any]
SUFFIXES = ("_any_of", "_contains", "_excludes", "_mentions", "_preferred", "_must_not_be", "_text_order")
NOTES = ("note", "kept")
MAY_BE_JSON_TEXT = ("input", "output")


def assert_spans(expected: Sequence[Expected], traces: Sequence[Trace]) -> None:
    """Find each expected span by the ids or the name it has; with neither, there is but one."""
    spans = [span for trace in traces for span in trace.spans]
    for wanted in expected:
        found = [
            span
            for span in spans
            if wanted.get("span_id", span.span_id) == span.span_id
            and wanted.get("trace_id", span.trace_id) == span.trace_id
            and wanted.get("name", span.name) == span.name
        ]
        assert len(found) == 1, f"{len(found)} spans match {wanted}"
        _assert_fields(wanted, _span_fields(found[0]))


def assert_trace(expected: Expected, trace: Trace) -> None:
    expected = dict(expected)
    assert_spans(expected.pop("spans", []), [trace])
    view = expected.pop("evaluate_view", None)
    if view is not None:
        _assert_view(view, trace)
    _assert_fields(expected, _trace_fields(trace))


def _span_fields(span: Span) -> Expected:
    return {
        **span_record(span),
        "trace_id": span.trace_id,
        "cache_read_tokens": span.cache_read_tokens,
        "requested_tool_calls": (span.metadata or {}).get("requested_tool_calls"),
        "attributes": span.attributes,
    }


def _trace_fields(trace: Trace) -> Expected:
    order = [span.span_id for span in trace.spans]
    return {
        "trace_id": trace.trace_id,
        "root_span_id": trace.root.span_id,
        "name": trace.root.name,
        "session_id": trace.session_id,
        "input": trace.root.input,
        "output": trace.root.output,
        "status": trace.root.status,
        "error": trace.error,
        "total_tokens": {"input": trace.totals.input_tokens, "output": trace.totals.output_tokens},
        "trace_tool_calls": [call["name"] for call in trace.tool_calls if isinstance(call, dict)],
        "span_order": order,
        "span_order_starts_with": order[0],
        "span_count": len(order),
    }


def _assert_fields(expected: Expected, found: Expected) -> None:
    for key, wanted in expected.items():
        if key in NOTES:
            continue
        suffix = next((suffix for suffix in SUFFIXES if key.endswith(suffix)), "")
        name = key.removesuffix(suffix)
        value = found.get(name)
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        match suffix:
            case "_any_of":
                assert value in wanted, f"{name} is {value!r}; one of {wanted!r} is expected"
            case "_contains" | "_mentions":
                assert all(part in text for part in wanted), f"{name} is {text}; it lacks some of {wanted}"
            case "_excludes":
                assert not any(part in text for part in wanted), f"{name} is {text}; it has some of {wanted}"
            case "_must_not_be":
                assert value != wanted, f"{name} is {value!r}"
            case "_text_order":
                places = [text.find(part) for part in wanted]
                assert -1 not in places, f"{name} is {text}; it lacks some of {wanted}"
                assert places == sorted(places), f"{name} has {wanted} in another order"
            case _:
                _assert_equal(name, wanted, value)


def _assert_equal(name: str, wanted: Any, value: Any) -> None:
    if name == "attributes":
        _assert_fields(wanted, value)
    elif name == "tool_calls" and wanted:
        assert len(value) == len(wanted)
        for call, made in zip(wanted, value, strict=True):
            _assert_fields(call, made)
    else:
        if name in MAY_BE_JSON_TEXT and isinstance(value, str) and not isinstance(wanted, str):
            value = json.loads(value)
        assert value == wanted, f"{name} is {value!r}; {wanted!r} is expected"


def _assert_view(expected: Expected, trace: Trace) -> None:
    inputs, outputs, seen = evaluate.arguments(trace)
    assert isinstance(seen, dict)
    spans: Any = seen["spans"]
    first = next(iter(spans))
    for path, wanted in expected.items():
        match path.split("."):
            case ["inputs"]:
                assert inputs == wanted
            case ["outputs"]:
                assert outputs == wanted
            case ["first_span_in_trace", "spans"]:
                assert first == wanted
            case ["root", *steps]:
                value = spans[first]
                for step in steps:
                    value = value[step]
                assert value == wanted, f"{path} is {value!r}"
            case _:
                raise AssertionError(f"nothing checks {path}")

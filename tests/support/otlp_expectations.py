"""What the OTLP cases expect of spans and traces, held against what was read."""

import json
from collections.abc import Sequence
from typing import Any

from assay.domain.trace import Trace
from assay.interfaces import evaluate
from assay.interfaces.spans import span_record

Expected = dict[str, Any]
Seen = dict[str, Any]
IDENTIFYING = ("span_id", "trace_id", "name")
SUFFIXES = ("_any_of", "_contains", "_excludes", "_mentions", "_preferred", "_must_not_be", "_text_order")
NOTES = ("note", "kept")
MAY_BE_JSON_TEXT = ("input", "output")


def seen(trace: Trace) -> Seen:
    """Return what the cases speak of, from a trace as it was assembled."""
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
        "spans": [
            {**span_record(span), "cache_read_tokens": span.cache_read_tokens, "attributes": span.attributes}
            for span in trace.spans
        ],
        "evaluate_view": trace,
    }


def seen_over_http(answer: Any) -> Seen:
    """Return what the cases speak of, from the answer that shows a stored trace."""
    trace, spans = answer["trace"], answer["spans"]
    return {
        "trace_id": trace["id"],
        "root_span_id": trace["spanId"],
        "name": trace["name"],
        "session_id": trace["sessionId"],
        "input": trace["input"],
        "output": trace["output"],
        "status": spans[0]["status"],
        "error": trace["error"],
        "total_tokens": {"input": trace["inputTokens"], "output": trace["outputTokens"]},
        "trace_tool_calls": [call["name"] for call in trace["toolCalls"]],
        "spans": spans,
    }


def assert_spans(expected: Sequence[Expected], traces: Sequence[Seen]) -> None:
    """Find each expected span by the ids or the name it has; with neither, there is but one."""
    spans: list[Seen] = [{**span, "trace_id": trace["trace_id"]} for trace in traces for span in trace["spans"]]
    for wanted in expected:
        found = [span for span in spans if all(span[key] == wanted.get(key, span[key]) for key in IDENTIFYING)]
        assert len(found) == 1, f"{len(found)} spans match {wanted}"
        metadata: Seen = found[0]["metadata"] or {}
        _assert_fields(wanted, {**found[0], "requested_tool_calls": metadata.get("requested_tool_calls")})


def assert_trace(expected: Expected, trace: Seen) -> None:
    expected = dict(expected)
    assert_spans(expected.pop("spans", []), [trace])
    view = expected.pop("evaluate_view", None)
    if view is not None and "evaluate_view" in trace:
        _assert_view(view, trace["evaluate_view"])
    order = [span["span_id"] for span in trace["spans"]]
    counts = {"span_order": order, "span_order_starts_with": order[0], "span_count": len(order)}
    _assert_fields(expected, {**trace, **counts})


def assert_ingested(expected: Expected, traces: Sequence[Seen], whole: Sequence[Expected] = ()) -> None:
    """Hold the traces against an `ingested` outcome; `whole` are those of its expected file."""
    if whole:
        assert sorted(trace["trace_id"] for trace in traces) == sorted(trace["trace_id"] for trace in whole)
    by_id = {trace["trace_id"]: trace for trace in traces}
    for wanted in whole:
        assert_trace(wanted, by_id[wanted["trace_id"]])
    assert_spans(expected.get("spans", []), traces)
    if "trace" in expected:
        assert len(traces) == 1
        assert_trace(expected["trace"], traces[0])
    if "span_count" in expected:
        assert sum(len(trace["spans"]) for trace in traces) == expected["span_count"]


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

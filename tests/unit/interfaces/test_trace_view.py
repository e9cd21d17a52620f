"""The trace as `evaluate` sees it: the contract's form, whatever the sender stored."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from assay.domain.trace import Span, Trace
from assay.interfaces.trace_view import json_bytes, least_bytes, trace_view
from assay.testing import a_span, a_trace
from support.otlp_bodies import otlp_span, read_span


def view(trace: Trace) -> Any:
    return trace_view(trace)["spans"]


def unit(span: Span) -> Any:
    return view(a_trace(span))[span.span_id]["attributes"]["ag"]["metrics"]["unit"]


def test_a_span_has_the_fields_of_the_contract() -> None:
    root = view(a_trace(replace(a_span("root", output={"n": 3}), status="OK")))["root"]
    assert root["name"] == "root"
    assert (root["start_time"], root["end_time"]) == ("2025-06-15T15:06:40.000000Z", "2025-06-15T15:06:40.100000Z")
    assert root["status_code"] == "OK"
    assert root["attributes"]["ag"]["data"] == {"inputs": "hello", "outputs": {"n": 3}}
    assert root["children"] == []


def test_the_first_entry_is_the_traces_root_even_after_an_earlier_orphan() -> None:
    trace = a_trace(
        a_span("orphan", parent="never came", started_ms=-9), a_span("child", parent="root"), a_span("root")
    )
    assert next(iter(view(trace))) == trace.root.span_id == "root"


def test_children_are_nested_in_order_and_every_span_is_an_entry() -> None:
    spans = view(
        a_trace(a_span("b", parent="root", started_ms=2), a_span("a", parent="root", started_ms=1), a_span("root"))
    )
    assert list(spans) == ["root", "a", "b"]
    assert [child["span_id"] for child in spans["root"]["children"]] == ["a", "b"]
    assert spans["root"]["children"][0]["attributes"] == spans["a"]["attributes"]


def test_a_chain_of_a_thousand_spans_ends_in_names_below_each_entry() -> None:
    chain = [a_span(str(at), parent=str(at - 1) if at else None, started_ms=at) for at in range(1000)]
    spans = view(a_trace(*chain))
    below, depth = spans["0"], 0
    while "children" in below:
        (below,), depth = below["children"], depth + 1
    assert below == {"span_id": str(depth)}
    assert len(spans) == 1000


@pytest.mark.parametrize("form", ["unit.{}.{}", "acc.{}.{}", "{}.cumulative.{}", "{}.incremental.{}"])
@pytest.mark.parametrize("nested", [True, False])
def test_tokens_and_costs_are_read_in_every_form_that_is_sent(form: str, nested: bool) -> None:
    figures = {
        form.format("tokens", "prompt"): 480,
        form.format("tokens", "completion"): 220,
        form.format("tokens", "total"): 700,
        form.format("costs", "total"): 0.002,
    }
    sent: dict[str, Any] = {}
    for path, value in figures.items():
        if nested:
            target = sent.setdefault("ag.metrics", {})
            *steps, last = path.split(".")
            for step in steps:
                target = target.setdefault(step, {})
            target[last] = value
        else:
            sent[f"ag.metrics.{path}"] = value
    seen = unit(read_span(otlp_span(sent)))
    assert seen["tokens"] == {"prompt": 480, "completion": 220, "total": 700}
    assert seen["costs"] == {"total": 0.002}
    assert seen["duration"] == {"total": 1.5}


@pytest.mark.parametrize(
    "sent",
    [
        {"ag.metrics.duration.cumulative": 2500.0},
        {"ag.metrics.unit.duration.total": 2.5},
        {"ag.metrics.acc.duration.total": 2.5},
    ],
)
def test_a_duration_that_only_the_attributes_know_is_in_seconds(sent: dict[str, Any]) -> None:
    span = read_span(otlp_span(sent, startTimeUnixNano=None, endTimeUnixNano=None))
    assert unit(span)["duration"] == {"total": 2.5}


def test_the_root_shows_the_whole_trace_and_a_span_itself() -> None:
    call = replace(a_span("llm", parent="root", model="m-1"), input_tokens=50, output_tokens=20, total_tokens=70)
    spans = view(a_trace(a_span("root"), call))
    for span_id in ("root", "llm"):
        tokens = spans[span_id]["attributes"]["ag"]["metrics"]["unit"]["tokens"]
        assert tokens == {"prompt": 50, "completion": 20, "total": 70}


def test_a_figure_that_nobody_recorded_is_left_out_and_never_0() -> None:
    bare = replace(a_span("root"), started_at_ns=None, ended_at_ns=None)
    assert unit(bare) == {"costs": {}, "tokens": {}, "duration": {}}


def test_other_attributes_stay() -> None:
    span = read_span(otlp_span({"mine": [1], "ag.meta.plan": "pro", "ag.metrics.own.x": 1}))
    attributes = view(a_trace(span))[span.span_id]["attributes"]
    assert attributes["mine"] == [1]
    assert attributes["ag"]["meta"] == {"plan": "pro"}
    assert attributes["ag"]["metrics"]["own"] == {"x": 1}


def test_a_senders_nested_values_are_not_changed_by_dotted_names() -> None:
    sent = {"x": {"kept": 1}}
    span = replace(a_span("root"), attributes={"ag": sent, "ag.x.y": 2, "ag.x.z": 3})
    assert view(a_trace(span))["root"]["attributes"]["ag"]["x"] == {"kept": 1, "y": 2, "z": 3}
    assert sent == {"x": {"kept": 1}}


def test_a_name_of_a_million_steps_nests_32_deep() -> None:
    span = replace(a_span("root"), attributes={"ag." + "a." * 1_000_000: 1})
    inner, depth = view(a_trace(span))["root"]["attributes"]["ag"], 0
    while isinstance(inner, dict):
        inner, depth = next(iter(inner.values())), depth + 1  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    assert (inner, depth) == (1, 32)


def test_an_honest_deep_trace_is_nested_less_and_keeps_every_span() -> None:
    chain = [a_span(f"{at:016x}", parent=f"{at - 1:016x}" if at else None, started_ms=at) for at in range(3000)]
    seen = trace_view(a_trace(*chain))
    assert len(msgspec.json.encode(seen)) <= 4.5 * 1024 * 1024
    spans: Any = seen["spans"]
    assert len(spans) == 3000
    assert spans[chain[0].span_id]["children"][0]["name"] == chain[1].name


def test_large_values_are_copied_into_parents_only_as_far_as_they_fit() -> None:
    chain = [a_span(str(at), parent=str(at - 1) if at else None, input="x" * 400_000) for at in range(6)]
    seen: Any = trace_view(a_trace(*chain))["spans"]
    assert seen["0"]["children"] == [{"span_id": "1"}]
    assert seen["5"]["attributes"]["ag"]["data"]["inputs"] == "x" * 400_000


def test_spans_in_a_ring_are_nested_and_end() -> None:
    ring = [a_span("root"), a_span("a", parent="b"), a_span("b", parent="a")]
    assert len(view(a_trace(*ring))) == 3


@pytest.mark.parametrize("input", ["x" * 1000, "half \ud83d"])
def test_the_least_size_of_a_trace_is_never_more_than_what_it_takes(input: str) -> None:
    span = replace(a_span("root", input=input), attributes={"mine": "y" * 100, "ag.x.y": 1, "ag": {"z": 1}})
    trace = a_trace(span, a_span("child", parent="root"))
    assert 100 < least_bytes(trace, 10**6) <= json_bytes(trace_view(trace))
    assert least_bytes(trace, 1) < least_bytes(trace, 10**6)

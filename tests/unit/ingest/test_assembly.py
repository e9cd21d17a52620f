"""A trace is the same whatever order its spans came in."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.domain.trace import Span, Trace
from assay.ingest.assembly import assemble
from assay.testing import a_span


def trace_of(*spans: Span) -> Trace:
    return assemble("default", spans, revision=1, created_at_ns=0, agent_id=None, agent=None)


def order(*spans: Span) -> list[str]:
    return [span.span_id for span in trace_of(*spans).spans]


ROOT = a_span("root", started_ms=5)
EARLY = a_span("early", parent="root", started_ms=1)
LATE = a_span("late", parent="root", started_ms=9)


@given(st.permutations([ROOT, EARLY, LATE, a_span("deep", parent="late", started_ms=10)]))
@settings(max_examples=24, deadline=None)
def test_the_root_comes_first_and_the_others_by_start_whatever_the_arrival(spans: list[Span]) -> None:
    assert order(*spans) == ["root", "early", "late", "deep"]


def test_a_span_without_a_time_comes_last() -> None:
    timeless = replace(a_span("timeless", parent="root"), started_at_ns=None, ended_at_ns=None)
    assert order(timeless, LATE, ROOT) == ["root", "late", "timeless"]


def test_of_a_span_that_came_twice_the_later_one_counts() -> None:
    assert trace_of(ROOT, replace(ROOT, name="again")).root.name == "again"


def test_a_parentless_span_is_the_root_before_an_earlier_orphan() -> None:
    orphan = a_span("orphan", parent="never came", started_ms=0)
    assert order(orphan, ROOT) == ["root", "orphan"]


def test_the_highest_span_that_came_stands_in_for_a_missing_root() -> None:
    top = a_span("top", parent="never came", started_ms=1)
    assert order(a_span("leaf", parent="top", started_ms=0), top) == ["top", "leaf"]


@pytest.mark.parametrize("with_root", [True, False])
def test_cycles_and_spans_that_are_their_own_parent_are_kept(with_root: bool) -> None:
    strange = [
        a_span("self", parent="self", started_ms=7),
        a_span("a", parent="b", started_ms=6),
        a_span("b", parent="c", started_ms=8),
        a_span("c", parent="a", started_ms=9),
        a_span("below", parent="c", started_ms=10),
    ]
    spans = [*strange, ROOT] if with_root else strange
    assert order(*spans) == (["root"] if with_root else []) + (
        ["a", "self", "b", "c", "below"] if with_root else ["self", "a", "b", "c", "below"]
    )


def test_a_chain_of_ten_thousand_spans_is_a_trace_too() -> None:
    spans = [a_span(str(at), parent=str(at - 1) if at else None, started_ms=at) for at in range(10_000)]
    assert trace_of(*reversed(spans)).root.span_id == "0"


def test_a_root_that_recorded_nothing_shows_the_first_question_and_the_last_answer() -> None:
    bare = a_span("web", input=None, output=None)
    first = a_span("first", parent="web", started_ms=1, input="q1", output="a1", model="m-1")
    last = a_span("last", parent="web", started_ms=2, input="q2", output="a2", model="m-1")
    root = trace_of(last, first, bare).root
    assert (root.span_id, root.input, root.output) == ("web", "q1", "a2")


def test_a_root_that_failed_shows_no_answer_of_another_span() -> None:
    failed = replace(a_span("web", input=None, output=None), error="boom")
    trace = trace_of(failed, a_span("first", parent="web", model="m-1"))
    assert (trace.root.output, trace.error) == (None, "boom")


def test_model_session_framework_and_metadata_are_the_first_that_a_span_has() -> None:
    child = replace(
        a_span("llm", parent="root", started_ms=6, model="m-1"),
        session_id="c-1",
        framework="langchain",
        metadata={"plan": "pro", "kind": "retrieval", "requested_tool_calls": [1]},
    )
    trace = trace_of(child, ROOT)
    assert (trace.model, trace.session_id, trace.framework) == ("m-1", "c-1", "langchain")
    assert trace.metadata == {"plan": "pro"}


def test_tool_calls_are_those_of_all_spans_in_reading_order() -> None:
    first = replace(a_span("t1", parent="root", started_ms=6), tool_calls=[{"name": "one"}])
    second = replace(a_span("t2", parent="root", started_ms=7), tool_calls=[{"name": "two"}])
    assert trace_of(second, first, ROOT).tool_calls == [{"name": "one"}, {"name": "two"}]

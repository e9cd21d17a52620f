"""What a trace used in all: every token once."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.domain.trace import Span, Totals
from assay.ingest.assembly import assemble
from assay.testing import a_span


def used(span_id: str, parent: str | None = None, given: int | None = None, answered: int | None = None) -> Span:
    return replace(a_span(span_id, parent=parent), input_tokens=given, output_tokens=answered)


def totals(*spans: Span) -> Totals:
    return assemble("default", spans, revision=1, created_at_ns=0, agent_id=None, agent=None).totals


def test_the_calls_below_a_silent_root_are_summed() -> None:
    spent = totals(used("root"), used("a", "root", 56, 21), used("b", "root", 83, 12))
    assert (spent.input_tokens, spent.output_tokens, spent.total_tokens) == (139, 33, 172)


def test_a_parent_that_repeats_its_children_is_not_counted_again() -> None:
    spans = [used("root", None, 139, 33), used("agent", "root", 139, 33), used("a", "agent", 56, 21)]
    assert totals(*spans, used("b", "agent", 83, 12)).input_tokens == 139


def test_a_parent_that_knows_of_more_than_its_children_counts_for_the_more() -> None:
    assert totals(used("root", None, 100), used("a", "root", 56)).input_tokens == 100


def test_each_branch_is_rolled_up_apart() -> None:
    repeated = [used("x", "root", 50), used("x1", "x", 20), used("x2", "x", 30)]
    alone = [used("y", "root"), used("y1", "y", 7)]
    assert totals(used("root"), *repeated, *alone).input_tokens == 57


def test_orphans_and_cycles_count_once() -> None:
    spans = [used("root"), used("orphan", "never came", 2), used("a", "b", 4), used("b", "a", 8)]
    assert totals(*spans).input_tokens == 2 + 8


def test_a_figure_that_no_span_records_is_unknown() -> None:
    assert totals(used("root"), used("a", "root")) == Totals()


def test_costs_and_cached_tokens_are_rolled_up_too() -> None:
    call = replace(a_span("a", parent="root"), cost=0.25, cache_read_tokens=64, cache_write_tokens=2)
    spent = totals(a_span("root"), call, replace(call, span_id="b"))
    assert spent.cost == pytest.approx(0.5)
    assert (spent.cache_read_tokens, spent.cache_write_tokens) == (128, 4)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 100)), min_size=1, max_size=30))
@settings(max_examples=50, deadline=None)
def test_where_every_parent_repeats_its_children_the_leaves_alone_count(tree: list[tuple[int, int]]) -> None:
    parents = {at: min(parent, at - 1) for at, (parent, _) in enumerate(tree) if at}
    tokens = {at: 0 if at in parents.values() else count for at, (_, count) in enumerate(tree)}
    leaves = sum(tokens.values())
    for at in sorted(parents, reverse=True):
        tokens[parents[at]] += tokens[at]
    spans = [used(str(at), str(parents[at]) if at in parents else None, count) for at, count in sorted(tokens.items())]
    assert totals(*spans).input_tokens == leaves

import asyncio
import base64
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from assay.domain.trace import Span, agent_id_of
from assay.errors import InvalidInputError, TraceFullError
from assay.ports import CheckFilter, Page, SignalFilter, Store, TraceRecord
from assay.testing import NOW_NS, a_span
from support.records import PROJECT, accept, named, spans_of_many_traces

EVERYTHING = Span(
    trace_id="0af7651916cd43dd8448eb211c80319c",
    span_id="b7ad6b7169203331",
    name="answer",
    started_at_ns=1_750_000_000_123_456_789,
    ended_at_ns=1_750_000_000_123_456_790,
    status="ERROR",
    error="timed out",
    input={"messages": [{"role": "user", "content": "grüß dich 🙂"}]},
    output=[1, 2.5, None, True, {"a": []}],
    model="m-1",
    input_tokens=1,
    output_tokens=2,
    total_tokens=3,
    cache_read_tokens=4,
    cache_write_tokens=5,
    cost=0.001,
    tool_calls=[{"name": "search"}],
    metadata={"kind": "retrieval"},
    kind="retrieval",
    agent="desk",
    framework="lang",
    session_id="s-1",
    attributes={"big": 2**63, "small": -(2**63), "empty": ""},
)


async def spans_of(store: Store, trace_id: str, project_id: str = PROJECT) -> list[Span]:
    async with store.snapshot() as snapshot:
        return (await snapshot.spans([(project_id, trace_id)])).get((project_id, trace_id), [])


async def record_of(store: Store, trace_id: str) -> TraceRecord:
    async with store.snapshot() as snapshot:
        record = await snapshot.trace(PROJECT, trace_id)
    assert record is not None
    return record


async def test_a_span_comes_back_with_every_field_and_every_nanosecond(store: Store) -> None:
    await accept(store, EVERYTHING)
    assert await spans_of(store, EVERYTHING.trace_id) == [EVERYTHING]


async def test_a_repeated_span_changes_nothing(store: Store) -> None:
    first = await accept(store, a_span("root", trace_id="t"), a_span("child", parent="root", trace_id="t"))
    assert await accept(store, a_span("child", parent="root", trace_id="t"), now_ns=NOW_NS + 1) == {}
    assert await record_of(store, "t") == first["t"]
    assert (first["t"].revision, first["t"].span_count) == (1, 2)


async def test_a_changed_span_replaces_the_old_one_and_makes_a_new_revision(store: Store) -> None:
    await accept(store, a_span("root", trace_id="t", output=None))
    changed = await accept(store, a_span("root", trace_id="t", output="done"), now_ns=NOW_NS + 7)
    assert [span.output for span in await spans_of(store, "t")] == ["done"]
    assert (changed["t"].revision, changed["t"].span_count, changed["t"].updated_at_ns) == (2, 1, NOW_NS + 7)
    assert changed["t"].created_at_ns == NOW_NS


async def test_of_two_contents_for_one_span_in_one_request_the_last_wins(store: Store) -> None:
    await accept(store, a_span("root", trace_id="t", output="early"), a_span("root", trace_id="t", output="late"))
    assert [span.output for span in await spans_of(store, "t")] == ["late"]


async def test_only_the_traces_that_changed_are_returned(store: Store) -> None:
    await accept(store, a_span("root", trace_id="old"))
    changed = await accept(store, a_span("root", trace_id="old"), a_span("root", trace_id="new"))
    assert set(changed) == {"new"}


async def test_pending_time_starts_with_the_first_change_after_the_last_checks(store: Store) -> None:
    await accept(store, a_span("a", trace_id="t"))
    changed = await accept(store, a_span("b", trace_id="t"), now_ns=NOW_NS + 1)
    assert changed["t"].pending_since_ns == NOW_NS
    async with store.transaction() as transaction:
        await transaction.mark_checked(PROJECT, "t", 2)
    changed = await accept(store, a_span("c", trace_id="t"), now_ns=NOW_NS + 2)
    assert (changed["t"].pending_since_ns, changed["t"].checked_revision) == (NOW_NS + 2, 2)


async def test_a_mark_is_never_lowered(store: Store) -> None:
    await accept(store, a_span("a", trace_id="t"))
    await accept(store, a_span("b", trace_id="t"))
    async with store.transaction() as transaction:
        await transaction.mark_checked(PROJECT, "t", 2)
        await transaction.mark_checked(PROJECT, "t", 1)
    async with store.transaction() as transaction:
        await transaction.mark_checked(PROJECT, "t", 1)
        marked = await transaction.trace(PROJECT, "t")
    assert marked is not None
    assert marked.checked_revision == 2


async def test_the_root_names_the_trace_and_its_agent_even_when_it_arrives_last(store: Store) -> None:
    await accept(store, named(a_span("child", parent="root", trace_id="t"), "helper"))
    assert (await record_of(store, "t")).agent_id == agent_id_of(PROJECT, "helper")
    await accept(store, named(a_span("root", trace_id="t"), "desk"))
    record = await record_of(store, "t")
    assert (record.name, record.agent_id) == ("root", agent_id_of(PROJECT, "desk"))
    await accept(store, named(a_span("late", parent="root", trace_id="t"), "helper"))
    assert (await record_of(store, "t")).agent_id == agent_id_of(PROJECT, "desk")


@pytest.mark.parametrize("text", ["a\0b", "\ud83d", "x\udc00y"], ids=["nul", "high-surrogate", "low-surrogate"])
async def test_text_that_no_database_holds_is_stored_with_a_replacement(store: Store, text: str) -> None:
    span = replace(
        a_span("root", input=text, output={text: [text]}),
        trace_id=f"t{text}",
        span_id=f"s{text}",
        name=text,
        agent=text,
        attributes={"a": text},
    )
    changed = await accept(store, span)
    assert await accept(store, span) == {}
    (record,) = changed.values()
    (stored,) = await spans_of(store, record.trace_id)
    assert stored.input in (text, text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


async def test_times_beyond_every_clock_are_stored_as_they_came(store: Store) -> None:
    span = replace(a_span("root", trace_id="t"), started_at_ns=0, ended_at_ns=2**64 - 1)
    await accept(store, span)
    assert await spans_of(store, "t") == [span]


async def test_projects_do_not_see_each_others_traces(store: Store) -> None:
    await accept(store, a_span("mine", trace_id="t"))
    await accept(store, a_span("theirs", trace_id="t"), project_id="other")
    assert [span.span_id for span in await spans_of(store, "t")] == ["mine"]
    assert [span.span_id for span in await spans_of(store, "t", "other")] == ["theirs"]


async def test_pages_run_newest_first_without_gaps_or_repeats(store: Store) -> None:
    for step, spans in enumerate((spans_of_many_traces(3), [a_span("root", trace_id="newest")])):
        await accept(store, *spans, now_ns=NOW_NS + step)
    seen: list[str] = []
    page = Page(limit=2)
    async with store.snapshot() as snapshot:
        while True:
            records, cursor = await snapshot.list_traces(PROJECT, page)
            seen += [record.trace_id for record in records]
            if cursor is None:
                break
            page = Page(limit=2, cursor=cursor)
    assert seen[0] == "newest"
    assert sorted(seen) == ["newest", "t0", "t1", "t2"]


async def test_traces_can_be_listed_by_agent(store: Store) -> None:
    await accept(store, named(a_span("a", trace_id="t1"), "desk"), named(a_span("a", trace_id="t2"), "shop"))
    async with store.snapshot() as snapshot:
        records, _ = await snapshot.list_traces(PROJECT, Page(), agent_id_of(PROJECT, "shop"))
    assert [record.trace_id for record in records] == ["t2"]


@pytest.mark.parametrize("cursor", ["", "?", "abc", "ünicode", "WzEsInRleHQiXQ", "WzFd", "bnVsbA"])
async def test_a_cursor_that_is_not_ours_is_the_callers_error(store: Store, cursor: str) -> None:
    async with store.snapshot() as snapshot:
        with pytest.raises(InvalidInputError) as caught:
            await snapshot.list_traces(PROJECT, Page(cursor=cursor))
    assert caught.value.field == "cursor"


@pytest.mark.parametrize("forged", [[2**63, 1], [-(2**63) - 1, 1], [1, 2**63], [10**30, "x"], [1, "\0"]])
async def test_a_cursor_that_no_database_can_hold_is_the_callers_error(store: Store, forged: list[Any]) -> None:
    page = Page(cursor=base64.urlsafe_b64encode(msgspec.json.encode(forged)).decode().rstrip("="))
    async with store.snapshot() as snapshot:
        for ask in (
            snapshot.list_traces(PROJECT, page),
            snapshot.checks(CheckFilter(project_id=PROJECT), page),
            snapshot.list_signals(SignalFilter(project_id=PROJECT), page),
        ):
            with pytest.raises(InvalidInputError, match="is not one of this listing"):
                await ask


async def test_many_traces_are_found_at_once(store: Store) -> None:
    await accept(store, *spans_of_many_traces(6_000))
    keys = [(PROJECT, f"t{number}") for number in range(6_001)]
    async with store.snapshot() as snapshot:
        assert len(await snapshot.traces(keys)) == 6_000
        assert len(await snapshot.spans(keys)) == 6_000


async def test_writers_of_the_same_traces_lose_no_span_and_count_every_change(store: Store) -> None:
    async def write(writer: int) -> None:
        traces = [f"t{number}" for number in range(4)]
        for step in range(3):
            order = traces if writer % 2 else traces[::-1]
            spans = [a_span(f"{writer}-{step}", trace_id=trace) for trace in order]
            await accept(store, *(named(span, f"a{writer % 3}") for span in spans))

    await asyncio.gather(*(write(writer) for writer in range(8)))
    record = await record_of(store, "t3")
    assert (record.span_count, record.revision) == (24, 24)
    assert len(await spans_of(store, "t3")) == 24


async def test_a_transaction_that_fails_leaves_nothing(store: Store) -> None:
    async def change_our_mind() -> None:
        async with store.transaction() as transaction:
            await transaction.add_spans(PROJECT, [a_span("root", trace_id="t")], NOW_NS)
            raise RuntimeError("changed our mind")

    with pytest.raises(RuntimeError, match="changed our mind"):
        await change_our_mind()
    assert await spans_of(store, "t") == []


async def test_a_cancelled_transaction_leaves_nothing_and_the_store_goes_on(store: Store) -> None:
    async def write(number: int) -> None:
        async with store.transaction() as transaction:
            await transaction.add_spans(PROJECT, [a_span("root", trace_id=f"t{number}")], NOW_NS)
            await asyncio.sleep(3600 if number % 2 else 0)

    hanging = [asyncio.create_task(write(number)) for number in (1, 3, 5)]
    for steps in range(40):
        await asyncio.sleep(0.001)
        if steps % 13 == 0:
            hanging[steps // 13 % 3].cancel()
    for task in hanging:
        task.cancel()
    await asyncio.gather(*hanging, return_exceptions=True)
    await asyncio.gather(*(write(number) for number in range(0, 40, 2)))
    async with store.snapshot() as snapshot:
        records, _ = await snapshot.list_traces(PROJECT, Page(limit=100))
    assert {record.trace_id for record in records} == {f"t{number}" for number in range(0, 40, 2)}


async def test_a_snapshot_keeps_its_view_while_others_write(store: Store) -> None:
    await accept(store, a_span("a", trace_id="t"))
    async with store.snapshot() as snapshot:
        before = await snapshot.trace(PROJECT, "t")
        await accept(store, a_span("b", trace_id="t"))
        assert await snapshot.trace(PROJECT, "t") == before
        assert len((await snapshot.spans([(PROJECT, "t")]))[PROJECT, "t"]) == 1


async def test_a_full_trace_takes_no_further_span_but_changes_to_those_it_has(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.store.traces.MOST_SPANS", 3)
    spans = [a_span(str(number), trace_id="t") for number in range(4)]
    await accept(store, *spans[:3])
    with pytest.raises(TraceFullError, match="'t' has 3 spans and 1 more came; at most 3 are kept") as refused:
        await accept(store, spans[3], a_span("other", trace_id="u"))
    assert refused.value.trace_ids == {"t"}
    assert await spans_of(store, "u") == []
    await accept(store, replace(spans[0], name="renamed"))
    assert (await record_of(store, "t")).span_count == 3

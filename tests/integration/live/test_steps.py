"""The steps of the live flow over a real store, each by itself."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from assay.domain.check import Check
from assay.domain.evaluator import Evaluator
from assay.domain.outcome import Call, Limits, Outcome, Returned, Unavailable
from assay.domain.trace import agent_id_of
from assay.engine import Engine
from assay.live.execute import Executed, execute
from assay.live.sample import sample
from assay.live.settle import settled
from assay.live.work import CheckDue, TraceDue, encode
from assay.ports import CheckFilter, Claim, Page, SignalFilter, Store
from assay.recording.record import Recorded, record
from assay.testing import NOW_NS, FakeRunner, FixedClock, a_revision, a_span, returning
from support.records import PROJECT, a_check, accept, add_evaluators, an_evaluator, named

LIMITS = Limits()


async def sampled(store: Store, *trace_ids: str) -> list[tuple[str, str]]:
    async with store.snapshot() as snapshot:
        found = await snapshot.traces([(PROJECT, trace_id) for trace_id in trace_ids])
        checks = await sample(snapshot, list(found.values()))
    return sorted((check.evaluator_id, check.trace_id) for check in checks)


def claim_of(trace_id: str, evaluator_id: str = "evl_1", *, number: int = 1, trace_revision: int = 1) -> Claim:
    due = CheckDue(PROJECT, evaluator_id, f"{evaluator_id}_{number}", trace_id, trace_revision)
    return Claim(id=f"{evaluator_id}/{trace_id}", lane="check:", payload=encode(due), attempt=1)


async def executed(store: Store, runner: FakeRunner, *claims: Claim) -> Executed:
    return await execute(store, Engine({"python": runner}, FixedClock(), LIMITS), claims)


async def recorded(store: Store, checks: Sequence[Check]) -> Recorded:
    async with store.transaction() as transaction:
        return await record(transaction, checks, now_ns=NOW_NS)


async def signal_counts(store: Store) -> list[int]:
    async with store.snapshot() as snapshot:
        signals, _ = await snapshot.list_signals(SignalFilter(project_id=PROJECT), Page())
    return sorted(signal.count for signal in signals)


async def test_a_trace_is_settled_once_however_many_entries_tell_of_it(store: Store) -> None:
    await accept(store, a_span("root", trace_id="t1"), a_span("root", trace_id="t2"))
    due = [TraceDue(PROJECT, trace_id, 1) for trace_id in ("t1", "t1", "t2", "gone")]
    async with store.snapshot() as snapshot:
        records = await settled(snapshot, due, now_ns=NOW_NS, settle_max_s=30)
    assert sorted(found.trace_id for found in records) == ["t1", "t2"]


async def test_each_trace_owes_a_check_to_the_evaluators_of_its_scope(store: Store) -> None:
    desk = agent_id_of(PROJECT, "desk")
    await accept(store, named(a_span("root", trace_id="t1"), "desk"), named(a_span("root", trace_id="t2"), "shop"))
    evaluators: list[Evaluator] = [
        an_evaluator("evl_all"),
        an_evaluator("evl_off", enabled=False),
        an_evaluator("evl_never", sample_rate=0),
        an_evaluator("evl_desk", scope_mode="selected", agent_ids=(desk,)),
    ]
    await add_evaluators(store, *evaluators)
    assert await sampled(store, "t1", "t2") == [("evl_all", "t1"), ("evl_all", "t2"), ("evl_desk", "t1")]


async def test_claims_become_checks_of_their_trace_revision(store: Store) -> None:
    await accept(store, a_span("root", trace_id="t1"), a_span("root", trace_id="t2"))
    await accept(store, a_span("late", parent="root", trace_id="t1"), now_ns=NOW_NS + 1)
    await add_evaluators(store, an_evaluator())
    first, second = claim_of("t1", trace_revision=1), claim_of("t2")
    made = await executed(store, returning(True), first, second)
    assert {(check.trace_id, check.trace_revision) for check in made.checks} == {("t1", 1), ("t2", 1)}
    assert made.done == [first, second]
    again = await executed(store, returning(True), second, first)
    assert {check.id for check in again.checks} == {check.id for check in made.checks}


async def test_a_claim_runs_the_revision_it_was_owed_for(store: Store) -> None:
    await accept(store, a_span("root", trace_id="t1"))
    evaluator = an_evaluator()
    await add_evaluators(store, evaluator)
    async with store.transaction() as transaction:
        await transaction.update_evaluator(replace(evaluator, revision=a_revision("changed", number=2)))
    runner = returning(True)
    await executed(store, runner, claim_of("t1", number=1))
    assert [revision.number for revision, _ in runner.calls] == [1]


async def test_a_claim_of_what_was_deleted_is_done_without_a_check(store: Store) -> None:
    await accept(store, a_span("root", trace_id="t1"))
    await add_evaluators(store, an_evaluator(), an_evaluator("evl_2"))
    async with store.transaction() as transaction:
        await transaction.delete_evaluator(PROJECT, "evl_2")
    claims = [claim_of("t1"), claim_of("t1", "evl_2"), claim_of("gone"), claim_of("t1", "evl_never_was")]
    made = await executed(store, returning(True), *claims)
    assert [check.evaluator_id for check in made.checks] == ["evl_1"]
    assert {claim.id for claim in made.done} == {claim.id for claim in claims}


async def test_what_could_not_be_run_is_tried_again_and_costs_no_neighbour(store: Store) -> None:
    await accept(store, *(a_span("root", trace_id=trace_id, input=trace_id) for trace_id in ("t1", "t2")))
    await add_evaluators(store, an_evaluator())

    def answer(_: object, call: Call) -> Outcome:
        return Unavailable(cause="lost", after_s=7) if call.arguments[0] == b'"t1"' else Returned(value=True)

    lost, fine = claim_of("t1"), claim_of("t2")
    made = await executed(store, FakeRunner(answer), lost, fine)
    assert (made.retry, made.causes, made.waits_s, made.done) == ([lost], ["lost"], [7], [fine])
    assert [check.trace_id for check in made.checks] == ["t2"]


async def test_a_redelivered_check_is_recorded_and_counted_once(store: Store) -> None:
    await add_evaluators(store, an_evaluator())
    checks = [a_check("t1", failed=True), a_check("t2"), a_check("t3", failed=True)]
    first, second = await recorded(store, checks), await recorded(store, checks)
    assert (first.statuses["scored"], len(first.changes)) == (3, 1)
    assert (second.statuses.total(), second.changes) == (0, ())
    assert await signal_counts(store) == [2]
    async with store.snapshot() as snapshot:
        assert await snapshot.count_checks(CheckFilter(project_id=PROJECT)) == 3


async def test_signals_are_one_for_each_agent(store: Store) -> None:
    await add_evaluators(store, an_evaluator())
    agents = ["agt_1", "agt_2", "agt_1", None]
    checks = [a_check(f"t{number}", failed=True, agent_id=agent) for number, agent in enumerate(agents)]
    assert len((await recorded(store, checks)).changes) == 3
    assert await signal_counts(store) == [1, 1, 2]


async def test_failures_at_the_same_time_are_all_counted_and_raise_one_signal(store: Store) -> None:
    await add_evaluators(store, an_evaluator(), an_evaluator("evl_2"))
    batches = [
        [
            a_check(f"t{number}", failed=True, evaluator_id=evaluator_id, revision_id=f"{evaluator_id}_1")
            for evaluator_id in (("evl_1", "evl_2") if number % 2 else ("evl_2", "evl_1"))
        ]
        for number in range(12)
    ]
    results = await asyncio.gather(*(recorded(store, batch) for batch in batches))
    assert sum(len(result.changes) for result in results) == 2
    assert await signal_counts(store) == [12, 12]


async def test_a_failing_check_of_a_deleted_evaluator_is_history_without_a_signal(store: Store) -> None:
    await add_evaluators(store, an_evaluator())
    async with store.transaction() as transaction:
        await transaction.delete_evaluator(PROJECT, "evl_1")
    assert (await recorded(store, [a_check("t1", failed=True)])).changes == ()
    assert await signal_counts(store) == []

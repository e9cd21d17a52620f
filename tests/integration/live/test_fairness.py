"""What one project or evaluator leaves to the others in the live flow, over a real store."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from assay.domain.evaluator import Revision
from assay.domain.outcome import Call, Limits, Outcome, Returned
from assay.engine import Engine
from assay.errors import OverloadedError
from assay.live import execute
from assay.live.admit import DEPTH_AGE_S
from assay.live.meters import Meters
from assay.live.pipeline import LivePipeline, Timing
from assay.live.work import CHECK_LANE, CheckDue, encode
from assay.ports import Claim, Queue, Store, Work
from assay.testing import NOW_NS, FakeRunner, FixedClock, a_span, returning
from support.records import PROJECT, accept, add_evaluators, an_evaluator

MAX_BACKLOG = 8


class HangingRunner(FakeRunner):
    """Never comes back from a call, and knows whether it was given up."""

    def __init__(self) -> None:
        super().__init__(lambda _, __: Returned(value=1))
        self.begun = asyncio.Event()
        self.given_up = asyncio.Event()

    async def execute(self, revision: Revision, calls: Sequence[Call], limits: Limits) -> list[Outcome]:
        self.begun.set()
        try:
            await asyncio.sleep(600)
        finally:
            self.given_up.set()
        return []


def pipeline_over(store: Store, queue: Queue, clock: FixedClock) -> LivePipeline:
    return LivePipeline(
        store=store,
        queue=queue,
        engine=Engine({"python": returning(1)}, clock, Limits()),
        clock=clock,
        timing=Timing(max_backlog=MAX_BACKLOG),
        meters=Meters(),
        messengers={},
    )


async def owe(store: Store, evaluator_id: str, count: int) -> None:
    async with store.transaction() as transaction:
        await transaction.enqueue(
            [Work(lane=CHECK_LANE + evaluator_id, payload=b"", due_at_ns=NOW_NS) for _ in range(count)]
        )


@pytest.mark.parametrize("waiting", ["its traces", "the checks of its evaluators"])
async def test_a_full_backlog_turns_away_the_project_that_filled_it_and_no_other(
    opened: tuple[Store, Queue], waiting: str
) -> None:
    store, queue = opened
    clock = FixedClock()
    pipeline = pipeline_over(store, queue, clock)
    if waiting == "its traces":
        spans = [a_span("root", trace_id=f"t{number}") for number in range(MAX_BACKLOG)]
        assert await pipeline.accept("greedy", spans) == MAX_BACKLOG
    else:
        evaluator = an_evaluator("evl_greedy", project_id="greedy")
        revision = replace(evaluator.revision, project_id="greedy")
        await add_evaluators(store, replace(evaluator, revision=revision))
        await owe(store, "evl_greedy", MAX_BACKLOG)
    clock.advance(2 * DEPTH_AGE_S)
    with pytest.raises(OverloadedError, match="8 queue entries of this project wait and at most 2 may"):
        await pipeline.accept("greedy", [a_span("root", trace_id="late")])
    for number in range(2):
        assert await pipeline.accept("modest", [a_span("root", trace_id=f"t{number}")]) == 1
        clock.advance(2 * DEPTH_AGE_S)
    with pytest.raises(OverloadedError, match="2 queue entries of this project"):
        await pipeline.accept("modest", [a_span("root", trace_id="late")])


async def test_the_running_checks_of_a_deleted_evaluator_are_given_up(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execute, "LOOK_S", 0.05)
    await add_evaluators(store, an_evaluator())
    await accept(store, a_span("root", trace_id="t1"))
    runner = HangingRunner()
    due = CheckDue(PROJECT, "evl_1", "evl_1_1", "t1", 1)
    claim = Claim(id="1", lane=CHECK_LANE + "evl_1", payload=encode(due), attempt=1)
    engine = Engine({"python": runner}, FixedClock(), Limits())
    running = asyncio.create_task(execute.execute_while_wanted(store, engine, [claim]))
    await asyncio.wait_for(runner.begun.wait(), 20)
    await asyncio.sleep(0.2)
    assert not running.done()
    async with store.transaction() as transaction:
        assert await transaction.delete_evaluator(PROJECT, "evl_1")
    executed = await asyncio.wait_for(running, 20)
    assert (executed.done, executed.checks, executed.retry) == ([claim], [], [])
    assert runner.given_up.is_set()

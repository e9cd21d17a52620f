"""Attacks on the room of others: places, CPU and compilation are shared by project, however much one of them asks."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from assay.domain.outcome import Exceeded, Limits, Outcome, Returned
from assay.runners.children import pool
from assay.runners.sandbox.runner import SandboxRunner
from support.sandbox import own_descendants, run, value_of
from support.server import wait_for

pytestmark = pytest.mark.asyncio(loop_scope="module")

ECHO = "def evaluate(inputs, outputs, trace):\n    return inputs"
SLEEP = "import time\ndef evaluate(inputs, outputs, trace):\n    time.sleep(1000)"
SPIN = "def evaluate(inputs, outputs, trace):\n    while True: pass"
LIE = """
import sys

def evaluate(inputs, outputs, trace):
    frame = sys._getframe()
    while not (frame is None or hasattr(frame.f_locals.get("self"), "_started")):
        frame = frame.f_back
    batches = frame.f_locals["self"]
    while True:
        batches._started[1] = {lie}
        batches._item[0] = {item}
"""
LIES = ("float('nan')", "float('inf')", "float('-inf')", "1e308", "-1.0", "0.0", "__import__('time').monotonic()")
ITEMS = ("1", "0", "(batches._item[0] + 1) % 2**32", "2**32 - 1")


@pytest_asyncio.fixture(loop_scope="module")
async def runner() -> AsyncIterator[SandboxRunner]:
    started = await SandboxRunner.start(workers=2, minimum="no-landlock")
    try:
        yield started
    finally:
        await started.close()


def crowd(runner: SandboxRunner, source: str, limits: Limits, count: int) -> list[asyncio.Task[list[Outcome]]]:
    """Start so many evaluators of the source in each of two projects."""
    return [
        asyncio.create_task(run(runner, source, None, limits=limits, number=number, project_id=project_id))
        for number in range(count)
        for project_id in ("greedy", "greedier")
    ]


def long_ago(limits: Limits, count: int) -> float:
    return -3600.0 * count


async def sent_home(tasks: list[asyncio.Task[list[Outcome]]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_no_number_in_the_shared_progress_outlives_the_deadline(runner: SandboxRunner) -> None:
    idle = len(own_descendants())
    lies = [(lie, item) for lie in LIES for item in ITEMS]
    outcomes = await asyncio.wait_for(
        asyncio.gather(
            *[
                run(
                    runner,
                    LIE.format(lie=lie, item=item),
                    None,
                    limits=Limits(wall_s=1),
                    number=number,
                    project_id=f"liar {number}",
                )
                for number, (lie, item) in enumerate(lies)
            ]
        ),
        90,
    )
    for told, [outcome] in zip(lies, outcomes, strict=True):
        assert isinstance(outcome, Exceeded), told
        assert outcome.budget == "wall", told
    await asyncio.to_thread(wait_for, lambda: len(own_descendants()) <= idle, "the children to end")
    assert await value_of(runner, ECHO, "quick", number=99) == "quick"


async def test_two_projects_that_hang_leave_room_for_a_third(runner: SandboxRunner) -> None:
    crowded = crowd(runner, SLEEP, Limits(wall_s=60), 25)
    await asyncio.sleep(3)
    assert await asyncio.wait_for(value_of(runner, ECHO, "quick", number=99, project_id="modest"), 20) == "quick"
    assert not any(task.done() for task in crowded)
    await sent_home(crowded)


async def test_busy_loops_of_others_do_not_run_out_the_time_of_a_check_that_needs_some_cpu(
    runner: SandboxRunner,
) -> None:
    crowded = crowd(runner, SPIN, Limits(wall_s=60), 12)
    await asyncio.sleep(3)
    source = """
import time
def evaluate(inputs, outputs, trace):
    begun = time.process_time()
    while time.process_time() - begun < 0.8: pass
    return True
"""
    [outcome] = await run(runner, source, None, limits=Limits(), number=99, project_id="modest")
    assert isinstance(outcome, Returned)
    await sent_home(crowded)


async def test_an_evaluation_that_hardly_got_the_cpu_has_its_time_once_more(runner: SandboxRunner) -> None:
    source = """
import time
def evaluate(inputs, outputs, trace):
    until = time.monotonic() + 3.5
    while time.monotonic() < until:
        if inputs == "waits for the CPU":
            begun = time.process_time()
            while time.process_time() - begun < 0.005: pass
        time.sleep(0.1 if inputs == "waits for the CPU" else 10)
    return True
"""
    waiting, sleeping = await run(runner, source, "waits for the CPU", "sleeps", limits=Limits(wall_s=2.5))
    assert isinstance(waiting, Returned)
    assert isinstance(sleeping, Exceeded)


async def test_what_is_slow_to_compile_is_not_in_the_way_of_another_project(runner: SandboxRunner) -> None:
    lines = ["def evaluate(inputs, outputs, trace):"]
    for depth in range(1, 16):
        lines += ["    " * depth + "try:", "    " * depth + "    pass", "    " * depth + "finally:"]
    slow = "\n".join([*lines, "    " * 16 + "return 1"])
    crowded = [asyncio.create_task(runner.inspect("python", f"{slow}\n# {number}", "greedy")) for number in range(12)]
    await asyncio.sleep(0.2)
    assert (await runner.inspect("python", ECHO, "modest")).names == {"evaluate": 3}
    assert sum(task.done() for task in crowded) < len(crowded) // 2
    assert [found.names for found in await asyncio.gather(*crowded)] == [{"evaluate": 3}] * len(crowded)


async def test_a_cancelled_execute_that_has_no_child_yet_gets_none(runner: SandboxRunner) -> None:
    idle = len(own_descendants())
    tasks = [
        asyncio.create_task(run(runner, SPIN, None, limits=Limits(wall_s=600), number=number)) for number in range(8)
    ]
    for _ in range(5):
        await asyncio.sleep(0)
    await sent_home(tasks)
    await asyncio.to_thread(wait_for, lambda: len(own_descendants()) <= idle, "the children to end")


async def test_a_runner_whose_places_are_all_held_by_the_overdue_says_so(
    runner: SandboxRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await runner.unready() is None
    monkeypatch.setattr(pool, "longest_s", long_ago)
    tasks = [
        asyncio.create_task(run(runner, SLEEP, None, limits=Limits(wall_s=600), project_id=f"{number}"))
        for number in range(40)
    ]
    said = None
    for _ in range(600):
        said = said or await runner.unready()
        await asyncio.sleep(0 if said else 0.1)
    assert "past their deadline" in str(said)
    await sent_home(tasks)
    assert await value_of(runner, ECHO, "quick") == "quick"
    assert await runner.unready() is None

"""Revisions that crash again and again: paused, probed, and let run again; others and drafts are untouched."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from assay.domain.breaker import FAILURES_TO_OPEN
from assay.domain.check import Check
from assay.domain.evaluator import Revision
from assay.domain.outcome import Call, Exceeded, Limits, Outcome, Raised, Returned, Unavailable
from assay.domain.subject import Testcase as Row
from assay.domain.suspicion import PAUSED, PAUSES
from assay.engine import Engine
from assay.testing import FakeRunner, FixedClock, a_revision, a_trace

REVISION = a_revision()
HUNG = Exceeded(budget="wall", message="ran longer than 8 s", duration_s=8)
CRASHED = Raised(kind="script-crashed", type="ProcessEnded", message="the process ended itself", duration_s=0.1)
FINE = Returned(value=True)


class Time:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.clock = FixedClock()

    def __call__(self) -> float:
        return self.now_s

    def pass_by(self, seconds: float) -> None:
        self.now_s += seconds
        self.clock.advance(seconds)


def scripted(*outcomes: Outcome) -> FakeRunner:
    """Return a runner that answers with these, one a call, and then with the last for ever."""
    left = list(outcomes)
    return FakeRunner(lambda _, __: left.pop(0) if len(left) > 1 else left[0])


class Patient(FakeRunner):
    """Gives up the rest of a batch after enough crashes in a row, as a runner may."""

    async def execute(self, revision: Revision, calls: Sequence[Call], limits: Limits) -> list[Outcome]:
        done = await super().execute(revision, calls[:FAILURES_TO_OPEN], limits)
        return [*done, *(Unavailable(cause="given up", is_given_up=True) for _ in calls[FAILURES_TO_OPEN:])]


async def kinds(engine: Engine, count: int = 1, revision: Revision = REVISION) -> list[str]:
    """Check so many subjects; return for each the kind of its error, or its status."""
    results = await engine.evaluate(revision, [Row(inputs=number) for number in range(count)])
    return [shown(result) for result in results]


def shown(result: Check | Unavailable) -> str:
    if isinstance(result, Unavailable):
        return "unavailable"
    return result.reading.status if result.reading.error is None else result.reading.error.kind


def engine_of(runner: FakeRunner, time: Time | None = None) -> Engine:
    time = time or Time()
    return Engine({"python": runner, "external": runner}, time.clock, Limits(), time)


@pytest.mark.parametrize(
    "crash", [CRASHED, *(Exceeded(budget=budget, message="too much") for budget in ("wall", "cpu", "memory"))]
)
async def test_a_revision_that_crashes_so_often_in_a_row_is_paused(crash: Outcome) -> None:
    runner = scripted(crash)
    engine = engine_of(runner)
    for _ in range(FAILURES_TO_OPEN):
        assert (await kinds(engine))[0] != PAUSED
        assert len(runner.calls) <= FAILURES_TO_OPEN
    assert engine.paused == 1
    assert await kinds(engine, 300) == [PAUSED] * 300
    assert len(runner.calls) == FAILURES_TO_OPEN


@pytest.mark.parametrize(
    "outcome",
    [
        Raised(kind="script-raised", type="KeyError", message="'k'"),
        Raised(kind="script-exited", type="SystemExit", message="0"),
        *(Exceeded(budget=budget, message="too large") for budget in ("result", "payload")),
        Unavailable(cause="lost"),
        Returned(value="not allowed"),
    ],
)
async def test_what_costs_no_process_pauses_nothing(outcome: Outcome) -> None:
    engine = engine_of(scripted(outcome))
    assert PAUSED not in await kinds(engine, 3 * FAILURES_TO_OPEN)
    assert engine.paused == 0


async def test_only_crashes_in_a_row_count() -> None:
    engine = engine_of(scripted(*([CRASHED] * (FAILURES_TO_OPEN - 1) + [FINE]) * 4))
    assert PAUSED not in [kind for _ in range(4) for kind in await kinds(engine, FAILURES_TO_OPEN)]


async def test_a_revision_under_suspicion_is_handed_no_more_than_it_takes_to_pause_it() -> None:
    handed: list[int] = []

    class Counting(FakeRunner):
        async def execute(self, revision: Revision, calls: Sequence[Call], limits: Limits) -> list[Outcome]:
            handed.append(len(calls))
            return await super().execute(revision, calls, limits)

    crashing = engine_of(Counting(lambda _, __: HUNG))
    await kinds(crashing, 2)
    assert await kinds(crashing, 256) == ["timeout"] * (FAILURES_TO_OPEN - 2) + [PAUSED] * (256 + 2 - FAILURES_TO_OPEN)
    assert handed == [2, FAILURES_TO_OPEN - 2]

    handed.clear()
    left = [HUNG, HUNG]
    recovering = engine_of(Counting(lambda _, __: left.pop() if left else FINE))
    await kinds(recovering, 2)
    assert await kinds(recovering, 256) == ["scored"] * 256
    assert handed == [2, FAILURES_TO_OPEN - 2, 256 + 2 - FAILURES_TO_OPEN]


async def test_the_check_that_paused_it_fails_with_the_reason_and_no_other_does() -> None:
    engine = engine_of(scripted(HUNG))
    traces = [a_trace(trace_id=f"{number:032x}") for number in range(FAILURES_TO_OPEN + 3)]
    results = [check for trace in traces for check in await engine.evaluate(REVISION, [trace])]
    checks = [check for check in results if isinstance(check, Check)]
    assert [check.failed for check in checks] == [False] * (FAILURES_TO_OPEN - 1) + [True] + [False] * 3
    verdict = checks[FAILURES_TO_OPEN - 1].reading.verdict
    assert verdict is not None
    assert verdict.reason == (
        "The evaluator itself is failing, and is paused until 2025-06-15T15:06:55Z: 5 of its checks in a row ended "
        "their process or used up a budget, the last one with: ran longer than 8 s."
    )
    assert [check.reading.status for check in checks] == ["errored"] * len(checks)
    error = checks[-1].reading.error
    assert error is not None
    for told in ("paused", "5 of its checks in a row", "ran longer than 8 s", "2025-06-15T15:06:55Z"):
        assert told in error.message
    assert (checks[-1].duration_s, checks[-1].logs) == (0, "")


async def test_after_the_pause_one_check_is_the_probe_and_its_success_lets_the_rest_run() -> None:
    time, runner = Time(), scripted(*[HUNG] * FAILURES_TO_OPEN, FINE)
    engine = engine_of(runner, time)
    await kinds(engine, FAILURES_TO_OPEN)
    time.pass_by(PAUSES.first_s - 1)
    assert await kinds(engine) == [PAUSED]
    time.pass_by(1)
    assert engine.paused == 0
    assert await kinds(engine, 4) == ["scored"] * 4
    assert len(runner.calls) == FAILURES_TO_OPEN + 4


async def test_a_probe_that_fails_pauses_it_for_longer_and_says_so_once_more() -> None:
    time, runner = Time(), scripted(HUNG)
    engine = engine_of(runner, time)
    await kinds(engine, FAILURES_TO_OPEN)
    time.pass_by(PAUSES.first_s)
    probe, *kept_back = await engine.evaluate(REVISION, [a_trace(), a_trace(), a_trace()])
    assert isinstance(probe, Check)
    assert probe.failed
    assert [shown(result) for result in (probe, *kept_back)] == ["timeout", PAUSED, PAUSED]
    time.pass_by(2 * PAUSES.first_s - 1)
    assert await kinds(engine) == [PAUSED]
    time.pass_by(1)
    assert await kinds(engine) == ["timeout"]
    assert len(runner.calls) == FAILURES_TO_OPEN + 2


class Held(FakeRunner):
    """Answers when it is let."""

    def __init__(self, answer: Callable[[Revision, Call], Outcome]) -> None:
        super().__init__(answer)
        self.entered, self.free = asyncio.Event(), asyncio.Event()
        self.free.set()

    async def execute(self, revision: Revision, calls: Sequence[Call], limits: Limits) -> list[Outcome]:
        self.entered.set()
        await self.free.wait()
        return await super().execute(revision, calls, limits)


async def test_while_the_probe_runs_others_are_kept_back_and_one_given_up_makes_room_for_another() -> None:
    time, runner = Time(), Held(lambda _, __: HUNG)
    engine = engine_of(runner, time)
    await kinds(engine, FAILURES_TO_OPEN)
    time.pass_by(PAUSES.first_s)
    runner.free.clear()
    runner.entered.clear()
    probe = asyncio.create_task(kinds(engine))
    await runner.entered.wait()
    time.pass_by(1000)
    assert await kinds(engine, 2) == [PAUSED, PAUSED]
    probe.cancel()
    await asyncio.gather(probe, return_exceptions=True)
    runner.free.set()
    assert await kinds(engine, 2) == ["timeout", PAUSED]


async def test_a_probe_that_we_could_not_run_leaves_the_next_check_to_be_one() -> None:
    time, runner = Time(), scripted(*[HUNG] * FAILURES_TO_OPEN, Unavailable(cause="lost"), FINE)
    engine = engine_of(runner, time)
    await kinds(engine, FAILURES_TO_OPEN)
    time.pass_by(PAUSES.first_s)
    assert await kinds(engine, 3) == ["unavailable", "scored", "scored"]


async def test_what_a_runner_gave_up_of_a_large_batch_is_errored_at_once() -> None:
    runner = Patient(lambda _, __: HUNG)
    results = await engine_of(runner).evaluate(REVISION, [Row(inputs=number) for number in range(256)])
    assert [shown(result) for result in results] == ["timeout"] * FAILURES_TO_OPEN + [PAUSED] * 251
    assert len(runner.calls) == FAILURES_TO_OPEN


async def test_what_a_runner_gave_up_is_run_while_nothing_is_paused() -> None:
    runner = Patient(lambda _, __: FINE)
    assert await kinds(engine_of(runner), 3 * FAILURES_TO_OPEN) == ["scored"] * 3 * FAILURES_TO_OPEN


async def test_a_runner_that_gives_up_everything_is_not_asked_for_ever() -> None:
    runner = FakeRunner(lambda _, __: Unavailable(cause="given up", is_given_up=True))
    assert await kinds(engine_of(runner), 3) == ["unavailable"] * 3


async def test_a_new_revision_and_other_evaluators_are_not_paused() -> None:
    other, newer = a_revision(evaluator_id="evl_2"), a_revision(number=2)
    engine = engine_of(FakeRunner(lambda revision, _: HUNG if revision == REVISION else FINE))
    await kinds(engine, FAILURES_TO_OPEN)
    assert [await kinds(engine, 1, revision) for revision in (REVISION, other, newer)] == [
        [PAUSED],
        ["scored"],
        ["scored"],
    ]


async def test_dry_runs_are_neither_paused_nor_counted() -> None:
    draft = replace(REVISION, evaluator_id="")
    runner = scripted(HUNG)
    engine = engine_of(runner)
    assert await kinds(engine, 3 * FAILURES_TO_OPEN, draft) == ["timeout"] * 3 * FAILURES_TO_OPEN
    assert engine.paused == 0
    await kinds(engine, FAILURES_TO_OPEN)
    assert await kinds(engine, 2, draft) == ["timeout"] * 2


async def test_endpoints_are_left_to_the_breakers_of_their_runner() -> None:
    endpoint = replace(REVISION, kind="external", interface=None, language=None)
    engine = engine_of(scripted(HUNG))
    assert await kinds(engine, 3 * FAILURES_TO_OPEN, endpoint) == ["timeout"] * 3 * FAILURES_TO_OPEN


async def test_a_bounded_number_of_revisions_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.engine.SUSPECTED", 3)
    engine = engine_of(scripted(HUNG))
    for number in range(5):
        await kinds(engine, FAILURES_TO_OPEN, a_revision(number=number))
    assert engine.paused == 3

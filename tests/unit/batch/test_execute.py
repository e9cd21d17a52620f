"""A batch waits for every check."""

import asyncio
from collections.abc import Sequence

import pytest

from assay.batch.execute import ATTEMPTS, execute
from assay.domain.evaluator import Revision
from assay.domain.outcome import Call, Limits, Outcome, Returned, Unavailable
from assay.domain.subject import Testcase as Row
from assay.engine import Engine
from assay.errors import SandboxUnavailableError
from assay.testing import FakeRunner, FixedClock, a_revision, returning


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(_: float) -> None: ...

    monkeypatch.setattr(asyncio, "sleep", at_once)


def engine_of(runner: FakeRunner) -> Engine:
    return Engine({"python": runner}, FixedClock(), Limits())


async def test_more_subjects_than_fit_one_batch_have_their_checks_in_order() -> None:
    runner = FakeRunner(lambda _, call: Returned(value={"n": int(call.arguments[0])}))
    checks = await execute(engine_of(runner), a_revision(), [Row(inputs=number) for number in range(600)])
    assert [check.reading.metrics["n"] for check in checks] == list(range(600))


async def test_what_could_not_be_run_is_tried_again() -> None:
    attempts = 0

    def answer(_: object, __: Call) -> Outcome:
        nonlocal attempts
        attempts += 1
        return Unavailable(cause="lost") if attempts < ATTEMPTS else Returned(value=True)

    (check,) = await execute(engine_of(FakeRunner(answer)), a_revision(), [Row()])
    assert check.reading.metrics == {"success": True}


async def test_the_next_try_is_no_sooner_than_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def note(wait_s: float) -> None:
        waits.append(wait_s)

    monkeypatch.setattr(asyncio, "sleep", note)
    answers = iter([Unavailable(cause="busy", after_s=30), Unavailable(cause="busy"), Returned(value=True)])
    await execute(engine_of(FakeRunner(lambda _, __: next(answers))), a_revision(), [Row()])
    assert waits == [30, 2]


async def test_what_can_never_be_run_is_our_fault_and_says_why() -> None:
    runner = FakeRunner(lambda _, __: Unavailable(cause="no zygote"))
    with pytest.raises(SandboxUnavailableError, match="1 checks could not be run: no zygote"):
        await execute(engine_of(runner), a_revision(), [Row()])
    assert len(runner.calls) == ATTEMPTS


async def test_what_a_runner_gave_up_is_tried_as_long_as_some_of_it_goes() -> None:
    budget = 0

    class GivesUp(FakeRunner):
        async def execute(self, revision: Revision, calls: Sequence[Call], limits: Limits) -> list[Outcome]:
            nonlocal budget
            budget = 2
            return await super().execute(revision, calls, limits)

    def answer(_: object, call: Call) -> Outcome:
        nonlocal budget
        budget -= 1
        return Returned(value={"n": int(call.arguments[0])}) if budget >= 0 else Unavailable(cause="", is_given_up=True)

    runner = GivesUp(answer)
    checks = await execute(engine_of(runner), a_revision(), [Row(inputs=number) for number in range(11)])
    assert [check.reading.metrics["n"] for check in checks] == list(range(11))


async def test_no_subjects_have_no_checks() -> None:
    assert await execute(engine_of(returning(1)), a_revision(), []) == []

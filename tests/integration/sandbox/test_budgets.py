"""Wall time, CPU time and memory in each language: which budget is named, what was used, and who is not harmed."""

import asyncio
import re
from collections import Counter
from dataclasses import replace
from functools import partial

import pytest

from assay.batch.execute import execute
from assay.domain.breaker import FAILURES_TO_OPEN
from assay.domain.evaluator import Language
from assay.domain.outcome import Exceeded, Limits, Outcome, Raised, Returned, Unavailable
from assay.domain.subject import Testcase as Row
from assay.domain.suspicion import PAUSED
from assay.engine import Engine
from assay.runners.sandbox.runner import SandboxRunner
from assay.testing import FixedClock, a_revision
from support.runners import module_runner
from support.sandbox import run

pytestmark = pytest.mark.asyncio(loop_scope="module")

SLEEP, SPIN, GROW = 1, 2, 3
PYTHON = """
import time
def evaluate(inputs, outputs, trace):
    print("begun", inputs)
    if inputs == 1:
        time.sleep(60)
    while inputs == 2:
        pass
    return len("x" * (1 << 40)) if inputs == 3 else inputs
"""
JAVASCRIPT = """
function evaluate(inputs) {
  console.log("begun", inputs);
  while (inputs === 2);
  const all = [];
  while (inputs === 3) all.push(new Array(1000).fill(1.5));
  return inputs;
}
"""
SOURCES: dict[Language, str] = {
    "python": PYTHON,
    "javascript": JAVASCRIPT,
    "typescript": JAVASCRIPT.replace("(inputs)", "(inputs: number): number").replace("all =", "all: number[][] ="),
}
SMALL = 64 * 1024 * 1024
SECONDS = r"([0-9.]+) s"


runner = module_runner(partial(SandboxRunner.start, workers=2, minimum="no-landlock"))


def exceeded(outcome: Outcome) -> Exceeded:
    assert isinstance(outcome, Exceeded), outcome
    return outcome


def numbers(message: str, pattern: str) -> list[float]:
    found = re.fullmatch(pattern, message)
    assert found is not None, message
    return [float(group) for group in found.groups()]


@pytest.mark.parametrize("language", SOURCES)
async def test_each_budget_of_a_mixed_batch_is_named_and_everybody_else_answers(
    runner: SandboxRunner, language: Language
) -> None:
    limits = Limits(wall_s=20, cpu_s=0.5, memory_bytes=SMALL)
    given = [0, SPIN, 4, 5, GROW, 6, SPIN, 7]
    outcomes = await run(runner, SOURCES[language], *given, limits=limits, language=language)
    named = [outcome.budget if isinstance(outcome, Exceeded) else "-" for outcome in outcomes]
    # Growing arrays may also take all the CPU time before all the memory, on a slow machine.
    assert named[4] in ("memory", "cpu")
    assert [*named[:4], *named[5:]] == ["-", "cpu", "-", "-", "-", "cpu", "-"]
    assert [outcome.value for outcome in outcomes if isinstance(outcome, Returned)] == [0, 4, 5, 6, 7]
    assert [outcome.logs for outcome in outcomes] == [f"begun {each}\n" for each in given]


async def test_what_sleeps_is_out_of_wall_time_and_told_how_little_cpu_it_used(runner: SandboxRunner) -> None:
    outcomes = await run(runner, PYTHON, 0, SLEEP, 4, limits=Limits(wall_s=1, cpu_s=1))
    hung = exceeded(outcomes[1])
    pattern = rf"the evaluation ran longer than 1 s: it was stopped after {SECONDS}, "
    ran_s, cpu_s = numbers(hung.message, rf"{pattern}with (?:at most )?{SECONDS} of CPU time used")
    assert hung.budget == "wall"
    assert ran_s >= 1
    assert cpu_s < 0.5
    assert hung.duration_s >= 1
    assert [type(outcomes[index]) for index in (0, 2)] == [Returned, Returned]


@pytest.mark.parametrize("language", SOURCES)
async def test_a_busy_loop_is_out_of_cpu_time_though_it_has_as_much_of_it_as_of_wall_time(
    runner: SandboxRunner, language: Language
) -> None:
    outcomes = await run(runner, SOURCES[language], 0, SPIN, 4, limits=Limits(wall_s=1, cpu_s=1), language=language)
    spun = exceeded(outcomes[1])
    if spun.budget == "cpu":
        pattern = rf"the evaluation used more than 1 s of CPU time: it was stopped after {SECONDS}, "
        ran_s, cpu_s = numbers(spun.message, rf"{pattern}with (?:at most )?{SECONDS} of CPU time used")
        assert cpu_s >= 1
        assert ran_s >= 1
    else:
        # The machine was so full that it got no more than that by its deadline.
        pattern = rf"the evaluation ran longer than 1 s: it was stopped after {SECONDS}, "
        _, cpu_s = numbers(spun.message, rf"{pattern}with (?:at most )?{SECONDS} of CPU time used")
        assert cpu_s < 1
    assert [type(outcomes[index]) for index in (0, 2)] == [Returned, Returned]


async def test_the_cpu_budget_holds_for_code_that_stops_its_own_timer(runner: SandboxRunner) -> None:
    source = """
import signal
def evaluate(inputs, outputs, trace):
    signal.signal(signal.SIGPROF, signal.SIG_IGN)
    signal.setitimer(signal.ITIMER_PROF, 0)
    while inputs:
        pass
    return True
"""
    spun, after = await run(runner, source, 1, 0, limits=Limits(wall_s=60, cpu_s=0.5))
    assert exceeded(spun).budget == "cpu"
    assert spun.duration_s < 50
    assert isinstance(after, Returned)


async def test_what_a_neighbour_used_before_is_not_counted(runner: SandboxRunner) -> None:
    source = """
import time
def evaluate(inputs, outputs, trace):
    begun = time.process_time()
    while inputs and time.process_time() - begun < 0.3:
        pass
    return True if inputs else time.sleep(60)
"""
    outcomes = await run(runner, source, 1, 1, 1, 1, 0, limits=Limits(wall_s=2, cpu_s=2))
    assert [type(outcome) for outcome in outcomes[:4]] == [Returned] * 4
    hung = exceeded(outcomes[4])
    assert hung.budget == "wall"
    [cpu_s] = numbers(hung.message, rf".*with (?:at most )?{SECONDS} of CPU time used")
    assert cpu_s < 0.5


@pytest.mark.parametrize("language", SOURCES)
async def test_a_breach_of_memory_tells_what_the_kernel_counted(runner: SandboxRunner, language: Language) -> None:
    [outcome] = await run(
        runner, SOURCES[language], GROW, limits=Limits(wall_s=60, cpu_s=60, memory_bytes=SMALL), language=language
    )
    breach = exceeded(outcome)
    assert breach.budget == "memory"
    assert breach.logs == "begun 3\n"
    [held] = numbers(
        breach.message,
        r"the evaluation needed more than 64 MiB of memory: its process held ([0-9.]+) MiB at the most, the "
        r"interpreter included, before it was refused more",
    )
    assert 5 < held < 300


@pytest.mark.parametrize(
    "crash", ["os._exit(3)", "os.abort()", "ctypes.string_at(0)", "'x' * (1 << 40)", "time.sleep(60)"]
)
async def test_a_batch_of_which_all_crashes_is_given_up_after_some_in_a_row(runner: SandboxRunner, crash: str) -> None:
    source = f"import ctypes, os, time\ndef evaluate(inputs, outputs, trace):\n    {crash}\n"
    outcomes = await run(runner, source, *range(256), limits=Limits(wall_s=0.5, cpu_s=0.5))
    crashed = [outcome for outcome in outcomes if isinstance(outcome, Raised | Exceeded)]
    given_up = [outcome for outcome in outcomes if isinstance(outcome, Unavailable) and outcome.is_given_up]
    assert len(crashed) == FAILURES_TO_OPEN
    assert len(given_up) == 256 - FAILURES_TO_OPEN


async def test_a_request_beside_one_that_is_given_up_goes_on(runner: SandboxRunner) -> None:
    source = "import os\ndef evaluate(inputs, outputs, trace):\n    return os._exit(3) if inputs else True\n"
    crashing, fine = await asyncio.gather(run(runner, source, *[1] * 50), run(runner, source, *[0] * 50))
    assert any(isinstance(outcome, Unavailable) for outcome in crashing)
    assert [type(outcome) for outcome in fine] == [Returned] * 50


@pytest.mark.parametrize("crash", ["time.sleep(60)", "os._exit(3)", "ctypes.string_at(0)"])
async def test_a_batch_run_of_what_always_crashes_costs_a_few_deadlines_in_all(
    runner: SandboxRunner, crash: str
) -> None:
    source = f"import ctypes, os, time\ndef evaluate(inputs, outputs, trace):\n    {crash}\n"
    revision = replace(a_revision(source), wall_s=0.3)
    other = a_revision("def evaluate(inputs, outputs, trace):\n    return True\n", evaluator_id="evl_2")
    engine = Engine({"python": runner}, FixedClock(), Limits())
    rows = [Row(inputs=number) for number in range(600)]
    checks = await execute(engine, revision, rows)
    kinds = Counter(check.reading.error.kind if check.reading.error else "-" for check in checks)
    assert kinds[PAUSED] == 600 - FAILURES_TO_OPEN
    assert [check.failed for check in checks].count(True) == 1
    assert {check.reading.status for check in await execute(engine, other, rows)} == {"scored"}

"""The local runner: code that is trusted with everything but time and memory."""

import os
from functools import partial
from pathlib import Path

import pytest

from assay.domain.evaluator import Language
from assay.domain.outcome import Exceeded, Limits, Raised, Returned
from assay.runners.local.runner import LocalRunner
from assay.testing import RunnerConformance, a_revision
from support.runners import module_runner
from support.sandbox import call_of, is_running, own_descendants, run, value_of
from support.server import wait_for

pytestmark = pytest.mark.asyncio(loop_scope="module")

ECHO = "def evaluate(inputs, outputs, trace):\n    return inputs"
STARTS_A_PROCESS = """
import subprocess

def evaluate(inputs, outputs, trace):
    started = subprocess.Popen(["sleep", "600"])
    open(inputs, "w").write(str(started.pid))
    {rest}
"""


runner = module_runner(partial(LocalRunner.start, workers=2))


class TestConformance(RunnerConformance):
    pass


async def test_the_code_runs_in_another_process_that_can_reach_what_the_server_can(
    runner: LocalRunner, tmp_path: Path
) -> None:
    file = tmp_path / "words"
    file.write_text("hello")
    source = """
import os, subprocess

def evaluate(inputs, outputs, trace):
    told = subprocess.run(["cat", inputs], capture_output=True, text=True).stdout
    return {"pid": os.getpid(), "read": open(inputs).read(), "told": told}
"""
    found = await value_of(runner, source, str(file))
    assert found["pid"] != os.getpid()
    assert (found["read"], found["told"]) == ("hello", "hello")


async def test_the_servers_own_settings_are_not_in_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_ADMIN_KEY", "a-key-of-the-server")
    monkeypatch.setenv("SOME_TOKEN", "for evaluators")
    started = await LocalRunner.start(workers=1)
    try:
        source = "import os\ndef evaluate(i, o, t):\n    return {'names': ' '.join(os.environ)}"
        names = (await value_of(started, source))["names"].split()
    finally:
        await started.close()
    assert "SOME_TOKEN" in names
    assert not [name for name in names if name.startswith("ASSAY_")]


async def test_third_party_packages_can_be_imported(runner: LocalRunner) -> None:
    source = "import msgspec\ndef evaluate(i, o, t):\n    return msgspec.json.decode(b'[1]')"
    assert await value_of(runner, source) == [1]


@pytest.mark.parametrize(("language", "parameter"), [("javascript", "i"), ("typescript", "i: number")])
async def test_the_other_languages_run_too(runner: LocalRunner, language: Language, parameter: str) -> None:
    source = f"function evaluate({parameter}, o) {{ console.log('saw', i); return {{same: i, length: o.length}} }}"
    revision = a_revision(source, language=language)
    [outcome] = await runner.execute(revision, [call_of(7, "four", None)], Limits())
    assert isinstance(outcome, Returned), outcome
    assert (outcome.value, outcome.logs) == ({"same": 7, "length": 4}, "saw 7\n")


async def test_an_evaluation_that_hangs_is_killed_alone(runner: LocalRunner) -> None:
    source = "def evaluate(inputs, outputs, trace):\n    while inputs == 1: pass\n    return inputs"
    outcomes = await run(runner, source, 0, 1, 2)
    assert isinstance(outcomes[1], Exceeded)
    assert outcomes[1].budget == "wall"
    assert [outcome.value for outcome in outcomes if isinstance(outcome, Returned)] == [0, 2]


async def test_cpu_time_is_bounded_of_its_own(runner: LocalRunner) -> None:
    source = "def evaluate(inputs, outputs, trace):\n    while True: pass"
    [outcome] = await run(runner, source, 0, limits=Limits(wall_s=20, cpu_s=0.3))
    assert isinstance(outcome, Exceeded)
    assert outcome.budget == "cpu"


async def test_memory_is_bounded(runner: LocalRunner) -> None:
    source = "def evaluate(inputs, outputs, trace):\n    return len('x' * inputs)"
    outcomes = await run(runner, source, 10, 10**9, 20, limits=Limits(memory_bytes=128 * 1024 * 1024))
    assert isinstance(outcomes[1], Exceeded)
    assert outcomes[1].budget == "memory"
    assert [outcome.value for outcome in outcomes if isinstance(outcome, Returned)] == [10, 20]


async def test_a_process_that_ends_itself_is_the_authors_error_and_no_neighbours(runner: LocalRunner) -> None:
    source = "import os\ndef evaluate(inputs, outputs, trace):\n    return os._exit(0) if inputs == 1 else inputs"
    outcomes = await run(runner, source, 0, 1, 2)
    assert isinstance(outcomes[1], Raised)
    assert outcomes[1].kind == "script-crashed"
    assert [outcome.value for outcome in outcomes if isinstance(outcome, Returned)] == [0, 2]


@pytest.mark.parametrize("rest", ["return True", "while True: pass"])
async def test_what_the_code_started_ends_with_it(runner: LocalRunner, tmp_path: Path, rest: str) -> None:
    file = tmp_path / "pid"
    await run(runner, STARTS_A_PROCESS.format(rest=rest), str(file))
    pid = int(file.read_text())
    assert wait_for(lambda: not is_running(pid), "the end of what the code started")


async def test_closing_leaves_no_process() -> None:
    before = own_descendants()
    started = await LocalRunner.start(workers=1)
    assert await value_of(started, ECHO, 1) == 1
    assert own_descendants() - before
    await started.close()
    assert not own_descendants() - before

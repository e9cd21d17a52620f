"""A runner that another package brings: the documented example, really installed, and what is wrong with others."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from assay.domain.outcome import Exceeded, Limits, Returned
from assay.errors import ConfigurationError
from assay.ports import CodeRunner
from assay.runners.installed import start_installed
from assay.testing import RunnerConformance
from support.sandbox import run, value_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
# The machine that runs the tests may have no containers: the example's command is a setting.
ENVIRONMENT = {"CONTAINER_COMMAND": f"{sys.executable} -I"}
BUILT_IN = ("sandbox", "local")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    target = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run(
        [*command, "--no-build-isolation", "--no-index", "--target", str(target), str(EXAMPLES / "runner")], check=True
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(target), *sys.path])
        yield target


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runner(installed: Path) -> AsyncIterator[CodeRunner]:
    started = await start_installed("container", ENVIRONMENT, BUILT_IN)
    yield started
    await started.close()


class TestConformance(RunnerConformance):
    pass


async def test_the_example_runs_handlers_and_async_code(runner: CodeRunner) -> None:
    assert await value_of(runner, "async def evaluate(i, o, t):\n    return i\n", 3) == 3
    assert await runner.unready() is None


async def test_the_example_blames_what_hangs_alone(runner: CodeRunner) -> None:
    source = "def evaluate(n, o, t):\n    while n: pass\n    return 1\n"
    hung, returned = await run(runner, source, 1, 0, limits=Limits(wall_s=2.0))
    assert isinstance(hung, Exceeded)
    assert isinstance(returned, Returned)


async def test_the_command_line_takes_an_installed_runner_by_its_name(installed: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("assay"),
        "eval",
        EXAMPLES / "no_refusal.py",
        "--traces",
        EXAMPLES / "traces.json",
        "--format",
        "json",
        env={**os.environ, **ENVIRONMENT, "PYTHONPATH": str(installed), "ASSAY_CODE_RUNNER": "container"},
        stdout=asyncio.subprocess.PIPE,
    )
    printed, _ = await process.communicate()
    assert b'"container"' in printed
    assert b'"scored"' in printed


async def test_a_name_that_nobody_brings_is_refused_with_those_there_are(installed: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"'nowhere'.*sandbox, local; installed: .*container"):
        await start_installed("nowhere", {}, BUILT_IN)


@pytest.mark.parametrize(
    ("module", "told"),
    [
        ("import what_is_not_there", "cannot be loaded: No module named 'what_is_not_there'"),
        ("other = 1", "cannot be loaded: module 'odd_runner' has no attribute 'start'"),
        ("async def start(environment):\n    return environment", "gave a dict.*CodeRunner"),
    ],
)
async def test_a_package_that_brings_no_runner_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, module: str, told: str
) -> None:
    described = tmp_path / "odd-1.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1\n")
    (described / "entry_points.txt").write_text("[assay.runners]\nodd = odd_runner:start\n")
    (tmp_path / "odd_runner.py").write_text(module)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "odd_runner", raising=False)
    with pytest.raises(ConfigurationError, match=told):
        await start_installed("odd", {}, BUILT_IN)

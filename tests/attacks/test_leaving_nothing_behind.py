"""When the server is killed, nothing of the sandbox goes on, whatever it was running."""

import sys

import pytest

from support.sandbox import demand_that_all_ends_with

HANGING_SERVER = """
import asyncio, sys
sys.path.insert(0, sys.argv[2])
from assay.domain.outcome import Limits
from support.sandbox import LADDER, calls_of, revision_of
from assay.runners.sandbox.runner import SandboxRunner

PYTHON = '''
import signal
def evaluate(inputs, outputs, trace):
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
    while True:
        try:
            while True: pass
        except BaseException:
            pass
'''

JAVASCRIPT = "function evaluate() { for (;;) {} }"

async def main():
    rung = next(rung for rung in LADDER if rung.name == sys.argv[1])
    runner = await SandboxRunner.start_on(rung, workers=1)
    source = PYTHON if sys.argv[3] == "python" else JAVASCRIPT
    revisions = [revision_of(source, number=number, language=sys.argv[3]) for number in range(2)]
    await asyncio.gather(*[runner.execute(revision, calls_of(0), Limits(wall_s=60)) for revision in revisions])

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("rung", "language", "fewest"),
    [
        ("full", "python", 5),
        ("no-namespaces", "python", 3),
        ("no-landlock", "python", 3),
        ("full", "javascript", 8),
        ("no-landlock", "javascript", 4),
        ("full", "typescript", 11),
        ("no-landlock", "typescript", 5),
    ],
)
def test_killing_the_server_ends_every_sandbox_process(
    rung: str, language: str, fewest: int, pytestconfig: pytest.Config
) -> None:
    command = [sys.executable, "-c", HANGING_SERVER, rung, str(pytestconfig.rootpath / "tests"), language]
    demand_that_all_ends_with(command, fewest)

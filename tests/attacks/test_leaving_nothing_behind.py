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

SOURCE = '''
import signal
def evaluate(inputs, outputs, trace):
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
    while True:
        try:
            while True: pass
        except BaseException:
            pass
'''

async def main():
    rung = next(rung for rung in LADDER if rung.name == sys.argv[1])
    runner = await SandboxRunner.start_on(rung, workers=2)
    runs = [runner.execute(revision_of(SOURCE, number=n), calls_of(0), Limits(wall_s=60)) for n in range(2)]
    await asyncio.gather(*runs)

asyncio.run(main())
"""


@pytest.mark.parametrize("rung", ["full", "no-namespaces", "no-landlock"])
def test_killing_the_server_ends_every_sandbox_process(rung: str, pytestconfig: pytest.Config) -> None:
    command = [sys.executable, "-c", HANGING_SERVER, rung, str(pytestconfig.rootpath / "tests")]
    fewest = {"full": 8}.get(rung, 4)
    demand_that_all_ends_with(command, fewest)

"""When the server is killed, nothing of the sandbox goes on, whatever it was running."""

import subprocess
import sys

import pytest

from support.sandbox import descendants, is_running
from support.server import wait_for

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
    with subprocess.Popen(command) as server:
        try:
            below = wait_for(
                lambda: found if len(found := descendants(server.pid)) >= fewest else None, "the children", 30
            )
        finally:
            server.kill()
    wait_for(lambda: not any(is_running(pid) for pid in below), "the sandbox to end", 10)

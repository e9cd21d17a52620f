"""Each attack is tried on every rung of the ladder that this machine offers, and the runner must go on afterwards."""

from collections.abc import AsyncIterator

import pytest_asyncio

from assay.runners.sandbox.runner import SandboxRunner
from support.runners import ladder_runner
from support.sandbox import value_of

HARMLESS = "def evaluate(inputs, outputs, trace):\n    return len(outputs)"


sandbox = ladder_runner(workers=1)


@pytest_asyncio.fixture(loop_scope="module")
async def runner(sandbox: SandboxRunner) -> AsyncIterator[SandboxRunner]:
    """The runner, held to go on after the attack with the same zygote."""
    zygotes = sandbox.zygote_pids
    yield sandbox
    assert await value_of(sandbox, HARMLESS, number=99) == len("an answer")
    assert sandbox.zygote_pids == zygotes

"""Each attack is tried on every rung of the ladder that this machine offers, and the runner must go on afterwards."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from assay.errors import SandboxUnavailableError
from assay.runners.sandbox.launch import Rung
from assay.runners.sandbox.runner import SandboxRunner
from support.sandbox import LADDER, value_of

HARMLESS = "def evaluate(inputs, outputs, trace):\n    return len(outputs)"


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=LADDER, ids=lambda rung: rung.name)
async def sandbox(request: pytest.FixtureRequest) -> AsyncIterator[SandboxRunner]:
    rung: Rung = request.param
    try:
        started = await SandboxRunner.start_on(rung, workers=1)
    except SandboxUnavailableError as error:
        pytest.skip(f"{rung.description}: {error}")
    try:
        yield started
    finally:
        await started.close()


@pytest_asyncio.fixture(loop_scope="module")
async def runner(sandbox: SandboxRunner) -> AsyncIterator[SandboxRunner]:
    """The runner, held to go on after the attack with the same zygote."""
    zygotes = sandbox.zygote_pids
    yield sandbox
    assert await value_of(sandbox, HARMLESS, number=99) == len("an answer")
    assert sandbox.zygote_pids == zygotes

"""Runners of code for the tests of a module: started for the first of them, closed after the last."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio

from assay.errors import SandboxUnavailableError
from assay.ports import Runner
from assay.runners.sandbox.runner import SandboxRunner
from support.sandbox import LADDER


def module_runner(start: Callable[[], Awaitable[Runner]]) -> Any:
    """Return a fixture of one runner."""

    @pytest_asyncio.fixture(scope="module", loop_scope="module")
    async def runner() -> AsyncIterator[Runner]:
        started = await start()
        try:
            yield started
        finally:
            await started.close()

    return runner


def ladder_runner(**settings: Any) -> Any:
    """Return a fixture of the sandbox on each rung of its ladder that this machine offers."""

    @pytest_asyncio.fixture(scope="module", loop_scope="module", params=LADDER, ids=lambda rung: rung.name)
    async def runner(request: pytest.FixtureRequest) -> AsyncIterator[SandboxRunner]:
        try:
            started = await SandboxRunner.start_on(request.param, **settings)
        except SandboxUnavailableError as error:
            pytest.skip(f"{request.param.description}: {error}")
        try:
            yield started
        finally:
            await started.close()

    return runner

"""Run one revision over many subjects and wait for every check."""

import asyncio
from collections.abc import Sequence

from assay.domain.check import Check
from assay.domain.evaluator import Revision
from assay.domain.outcome import Unavailable
from assay.domain.subject import Subject
from assay.engine import Engine
from assay.errors import SandboxUnavailableError

BATCH = 256
ATTEMPTS = 3


async def execute(engine: Engine, revision: Revision, subjects: Sequence[Subject]) -> list[Check]:
    """Return a check per subject, in order; what we could not run is tried three times, then raised as our fault."""
    checks: list[Check] = []
    for start in range(0, len(subjects), BATCH):
        checks += await _run(engine, revision, subjects[start : start + BATCH])
    return checks


async def _run(engine: Engine, revision: Revision, subjects: Sequence[Subject]) -> list[Check]:
    attempt = 1
    while True:
        results = await engine.evaluate(revision, subjects)
        unavailable = [result for result in results if isinstance(result, Unavailable)]
        if not unavailable:
            return [result for result in results if not isinstance(result, Unavailable)]
        if attempt == ATTEMPTS:
            raise SandboxUnavailableError(f"{len(unavailable)} checks could not be run: {unavailable[0].cause}")
        await asyncio.sleep(max(attempt, *(result.after_s for result in unavailable)))
        attempt += 1

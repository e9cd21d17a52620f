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
    """Return a check per subject, in order; what we could not run is tried again, and raised as our fault when three
    tries in a row have run none of it."""
    checks: list[Check] = []
    for start in range(0, len(subjects), BATCH):
        checks += await _run(engine, revision, subjects[start : start + BATCH])
    return checks


async def _run(engine: Engine, revision: Revision, subjects: Sequence[Subject]) -> list[Check]:
    checks: dict[int, Check] = {}
    waiting, in_vain = list(range(len(subjects))), 0
    while waiting:
        results = await engine.evaluate(revision, [subjects[index] for index in waiting])
        left: dict[int, Unavailable] = {}
        for index, result in zip(waiting, results, strict=True):
            if isinstance(result, Unavailable):
                left[index] = result
            else:
                checks[index] = result
        # A runner gives up after some crashes in a row: what is left is worth another try as long as some went.
        in_vain = in_vain + 1 if len(left) == len(waiting) else 0
        if in_vain == ATTEMPTS:
            raise SandboxUnavailableError(f"{len(left)} checks could not be run: {next(iter(left.values())).cause}")
        waiting = list(left)
        if waiting:
            await asyncio.sleep(max(in_vain, *(result.after_s for result in left.values())))
    return [checks[index] for index in range(len(subjects))]

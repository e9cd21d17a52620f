"""The budgets of one evaluation: what its revision asks for, and the operator's ceilings above that."""

from dataclasses import replace

from assay.domain.evaluator import Revision
from assay.domain.outcome import Limits

MEBIBYTE = 1024 * 1024
LEAST_S = 0.1
"""Below this, in seconds, the start of a process alone could use up a budget of time."""
LEAST_MEMORY_BYTES = 64 * MEBIBYTE
"""Below this the interpreter itself would not fit."""


def within(ceilings: Limits, revision: Revision) -> Limits:
    """Return what an evaluation of this revision may use: its own budgets where it has any, never above the ceilings.

    The lower one holds, so a ceiling that was lowered after the revision was saved counts at once.
    """
    wall_s, cpu_s, memory_bytes = revision.wall_s, revision.cpu_s, revision.memory_bytes
    if wall_s is cpu_s is memory_bytes is None:
        return ceilings
    return replace(
        ceilings,
        wall_s=_lower(wall_s, ceilings.wall_s),
        cpu_s=_lower(cpu_s, ceilings.cpu_s),
        memory_bytes=int(_lower(memory_bytes, ceilings.memory_bytes)),
    )


def _lower(asked: float | None, ceiling: float) -> float:
    return ceiling if asked is None else min(asked, ceiling)

"""Sampling: whether an evaluator runs on a trace, the same on every server and at every replay."""

import hashlib
from dataclasses import dataclass
from typing import Literal, TypeAlias

from assay.domain.evaluator import Evaluator

SkipReason = Literal["disabled", "agent-not-selected", "not-sampled"]
DRAWS = 2**64


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The evaluator runs on this trace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """The evaluator does not run on this trace, and why."""

    why: SkipReason


Decision: TypeAlias = Run | Skip


def decide(evaluator: Evaluator, agent_id: str | None, trace_id: str) -> Decision:
    """Decide by switch, scope and sample rate (0 never, 1 always).

    The draw is a hash of evaluator and trace, so a whole trace is in or out, and evaluators draw independently.
    """
    if not evaluator.enabled:
        return Skip(why="disabled")
    if evaluator.scope_mode == "selected" and agent_id not in evaluator.agent_ids:
        return Skip(why="agent-not-selected")
    if _draw(evaluator.id, trace_id) >= int(evaluator.sample_rate * DRAWS):
        return Skip(why="not-sampled")
    return Run()


def _draw(evaluator_id: str, trace_id: str) -> int:
    """Return a number below 2**64, uniform over traces."""
    text = f"{len(evaluator_id)}:{evaluator_id}{trace_id}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big")

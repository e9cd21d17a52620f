"""Signals: what failing checks raise, one per (evaluator, agent), folding its occurrences."""

from dataclasses import dataclass
from typing import Literal

from assay.domain.check import Metrics
from assay.domain.evaluator import Severity

SignalStatus = Literal["open", "acknowledged", "resolved", "archived"]
EVIDENCE_KEPT = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """One failing check, as a signal remembers it."""

    check_id: str
    trace_id: str
    metrics: Metrics
    reason: str | None
    occurred_at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """A failure that somebody should see: its count, first and last time, and its last ten occurrences."""

    id: str
    project_id: str
    evaluator_id: str
    agent_id: str | None
    severity: Severity
    status: SignalStatus = "open"
    resolution: str | None = None
    count: int
    first_seen_ns: int
    last_seen_ns: int
    updated_at_ns: int
    evidence: tuple[Occurrence, ...]

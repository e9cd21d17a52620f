"""A check: one revision applied to one subject, and what is recorded of it."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from assay.domain.json_value import JsonObject, JsonValue

CheckStatus = Literal["scored", "skipped", "errored"]
Metrics: TypeAlias = dict[str, JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckError:
    """Why a check errored; `message` is for the author, `line` is in their source."""

    kind: str
    message: str
    line: int | None = None
    traceback: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Pass or fail, and why: the only input of signals, whatever the interface. None means neither."""

    failed: bool
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What an interface read from an outcome: the part of a Check that the author's code decides.

    `notes` are for the check's logs: what was put aside though the rest counts.
    """

    status: CheckStatus
    metrics: Metrics = field(default_factory=dict[str, JsonValue])
    name: str | None = None
    reason: str | None = None
    metadata: JsonObject | None = None
    error: CheckError | None = None
    verdict: Verdict | None = None
    notes: tuple[str, ...] = ()


CheckOrigin = Literal["live", "backfill"]
"""What made a check: live traffic, or a backfill over stored traces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One revision applied to one trace or test case.

    `id` derives from (revision, trace, trace revision), so re-delivery makes the same check.
    `trace_id` and `agent_id` are None for a dry run over the caller's own sample.
    """

    id: str
    project_id: str
    evaluator_id: str
    revision_id: str
    trace_id: str | None
    trace_revision: int
    agent_id: str | None
    reading: Reading
    logs: str
    duration_s: float
    runner: str
    recorded_at_ns: int
    origin: CheckOrigin = "live"

    @property
    def failed(self) -> bool:
        """Tell whether this check raises a signal."""
        return self.reading.verdict is not None and self.reading.verdict.failed

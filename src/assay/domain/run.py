"""Runs: some revisions over the rows of a test set, or over stored traces, with what came of each row."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from assay.domain.check import CheckError
from assay.domain.json_value import JsonObject, JsonValue

RunState: TypeAlias = Literal["running", "paused", "cancelled", "finished", "failed"]
ENDED: tuple[RunState, ...] = ("cancelled", "finished", "failed")
MOST_REVISIONS = 20
OUTPUTS_COLUMN = "outputs"
RUN_ATTRIBUTE = "assay.run.id"
ROW_ATTRIBUTE = "assay.run.row"


@dataclass(frozen=True, slots=True, kw_only=True)
class TestsetRows:
    """The rows of a revision of a test set."""

    __test__ = False

    testset_id: str
    revision_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTraces:
    """The traces that arrived in [`since_ns`, `until_ns`), of one agent or of all, oldest first."""

    since_ns: int
    until_ns: int
    agent_id: str | None = None


RowSource: TypeAlias = TestsetRows | StoredTraces


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnOutputs:
    """The application's answer is a column of the test set."""

    column: str = OUTPUTS_COLUMN


@dataclass(frozen=True, slots=True, kw_only=True)
class SuppliedOutputs:
    """The application's answers are brought by whoever runs it, as the SDK does; `trace_wait_s` as of targets."""

    trace_wait_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetOutputs:
    """The application is called over HTTP, once per row.

    `request` is the JSON body, in which text "{{column}}" stands for a cell; `answer_path` and `trace_path` are
    JSONPaths into the answer. `trace_wait_s` is how long to wait for the row's trace, once answered.
    """

    url: str
    method: Literal["POST", "PUT"] = "POST"
    headers: tuple[tuple[str, str], ...] = ()
    sealed_headers: bytes | None = None
    request: JsonValue = None
    answer_path: str = "$"
    trace_path: str | None = None
    concurrency: int = 8
    timeout_s: float = 60.0
    attempts: int = 3
    trace_wait_s: float = 0.0


Outputs: TypeAlias = ColumnOutputs | SuppliedOutputs | TargetOutputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How many results there are of each kind; `passed` and `failed` are the scored ones with a verdict."""

    scored: int = 0
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    errored: int = 0

    @property
    def results(self) -> int:
        """Return how many results there are in all."""
        return self.scored + self.skipped + self.errored


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionTotals:
    """What a run's results of one revision come to so far; `summaries` is the document of `domain.statistics`."""

    tally: Tally = Tally()
    duration_s: float = 0.0
    summaries: JsonObject = field(default_factory=dict[str, JsonValue])


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """How far a run has come: `next_row` is the first row without results, `cursor` the last trace that has some.

    `repairing_from` is, while errored rows are run again, the first row not looked at for that. `version` grows with
    every change, so that of two who work at a run only one goes on.
    """

    next_row: int = 0
    cursor: tuple[int, int] | None = None
    repairing_from: int | None = None
    totals: dict[str, RevisionTotals] = field(default_factory=dict[str, RevisionTotals])
    first_row_at_ns: int | None = None
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One batch evaluation. `row_count` is how many rows it has; what it ran over never changes.

    With `is_backfill` its checks go into the evaluators' history as well. `raises_signals` lets failures raise signals.
    `rows_per_s` bounds how fast it goes, None for as fast as there is room beside live traffic.
    """

    id: str
    project_id: str
    name: str
    revision_ids: tuple[str, ...]
    source: RowSource
    outputs: Outputs = ColumnOutputs()
    expected_column: str | None = None
    is_backfill: bool = False
    raises_signals: bool = False
    rows_per_s: float | None = None
    row_count: int
    state: RunState = "running"
    cause: str | None = None
    created_at_ns: int
    ended_at_ns: int | None = None
    progress: RunProgress = RunProgress()


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOutput:
    """What the application answered for a row, or why there is no answer; `trace_id` is of its trace, if it has one."""

    row: int
    output: JsonValue = None
    error: CheckError | None = None
    trace_id: str | None = None
    latency_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowResult:
    """What one revision came to over one row: a check without what is the same for all rows of the run."""

    revision_id: str
    status: Literal["scored", "skipped", "errored"]
    failed: bool | None = None
    metrics: JsonObject = field(default_factory=dict[str, JsonValue])
    reason: str | None = None
    error: CheckError | None = None
    logs: str = ""
    duration_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRecord:
    """One row's results, one per revision. `case` names what was judged, whatever was answered; rows count from 0.

    `output` is kept where it is not in the test set. `trace_id` is the trace that the evaluators were given.
    """

    row: int
    case: str
    results: tuple[RowResult, ...]
    output: JsonValue = None
    trace_id: str | None = None
    latency_s: float | None = None

    @property
    def is_errored(self) -> bool:
        """Tell whether any result is errored, so that the row can be run again."""
        return any(result.status == "errored" for result in self.results)

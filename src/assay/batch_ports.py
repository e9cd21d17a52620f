"""The seams of batch: what its flow and front doors ask of the store, and of the applications they test."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from assay.domain.json_value import JsonObject
from assay.domain.run import RowOutput, RowRecord, Run, StoredTraces, TargetOutputs
from assay.domain.testset import Case, Testset, TestsetRevision

MOST_LISTED_REVISIONS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RowBlock:
    """Rows of a test set that follow one another, as they are stored: `document` is theirs, `digest` its SHA-256."""

    first_row: int
    row_count: int
    digest: str
    document: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockPlace:
    """Where a block of rows stands in a revision."""

    first_row: int
    row_count: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultBlock:
    """Results of rows that follow one another, written together."""

    first_row: int
    records: tuple[RowRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Which runs of a listing."""

    project_id: str
    testset_id: str | None = None
    is_backfill: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceAt:
    """A stored trace in the order of arrival; `cursor` says where a reader goes on after it."""

    trace_id: str
    cursor: tuple[int, int]


class BatchSnapshot(Protocol):
    """Questions about test sets and runs."""

    async def testset(self, project_id: str, testset_id: str) -> Testset | None:
        """Return the test set with this id, or else with this name."""
        ...

    async def list_testsets(self, project_id: str, limit: int, cursor: str | None) -> tuple[list[Testset], str | None]:
        """Return a page of test sets, newest first, and the cursor of the next."""
        ...

    async def testset_revision(self, project_id: str, revision_id: str) -> TestsetRevision | None:
        """Return a revision of any test set of the project."""
        ...

    async def testset_revisions(self, testset_id: str) -> list[TestsetRevision]:
        """Return a test set's revisions, the newest first, at most `MOST_LISTED_REVISIONS`."""
        ...

    async def testset_revision_of(self, testset_id: str, *, digest: str) -> TestsetRevision | None:
        """Return the revision with this content."""
        ...

    async def testset_rows(self, revision_id: str, first_row: int, limit: int) -> list[Case]:
        """Return up to `limit` rows from `first_row` on."""
        ...

    async def run(self, project_id: str, run_id: str) -> Run | None:
        """Return the run with this id."""
        ...

    async def list_runs(self, which: RunFilter, limit: int, cursor: str | None) -> tuple[list[Run], str | None]:
        """Return a page of runs, newest first, and the cursor of the next."""
        ...

    async def result_blocks(
        self, run_id: str, first_row: int, limit: int, *, errored_only: bool = False
    ) -> list[ResultBlock]:
        """Return up to `limit` blocks of results, from the one that holds `first_row` on."""
        ...

    async def row_outputs(self, run_id: str, first_row: int, limit: int) -> dict[int, RowOutput]:
        """Return the outputs brought for rows in [`first_row`, `first_row + limit`), by row."""
        ...

    async def count_row_outputs(self, run_id: str) -> int:
        """Return how many rows have an output that was brought."""
        ...

    async def linked_traces(self, project_id: str, run_id: str, rows: Sequence[int]) -> dict[int, str]:
        """Return the traces that say that they belong to these rows, by row."""
        ...

    async def traces_after(
        self, project_id: str, which: StoredTraces, cursor: tuple[int, int] | None, limit: int
    ) -> list[TraceAt]:
        """Return up to `limit` traces in the order of arrival, after the cursor."""
        ...

    async def count_traces(self, project_id: str, which: StoredTraces) -> int:
        """Return how many traces there are of these."""
        ...


class BatchTransaction(BatchSnapshot, Protocol):
    """Changes to test sets and runs."""

    async def put_contents(self, project_id: str, blocks: Sequence[RowBlock], now_ns: int) -> None:
        """Write contents of blocks that are not there yet; those that no revision names a day later may be gone."""
        ...

    async def add_testset(self, testset: Testset, places: Sequence[BlockPlace]) -> bool:
        """Write a new test set with its first revision; return False, and write nothing, when its name is taken."""
        ...

    async def add_testset_revision(self, testset: Testset, places: Sequence[BlockPlace]) -> bool:
        """Make this revision, which is new, the test set's content; return False when somebody else changed it."""
        ...

    async def set_testset_revision(self, testset: Testset) -> None:
        """Make a revision there is already the test set's content, and set its name."""
        ...

    async def delete_testset(self, project_id: str, testset_id: str, now_ns: int) -> bool:
        """Delete a test set that no run uses, with its rows; return whether it was there."""
        ...

    async def runs_use(self, testset_id: str) -> bool:
        """Tell whether any run is over a revision of this test set."""
        ...

    async def add_run(self, run: Run) -> None:
        """Write a new run."""
        ...

    async def advance_run(self, run: Run) -> bool:
        """Write state and progress if `progress.version` follows on what is stored; return whether it did."""
        ...

    async def put_results(self, run_id: str, blocks: Sequence[ResultBlock]) -> None:
        """Write blocks of results, in place of those that begin at the same rows."""
        ...

    async def add_row_outputs(self, run_id: str, outputs: Sequence[RowOutput], now_ns: int) -> int:
        """Write outputs of rows that have none yet, or one that is an error; return how many were written."""
        ...

    async def link_traces(self, project_id: str, links: Mapping[tuple[str, int], str]) -> None:
        """Note which trace says that it belongs to which row of a run, by (run, row); the last one counts."""
        ...

    async def delete_run(self, project_id: str, run_id: str) -> bool:
        """Delete a run with its results; return whether it was there."""
        ...


class Application(Protocol):
    """The application under test, called over HTTP."""

    async def ask(self, run: Run, target: TargetOutputs, row: int, values: JsonObject) -> RowOutput:
        """Call it for a row, in bounded time, with the target's retries. Never raises for what the other side does."""
        ...

    async def close(self) -> None:
        """Let go of everything."""
        ...

"""The store's questions and changes about test sets and runs, over one connection."""

from collections.abc import Callable, Mapping, Sequence
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection

from assay.batch_ports import BlockPlace, ResultBlock, RowBlock, RunFilter, TraceAt
from assay.domain.run import RowOutput, Run, StoredTraces
from assay.domain.testset import Case, Testset, TestsetRevision
from assay.store import runs, testsets
from assay.store.sessions import Session

Answer = TypeVar("Answer")
P = ParamSpec("P")


class SqlBatchSnapshot:
    """Questions, all answered from the view of one open connection."""

    _session: Session

    async def _ask(
        self, question: Callable[Concatenate[Connection, P], Answer], *args: P.args, **kwargs: P.kwargs
    ) -> Answer:
        return await self._session.ask(question, *args, **kwargs)

    async def testset(self, project_id: str, testset_id: str) -> Testset | None:
        """Return the test set with this id, or else with this name."""
        return await self._ask(testsets.find_testset, project_id, testset_id)

    async def list_testsets(self, project_id: str, limit: int, cursor: str | None) -> tuple[list[Testset], str | None]:
        """Return a page of test sets, newest first, and the cursor of the next."""
        return await self._ask(testsets.list_testsets, project_id, limit, cursor)

    async def testset_revision(self, project_id: str, revision_id: str) -> TestsetRevision | None:
        """Return a revision of any test set of the project."""
        return await self._ask(testsets.find_revision, project_id, revision_id)

    async def testset_revisions(self, testset_id: str) -> list[TestsetRevision]:
        """Return a test set's revisions, the newest first."""
        return await self._ask(testsets.list_revisions, testset_id)

    async def testset_revision_of(self, testset_id: str, *, digest: str) -> TestsetRevision | None:
        """Return the revision with this content."""
        return await self._ask(testsets.revision_of_digest, testset_id, digest)

    async def testset_rows(self, revision_id: str, first_row: int, limit: int) -> list[Case]:
        """Return up to `limit` rows from `first_row` on."""
        blocks = await self._ask(testsets.find_blocks, revision_id, first_row, limit)
        return await self._session.compute(lambda: testsets.read_rows(blocks, first_row, limit), limit)

    async def run(self, project_id: str, run_id: str) -> Run | None:
        """Return the run with this id."""
        return await self._ask(runs.find_run, project_id, run_id)

    async def list_runs(self, which: RunFilter, limit: int, cursor: str | None) -> tuple[list[Run], str | None]:
        """Return a page of runs, newest first, and the cursor of the next."""
        return await self._ask(runs.list_runs, which, limit, cursor)

    async def result_blocks(
        self, run_id: str, first_row: int, limit: int, *, errored_only: bool = False
    ) -> list[ResultBlock]:
        """Return up to `limit` blocks of results, from the one that holds `first_row` on."""
        rows = await self._ask(runs.find_results, run_id, first_row, limit, errored_only)
        return await self._session.compute(lambda: runs.read_results(rows), 1000 * len(rows))

    async def row_outputs(self, run_id: str, first_row: int, limit: int) -> dict[int, RowOutput]:
        """Return the outputs brought for these rows, by row."""
        return await self._ask(runs.find_outputs, run_id, first_row, limit)

    async def count_row_outputs(self, run_id: str) -> int:
        """Return how many rows have an output that was brought."""
        return await self._ask(runs.count_outputs, run_id)

    async def linked_traces(self, project_id: str, run_id: str, rows: Sequence[int]) -> dict[int, str]:
        """Return the traces that say that they belong to these rows, by row."""
        return await self._ask(runs.find_links, project_id, run_id, rows)

    async def traces_after(
        self, project_id: str, which: StoredTraces, cursor: tuple[int, int] | None, limit: int
    ) -> list[TraceAt]:
        """Return up to `limit` traces in the order of arrival, after the cursor."""
        return await self._ask(runs.traces_after, project_id, which, cursor, limit)

    async def count_traces(self, project_id: str, which: StoredTraces) -> int:
        """Return how many traces there are of these."""
        return await self._ask(runs.count_traces, project_id, which)


class SqlBatchTransaction(SqlBatchSnapshot):
    """Changes on one connection; the store that opened it makes them durable."""

    async def put_contents(self, project_id: str, blocks: Sequence[RowBlock], now_ns: int) -> None:
        """Write contents of blocks that are not there yet."""
        if blocks:
            await self._ask(testsets.put_contents, project_id, blocks, now_ns)

    async def add_testset(self, testset: Testset, places: Sequence[BlockPlace]) -> bool:
        """Write a new test set with its first revision; return False when its name is taken."""
        return await self._ask(testsets.add_testset, testset, places)

    async def add_testset_revision(self, testset: Testset, places: Sequence[BlockPlace]) -> bool:
        """Make this new revision the test set's content; return False when somebody else changed it."""
        return await self._ask(testsets.add_revision, testset, places)

    async def set_testset_revision(self, testset: Testset) -> None:
        """Make a revision there is already the test set's content, and set its name."""
        await self._ask(testsets.set_revision, testset)

    async def delete_testset(self, project_id: str, testset_id: str, now_ns: int) -> bool:
        """Delete a test set with its rows; return whether it was there."""
        return await self._ask(testsets.delete_testset, project_id, testset_id, now_ns)

    async def runs_use(self, testset_id: str) -> bool:
        """Tell whether any run is over a revision of this test set."""
        return await self._ask(testsets.runs_use, testset_id)

    async def add_run(self, run: Run) -> None:
        """Write a new run."""
        await self._ask(runs.add_run, run)

    async def advance_run(self, run: Run) -> bool:
        """Write state and progress if the version follows on what is stored; return whether it did."""
        return await self._ask(runs.advance_run, run)

    async def put_results(self, run_id: str, blocks: Sequence[ResultBlock]) -> None:
        """Write blocks of results, in place of those that begin at the same rows."""
        if blocks:
            await self._ask(runs.put_results, run_id, blocks)

    async def add_row_outputs(self, run_id: str, outputs: Sequence[RowOutput], now_ns: int) -> int:
        """Write outputs of rows that have none yet, or an error; return how many were written."""
        return await self._ask(runs.add_outputs, run_id, outputs, now_ns) if outputs else 0

    async def link_traces(self, project_id: str, links: Mapping[tuple[str, int], str]) -> None:
        """Note which trace belongs to which row of a run, by (run, row)."""
        if links:
            await self._ask(runs.link_traces, project_id, links)

    async def delete_run(self, project_id: str, run_id: str) -> bool:
        """Delete a run with its results; return whether it was there."""
        return await self._ask(runs.delete_run, project_id, run_id)

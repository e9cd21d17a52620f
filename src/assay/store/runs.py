"""Runs, their results in blocks, and the outputs brought for their rows."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, Select, delete, func, insert, select, tuple_, update

from assay.batch_ports import ResultBlock, RunFilter, TraceAt
from assay.domain.run import RowOutput, Run, StoredTraces, TestsetRows
from assay.ports import Page
from assay.store.documents import encode
from assay.store.paging import cut, page_of
from assay.store.run_documents import (
    decode_records,
    decode_row_output,
    decode_run,
    encode_progress,
    encode_records,
    encode_run,
)
from assay.store.statements import in_chunks, insert_into
from assay.store.tables import run_blocks, run_links, run_outputs, runs, traces


def find_run(connection: Connection, project_id: str, run_id: str) -> Run | None:
    """Return the run with this id."""
    query = select(runs).where(runs.c.project_id == project_id, runs.c.id == run_id)
    row = connection.execute(query).one_or_none()
    return None if row is None else decode_run(row)


def list_runs(connection: Connection, which: RunFilter, limit: int, cursor: str | None) -> tuple[list[Run], str | None]:
    """Return a page of runs, newest first."""
    page = Page(limit=limit, cursor=cursor)
    query = select(runs).where(runs.c.project_id == which.project_id)
    if which.testset_id is not None:
        query = query.where(runs.c.testset_id == which.testset_id)
    if which.is_backfill is not None:
        query = query.where(runs.c.is_backfill == which.is_backfill)
    rows = connection.execute(page_of(query, runs.c.created_at_ns, runs.c.id, page, str)).all()
    return cut(rows, page, "created_at_ns", "id", decode_run)


def add_run(connection: Connection, run: Run) -> None:
    """Write a new run."""
    source = run.source if isinstance(run.source, TestsetRows) else None
    connection.execute(
        insert(runs).values(
            id=run.id,
            project_id=run.project_id,
            testset_id=None if source is None else source.testset_id,
            testset_revision_id=None if source is None else source.revision_id,
            is_backfill=run.is_backfill,
            created_at_ns=run.created_at_ns,
            document=encode_run(run),
            **_changing(run),
        )
    )


def advance_run(connection: Connection, run: Run) -> bool:
    """Write state and progress if the version follows on what is stored; return whether it did."""
    changed = connection.execute(
        update(runs).where(runs.c.id == run.id, runs.c.version == run.progress.version - 1).values(**_changing(run))
    )
    return changed.rowcount == 1


def _changing(run: Run) -> dict[str, Any]:
    return {
        "state": run.state,
        "cause": run.cause,
        "ended_at_ns": run.ended_at_ns,
        "progress": encode_progress(run.progress),
        "version": run.progress.version,
    }


def delete_run(connection: Connection, project_id: str, run_id: str) -> bool:
    """Delete a run with its results; return whether it was there."""
    query = select(runs.c.id).where(runs.c.project_id == project_id, runs.c.id == run_id).with_for_update()
    if connection.execute(query).scalar() is None:
        return False
    for table in (run_blocks, run_outputs, run_links):
        connection.execute(delete(table).where(table.c.run_id == run_id))
    connection.execute(delete(runs).where(runs.c.id == run_id))
    return True


def put_results(connection: Connection, run_id: str, blocks: Sequence[ResultBlock]) -> None:
    """Write blocks of results, in place of those that begin at the same rows."""
    statement = insert_into(connection, run_blocks)
    statement = statement.on_conflict_do_update(
        index_elements=["run_id", "first_row"],
        set_={name: statement.excluded[name] for name in ("row_count", "errored", "document")},
    )
    connection.execute(
        statement,
        [
            {
                "run_id": run_id,
                "first_row": block.first_row,
                "row_count": len(block.records),
                "errored": sum(record.is_errored for record in block.records),
                "document": encode_records(block.records),
            }
            for block in blocks
        ],
    )


def find_results(
    connection: Connection, run_id: str, first_row: int, limit: int, errored_only: bool
) -> list[Row[Any, Any]]:
    """Return blocks of results from the one that holds this row on, for `read_results`."""
    holder = (
        select(func.max(run_blocks.c.first_row))
        .where(run_blocks.c.run_id == run_id, run_blocks.c.first_row <= first_row)
        .scalar_subquery()
    )
    query = select(run_blocks.c.first_row, run_blocks.c.document).where(
        run_blocks.c.run_id == run_id,
        run_blocks.c.first_row >= func.coalesce(holder, first_row),
        run_blocks.c.first_row + run_blocks.c.row_count > first_row,
    )
    if errored_only:
        query = query.where(run_blocks.c.errored > 0)
    return list(connection.execute(query.order_by(run_blocks.c.first_row).limit(limit)).all())


def read_results(rows: Sequence[Row[Any, Any]]) -> list[ResultBlock]:
    """Return the blocks of these rows."""
    return [ResultBlock(first_row=row.first_row, records=decode_records(row.document)) for row in rows]


def find_outputs(connection: Connection, run_id: str, first_row: int, limit: int) -> dict[int, RowOutput]:
    """Return the outputs brought for these rows, by row."""
    query = select(run_outputs.c.row, run_outputs.c.document).where(
        run_outputs.c.run_id == run_id, run_outputs.c.row >= first_row, run_outputs.c.row < first_row + limit
    )
    return {row.row: decode_row_output(row.document) for row in connection.execute(query).all()}


def count_outputs(connection: Connection, run_id: str) -> int:
    """Return how many rows have an output that was brought."""
    query = select(func.count()).select_from(run_outputs).where(run_outputs.c.run_id == run_id)
    return connection.execute(query).scalar_one()


def add_outputs(connection: Connection, run_id: str, outputs: Sequence[RowOutput], now_ns: int) -> int:
    """Write outputs; of a row that has one already, the first that is no error stays."""
    present = {
        row.row: decode_row_output(row.document)
        for chunk in in_chunks([output.row for output in outputs])
        for row in connection.execute(
            select(run_outputs.c.row, run_outputs.c.document).where(
                run_outputs.c.run_id == run_id, run_outputs.c.row.in_(chunk)
            )
        ).all()
    }
    fresh = {
        output.row: output
        for output in outputs
        if (before := present.get(output.row)) is None or before.error is not None
    }
    if not fresh:
        return 0
    statement = insert_into(connection, run_outputs)
    statement = statement.on_conflict_do_update(
        index_elements=["run_id", "row"],
        set_={"document": statement.excluded.document, "at_ns": statement.excluded.at_ns},
    )
    connection.execute(
        statement,
        [
            {"run_id": run_id, "row": row, "document": encode(output), "at_ns": now_ns}
            for row, output in sorted(fresh.items())
        ],
    )
    return len(fresh)


def find_links(connection: Connection, project_id: str, run_id: str, rows: Sequence[int]) -> dict[int, str]:
    """Return the traces that say that they belong to these rows, by row."""
    found: dict[int, str] = {}
    for chunk in in_chunks(rows):
        query = select(run_links.c.row, run_links.c.trace_id).where(
            run_links.c.project_id == project_id, run_links.c.run_id == run_id, run_links.c.row.in_(chunk)
        )
        found.update((row.row, row.trace_id) for row in connection.execute(query).all())
    return found


def link_traces(connection: Connection, project_id: str, links: Mapping[tuple[str, int], str]) -> None:
    """Note which trace belongs to which row of a run of this project; what names no such run is left out."""
    wanted = sorted({run_id for run_id, _ in links})
    known: set[str] = set()
    for chunk in in_chunks(wanted):
        query = select(runs.c.id).where(runs.c.project_id == project_id, runs.c.id.in_(chunk))
        known.update(connection.execute(query).scalars())
    values = [
        {"project_id": project_id, "run_id": run_id, "row": row, "trace_id": trace_id}
        for (run_id, row), trace_id in sorted(links.items())
        if run_id in known
    ]
    if values:
        statement = insert_into(connection, run_links)
        connection.execute(
            statement.on_conflict_do_update(
                index_elements=["project_id", "run_id", "row"], set_={"trace_id": statement.excluded.trace_id}
            ),
            values,
        )


def traces_after(
    connection: Connection, project_id: str, which: StoredTraces, cursor: tuple[int, int] | None, limit: int
) -> list[TraceAt]:
    """Return traces in the order of arrival, after the cursor."""
    query = _of(select(traces.c.trace_id, traces.c.created_at_ns, traces.c.key), project_id, which)
    if cursor is not None:
        query = query.where(tuple_(traces.c.created_at_ns, traces.c.key) > tuple_(*cursor))
    query = query.order_by(traces.c.created_at_ns, traces.c.key).limit(limit)
    return [
        TraceAt(trace_id=row.trace_id, cursor=(row.created_at_ns, row.key)) for row in connection.execute(query).all()
    ]


def count_traces(connection: Connection, project_id: str, which: StoredTraces) -> int:
    """Return how many traces there are of these."""
    return connection.execute(_of(select(func.count()).select_from(traces), project_id, which)).scalar_one()


def _of(query: Select[*tuple[Any, ...]], project_id: str, which: StoredTraces) -> Select[*tuple[Any, ...]]:
    query = query.where(
        traces.c.project_id == project_id,
        traces.c.created_at_ns >= which.since_ns,
        traces.c.created_at_ns < which.until_ns,
    )
    return query if which.agent_id is None else query.where(traces.c.agent_id == which.agent_id)

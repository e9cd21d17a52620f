"""Checks: written once, listed newest first."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, Select, func, select

from assay.domain.check import Check
from assay.ports import CheckFilter, Page
from assay.store.documents import decode_check, encode
from assay.store.paging import cut, page_of
from assay.store.statements import in_chunks, insert_into
from assay.store.tables import checks


def _read(row: Row[Any]) -> Check:
    return decode_check(row.document)


def add_checks(connection: Connection, new: Sequence[Check]) -> set[str]:
    """Write the checks not there yet, and return their ids.

    They go in the order of their ids, so that two writers never wait for each other in a ring.
    """
    if not new:
        return set()
    statement = insert_into(connection, checks).on_conflict_do_nothing().returning(checks.c.id)
    rows = [
        {
            "id": check.id,
            "project_id": check.project_id,
            "evaluator_id": check.evaluator_id,
            "revision_id": check.revision_id,
            "trace_id": check.trace_id,
            "trace_revision": check.trace_revision,
            "agent_id": check.agent_id,
            "status": check.reading.status,
            "origin": check.origin,
            "recorded_at_ns": check.recorded_at_ns,
            "document": encode(check),
        }
        for check in sorted(new, key=lambda check: check.id)
    ]
    return set(connection.execute(statement, rows).scalars())


def existing_checks(connection: Connection, ids: Sequence[str]) -> set[str]:
    """Return those of the ids that are recorded."""
    found: set[str] = set()
    for chunk in in_chunks(ids):
        found.update(connection.execute(select(checks.c.id).where(checks.c.id.in_(chunk))).scalars())
    return found


def list_checks(connection: Connection, which: CheckFilter, page: Page) -> tuple[list[Check], str | None]:
    """Return a page of checks, newest first."""
    query = _filtered(select(checks.c.id, checks.c.recorded_at_ns, checks.c.document), which)
    rows = connection.execute(page_of(query, checks.c.recorded_at_ns, checks.c.id, page, str)).all()
    return cut(rows, page, "recorded_at_ns", "id", _read)


def count_checks(connection: Connection, which: CheckFilter) -> int:
    """Return how many checks the filter lets through."""
    return connection.execute(_filtered(select(func.count()).select_from(checks), which)).scalar_one()


def _filtered(query: Select[*tuple[Any, ...]], which: CheckFilter) -> Select[*tuple[Any, ...]]:
    query = query.where(checks.c.project_id == which.project_id)
    if which.evaluator_id is not None:
        query = query.where(checks.c.evaluator_id == which.evaluator_id)
    if which.trace_id is not None:
        query = query.where(checks.c.trace_id == which.trace_id)
    if which.agent_id is not None:
        query = query.where(checks.c.agent_id == which.agent_id)
    if which.statuses:
        query = query.where(checks.c.status.in_(which.statuses))
    if which.since_ns is not None:
        query = query.where(checks.c.recorded_at_ns >= which.since_ns)
    return query

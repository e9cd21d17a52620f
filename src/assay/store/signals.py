"""Signals, one per evaluator and agent."""

from typing import Any

from sqlalchemy import Connection, Row, func, select

from assay.domain.signal import Signal
from assay.domain.text import without_nul
from assay.ports import Page, SignalFilter
from assay.store.documents import decode_signal, encode
from assay.store.paging import cut, page_of
from assay.store.statements import insert_into
from assay.store.tables import signals


def _read(row: Row[Any]) -> Signal:
    return decode_signal(row.document)


def find_signal(connection: Connection, project_id: str, signal_id: str) -> Signal | None:
    """Return the signal with this id."""
    query = select(signals.c.document).where(signals.c.project_id == project_id, signals.c.id == signal_id)
    row = connection.execute(query).one_or_none()
    return None if row is None else _read(row)


def list_signals(connection: Connection, which: SignalFilter, page: Page) -> tuple[list[Signal], str | None]:
    """Return a page of signals, the one seen last first."""
    query = select(signals.c.id, signals.c.last_seen_ns, signals.c.document).where(
        signals.c.project_id == which.project_id
    )
    if which.status is not None:
        query = query.where(signals.c.status == which.status)
    if which.evaluator_id is not None:
        query = query.where(signals.c.evaluator_id == which.evaluator_id)
    if which.agent_id is not None:
        query = query.where(signals.c.agent_id == which.agent_id)
    rows = connection.execute(page_of(query, signals.c.last_seen_ns, signals.c.id, page, str)).all()
    return cut(rows, page, "last_seen_ns", "id", _read)


def signal_for_update(
    connection: Connection, project_id: str, evaluator_id: str, agent_id: str | None
) -> Signal | None:
    """Return the signal, to be changed by this transaction alone.

    A row that is not there cannot be locked, so PostgreSQL locks the key's hash; SQLite has one writer.
    """
    if connection.dialect.name == "postgresql":
        key = without_nul(f"signal:{evaluator_id}:{agent_id or ''}")
        connection.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(key, 0))))
    query = select(signals.c.document).where(
        signals.c.project_id == project_id,
        signals.c.evaluator_id == evaluator_id,
        signals.c.agent_id == (agent_id or ""),
    )
    row = connection.execute(query.with_for_update()).one_or_none()
    return None if row is None else _read(row)


def put_signal(connection: Connection, signal: Signal) -> None:
    """Write the signal, new or changed."""
    statement = insert_into(connection, signals)
    excluded = statement.excluded
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=[signals.c.id],
            set_={"status": excluded.status, "last_seen_ns": excluded.last_seen_ns, "document": excluded.document},
        ),
        [
            {
                "id": signal.id,
                "project_id": signal.project_id,
                "evaluator_id": signal.evaluator_id,
                "agent_id": signal.agent_id or "",
                "status": signal.status,
                "last_seen_ns": signal.last_seen_ns,
                "document": encode(signal),
            }
        ],
    )

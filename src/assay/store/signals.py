"""Signals, one per evaluator and agent."""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Row, Select, bindparam, func, select

from assay.domain.signal import Signal
from assay.domain.text import without_nul
from assay.ports import Page, SignalFilter, SignalOrder
from assay.store.documents import decode_signal, encode
from assay.store.paging import cut, page_of
from assay.store.statements import insert_into
from assay.store.tables import PlainText, signals

SEARCHED = 1000


def _read(row: Row[Any]) -> Signal:
    return decode_signal(row.document)


def find_signal(connection: Connection, project_id: str, signal_id: str) -> Signal | None:
    """Return the signal with this id."""
    query = select(signals.c.document).where(signals.c.project_id == project_id, signals.c.id == signal_id)
    row = connection.execute(query).one_or_none()
    return None if row is None else _read(row)


def list_signals(
    connection: Connection, which: SignalFilter, page: Page, order: SignalOrder = "seen"
) -> tuple[list[Signal], str | None]:
    """Return a page of signals, the one seen or raised last first."""
    query = _filtered(
        select(signals.c.id, signals.c.last_seen_ns, signals.c.raised_at_ns, signals.c.document), connection, which
    )
    time = signals.c.last_seen_ns if order == "seen" else signals.c.raised_at_ns
    rows = connection.execute(page_of(query, time, signals.c.id, page, str)).all()
    return cut(rows, page, time.name, "id", _read)


def _filtered(query: Select[*tuple[Any, ...]], connection: Connection, which: SignalFilter) -> Select[*tuple[Any, ...]]:
    query = query.where(signals.c.project_id == which.project_id)
    if which.status is not None:
        query = query.where(signals.c.status == which.status)
    if which.severity is not None:
        query = query.where(signals.c.severity == which.severity)
    if which.evaluator_id is not None:
        query = query.where(signals.c.evaluator_id == which.evaluator_id)
    if which.agent_id is not None:
        query = query.where(signals.c.agent_id == which.agent_id)
    if which.since_ns is not None:
        query = query.where(signals.c.last_seen_ns >= which.since_ns)
    if which.until_ns is not None:
        query = query.where(signals.c.last_seen_ns < which.until_ns)
    # Not LIKE and no search language: a word means itself, whatever it is made of.
    position = func.strpos if connection.dialect.name == "postgresql" else func.instr
    for word in which.words:
        query = query.where(position(signals.c.reasons, bindparam(None, word.casefold(), PlainText)) > 0)
    return query


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


def put_signals(connection: Connection, changed: Sequence[Signal]) -> None:
    """Write the signals, new or changed."""
    statement = insert_into(connection, signals)
    excluded = statement.excluded
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=[signals.c.id],
            set_={name: excluded[name] for name in ("status", "severity", "last_seen_ns", "reasons", "document")},
        ),
        [
            {
                "id": signal.id,
                "project_id": signal.project_id,
                "evaluator_id": signal.evaluator_id,
                "agent_id": signal.agent_id or "",
                "status": signal.status,
                "severity": signal.severity,
                "last_seen_ns": signal.last_seen_ns,
                "raised_at_ns": signal.updated_at_ns,
                "reasons": _searchable(occurrence.reason for occurrence in signal.evidence),
                "document": encode(signal),
            }
            for signal in changed
        ],
    )


def _searchable(reasons: Iterable[str | None]) -> str:
    """Return what is searched of the reasons: each once, its first thousand characters, in one case."""
    kept = dict.fromkeys(reason[:SEARCHED].casefold() for reason in reasons if reason)
    return "\n".join(kept)

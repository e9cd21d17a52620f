"""The log of signals: appended with numbers in the order of the commits, followed by them, and read by signal."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from assay.domain.signal_log import LogEntry, LogKind
from assay.ports import LogEnds, Page
from assay.store.documents import decode_log_entry, encode
from assay.store.paging import cut, page_of
from assay.store.statements import insert_into
from assay.store.tables import signal_log, signal_log_ends

FOLDS_KEPT = 10_000
"""Folds among a project's last so many entries are kept at least; of everything else all is."""
PRUNED_EVERY = 1_000


def append(connection: Connection, entries: Sequence[LogEntry]) -> None:
    """Write entries; each project's log stays locked until the transaction ends."""
    ordered = sorted(entries, key=lambda entry: entry.project_id)
    for project_id, group in groupby(ordered, key=lambda entry: entry.project_id):
        _append(connection, project_id, list(group))


def _append(connection: Connection, project_id: str, entries: Sequence[LogEntry]) -> None:
    statement = insert_into(connection, signal_log_ends)
    ends = connection.execute(
        statement.values(project_id=project_id, last=len(entries), pruned_to=0)
        .on_conflict_do_update(
            index_elements=[signal_log_ends.c.project_id],
            set_={"last": signal_log_ends.c.last + statement.excluded.last},
        )
        .returning(signal_log_ends.c.last, signal_log_ends.c.pruned_to)
    ).one()
    first = ends.last - len(entries) + 1
    connection.execute(
        insert(signal_log),
        [
            {
                "project_id": project_id,
                "number": number,
                "signal_id": entry.signal_id,
                "kind": entry.kind,
                "document": encode(entry),
            }
            for number, entry in enumerate(entries, first)
        ],
    )
    if ends.last - FOLDS_KEPT - ends.pruned_to >= PRUNED_EVERY:
        _prune(connection, project_id, ends.pruned_to, ends.last - FOLDS_KEPT)


def _prune(connection: Connection, project_id: str, after: int, up_to: int) -> None:
    connection.execute(
        delete(signal_log).where(
            signal_log.c.project_id == project_id,
            signal_log.c.number > after,
            signal_log.c.number <= up_to,
            signal_log.c.kind == "folded",
        )
    )
    connection.execute(
        update(signal_log_ends).where(signal_log_ends.c.project_id == project_id).values(pruned_to=up_to)
    )


def list_after(connection: Connection, project_id: str, after: int, limit: int) -> list[LogEntry]:
    """Return entries of the project that follow the one numbered `after`, oldest first."""
    query = (
        select(signal_log.c.number, signal_log.c.document)
        .where(signal_log.c.project_id == project_id, signal_log.c.number > after)
        .order_by(signal_log.c.number)
        .limit(limit)
    )
    return [decode_log_entry(row.number, row.document) for row in connection.execute(query).all()]


def list_history(
    connection: Connection, project_id: str, signal_id: str, kinds: Sequence[LogKind], page: Page
) -> tuple[list[LogEntry], str | None]:
    """Return a page of a signal's entries of these kinds, newest first."""
    number = signal_log.c.number
    query = select(number, signal_log.c.document).where(
        signal_log.c.project_id == project_id, signal_log.c.signal_id == signal_id, signal_log.c.kind.in_(kinds)
    )
    rows = connection.execute(page_of(query, number, number, page, int)).all()
    return cut(rows, page, "number", "number", _read)


def find_ends(connection: Connection, project_ids: Sequence[str]) -> dict[str, LogEnds]:
    """Return the ends of the projects' logs; a project without one is left out."""
    query = select(signal_log_ends).where(signal_log_ends.c.project_id.in_(project_ids))
    return {row.project_id: LogEnds(last=row.last, pruned_to=row.pruned_to) for row in connection.execute(query).all()}


def _read(row: Row[Any]) -> LogEntry:
    return decode_log_entry(row.number, row.document)

"""Traces and their spans."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from sqlalchemy import Connection, Row, bindparam, select, tuple_, update

from assay.domain.text import storable
from assay.domain.trace import MOST_SPANS, Span, agent_id_of
from assay.errors import TraceFullError
from assay.ports import Page, TraceRecord
from assay.store.agents import note_agents, sightings
from assay.store.documents import decode_span, encode
from assay.store.paging import cut, page_of
from assay.store.statements import in_chunks, insert_into
from assay.store.tables import spans, traces

_RECORD_FIELDS = tuple(field.name for field in fields(TraceRecord))
_RECORD_COLUMNS = [traces.c[name] for name in _RECORD_FIELDS]


def _read(row: Row[Any]) -> TraceRecord:
    return TraceRecord(**{name: getattr(row, name) for name in _RECORD_FIELDS})


def find_trace(connection: Connection, project_id: str, trace_id: str) -> TraceRecord | None:
    """Return what is known of a trace beside its spans."""
    return (find_traces(connection, [(project_id, trace_id)])).get((project_id, trace_id))


def find_traces(connection: Connection, wanted: Sequence[tuple[str, str]]) -> dict[tuple[str, str], TraceRecord]:
    """Return the records of those traces that exist, by (project, trace id)."""
    found: dict[tuple[str, str], TraceRecord] = {}
    for chunk in in_chunks(wanted):
        query = select(*_RECORD_COLUMNS).where(tuple_(traces.c.project_id, traces.c.trace_id).in_(chunk))
        found.update(((row.project_id, row.trace_id), _read(row)) for row in connection.execute(query).all())
    return found


def find_spans(connection: Connection, wanted: Sequence[tuple[str, str]]) -> list[Row[Any, Any, Any]]:
    """Return the spans of those traces that exist, as rows for `read_spans`."""
    found: list[Row[Any, Any, Any]] = []
    for chunk in in_chunks(wanted):
        query = (
            select(traces.c.project_id, traces.c.trace_id, spans.c.document)
            .join(spans, spans.c.trace_key == traces.c.key)
            .where(tuple_(traces.c.project_id, traces.c.trace_id).in_(chunk))
        )
        found.extend(connection.execute(query).all())
    return found


def read_spans(rows: Sequence[Row[Any, Any, Any]]) -> dict[tuple[str, str], list[Span]]:
    """Return the spans of rows by (project, trace id), each list by start time."""
    found: dict[tuple[str, str], list[Span]] = {}
    for row in rows:
        found.setdefault((row.project_id, row.trace_id), []).append(decode_span(row.document))
    for members in found.values():
        members.sort(key=lambda span: (span.started_at_ns or 0, span.span_id))
    return found


def list_traces(
    connection: Connection, project_id: str, page: Page, agent_id: str | None
) -> tuple[list[TraceRecord], str | None]:
    """Return a page of traces, the newest arrival first."""
    query = select(traces.c.key, *_RECORD_COLUMNS).where(traces.c.project_id == project_id)
    if agent_id is not None:
        query = query.where(traces.c.agent_id == agent_id)
    rows = connection.execute(page_of(query, traces.c.created_at_ns, traces.c.key, page, int)).all()
    return cut(rows, page, "created_at_ns", "key", _read)


def mark_checked(connection: Connection, marks: Mapping[tuple[str, str], int]) -> None:
    """Raise the checked revision of each trace, by (project, trace id), to the one given.

    The rows are locked in the order of their keys, as by `add_spans`, so that the two never wait in a ring.
    """
    for chunk in in_chunks(list(marks)):
        query = (
            select(traces.c.key, traces.c.project_id, traces.c.trace_id)
            .where(tuple_(traces.c.project_id, traces.c.trace_id).in_(chunk))
            .order_by(traces.c.key)
            .with_for_update()
        )
        held = connection.execute(query).all()
        if held:
            connection.execute(
                update(traces)
                .where(traces.c.key == bindparam("row_key"), traces.c.checked_revision < bindparam("mark"))
                .values(checked_revision=bindparam("mark")),
                [{"row_key": row.key, "mark": marks[row.project_id, row.trace_id]} for row in held],
            )


@dataclass(slots=True)
class _Arrivals:
    """What arrived for one trace: its changed spans, and how many of them are new."""

    changed: list[Span] = field(default_factory=list[Span])
    added: int = 0


def add_spans(connection: Connection, project_id: str, arrived: Sequence[Span], now_ns: int) -> dict[str, TraceRecord]:
    """Write spans and keep their traces' rows; return the records of the traces that changed, by trace id.

    The traces' rows are taken first and in order, so that whoever changes a trace is alone with its spans and two
    writers never wait for each other in a ring.
    """
    latest = {(storable(span.trace_id), storable(span.span_id)): span for span in arrived}
    if not latest:
        return {}
    rows = _hold_traces(connection, project_id, sorted({trace_id for trace_id, _ in latest}), now_ns)
    documents = {key: encode(span) for key, span in latest.items()}
    stored = _stored_documents(connection, rows, documents)
    by_trace: dict[str, _Arrivals] = {}
    for key, document in documents.items():
        if stored.get(key) != document:
            arrivals = by_trace.setdefault(key[0], _Arrivals())
            arrivals.changed.append(latest[key])
            arrivals.added += key not in stored
    if not by_trace:
        return {}
    _demand_room(rows, by_trace)
    _put_spans(connection, rows, by_trace, documents)
    records = {trace_id: _advanced(rows[trace_id], arrivals, now_ns) for trace_id, arrivals in sorted(by_trace.items())}
    _put_records(connection, rows, records)
    seen = sightings(project_id, (span for arrivals in by_trace.values() for span in arrivals.changed))
    if seen:
        note_agents(connection, project_id, seen, now_ns)
    return records


def _demand_room(rows: Mapping[str, Row[Any]], by_trace: Mapping[str, _Arrivals]) -> None:
    full = [
        trace_id
        for trace_id, arrivals in by_trace.items()
        if arrivals.added and rows[trace_id].span_count + arrivals.added > MOST_SPANS
    ]
    if full:
        first = full[0]
        raise TraceFullError(
            f"Trace {first!r} has {rows[first].span_count} spans and {by_trace[first].added} more came; "
            f"at most {MOST_SPANS} are kept of one trace.",
            trace_ids=frozenset(full),
        )


def _hold_traces(connection: Connection, project_id: str, trace_ids: Sequence[str], now_ns: int) -> dict[str, Row[Any]]:
    """Lock the traces' rows, making those that are not there yet at revision 0."""
    blank = {
        "project_id": project_id,
        "revision": 0,
        "checked_revision": 0,
        "span_count": 0,
        "created_at_ns": now_ns,
        "updated_at_ns": now_ns,
        "pending_since_ns": now_ns,
    }
    connection.execute(
        insert_into(connection, traces).on_conflict_do_nothing(),
        [{**blank, "trace_id": trace_id} for trace_id in trace_ids],
    )
    held: dict[str, Row[Any]] = {}
    for chunk in in_chunks(trace_ids):
        query = (
            select(traces.c.key, *_RECORD_COLUMNS)
            .where(traces.c.project_id == project_id, traces.c.trace_id.in_(chunk))
            .order_by(traces.c.key)
            .with_for_update()
        )
        held.update((row.trace_id, row) for row in connection.execute(query).all())
    return held


def _stored_documents(
    connection: Connection, rows: Mapping[str, Row[Any]], wanted: Mapping[tuple[str, str], bytes]
) -> dict[tuple[str, str], bytes]:
    """Return the documents stored under these ids; traces made just now have none, so they are not asked about."""
    trace_ids = {row.key: trace_id for trace_id, row in rows.items() if row.revision > 0}
    keys = [(rows[trace_id].key, span_id) for trace_id, span_id in wanted if rows[trace_id].key in trace_ids]
    stored: dict[tuple[str, str], bytes] = {}
    for chunk in in_chunks(keys):
        query = select(spans).where(tuple_(spans.c.trace_key, spans.c.span_id).in_(chunk))
        stored.update(
            ((trace_ids[row.trace_key], row.span_id), row.document) for row in connection.execute(query).all()
        )
    return stored


def _put_spans(
    connection: Connection,
    rows: Mapping[str, Row[Any]],
    by_trace: Mapping[str, _Arrivals],
    documents: Mapping[tuple[str, str], bytes],
) -> None:
    statement = insert_into(connection, spans)
    statement = statement.on_conflict_do_update(
        index_elements=[spans.c.trace_key, spans.c.span_id], set_={"document": statement.excluded.document}
    )
    changed = [
        {
            "trace_key": rows[trace_id].key,
            "span_id": storable(span.span_id),
            "document": documents[trace_id, storable(span.span_id)],
        }
        for trace_id, arrivals in by_trace.items()
        for span in arrivals.changed
    ]
    for chunk in in_chunks(changed):
        connection.execute(statement, chunk)


def _advanced(row: Row[Any], arrivals: _Arrivals, now_ns: int) -> TraceRecord:
    """Return the trace's record after these arrivals; a root span among them names it, else the first one does."""
    root = next((span for span in arrivals.changed if span.parent_span_id is None), None)
    agent = root.agent if root is not None else None
    agent_id = agent_id_of(row.project_id, agent) if agent is not None else row.agent_id
    if agent_id is None:
        named = next((span.agent for span in arrivals.changed if span.agent is not None), None)
        agent_id = None if named is None else agent_id_of(row.project_id, named)
    name = row.name if row.name is not None else arrivals.changed[0].name
    return TraceRecord(
        project_id=row.project_id,
        trace_id=row.trace_id,
        revision=row.revision + 1,
        checked_revision=row.checked_revision,
        agent_id=agent_id,
        name=name if root is None else root.name,
        span_count=row.span_count + arrivals.added,
        created_at_ns=row.created_at_ns,
        updated_at_ns=now_ns,
        pending_since_ns=now_ns if row.checked_revision == row.revision else row.pending_since_ns,
    )


def _put_records(connection: Connection, rows: Mapping[str, Row[Any]], records: Mapping[str, TraceRecord]) -> None:
    changing = ("revision", "agent_id", "name", "span_count", "updated_at_ns", "pending_since_ns")
    connection.execute(
        update(traces)
        .where(traces.c.key == bindparam("row_key"))
        .values({name: bindparam(f"new_{name}") for name in changing}),
        [
            {"row_key": rows[trace_id].key, **{f"new_{name}": getattr(record, name) for name in changing}}
            for trace_id, record in records.items()
        ],
    )

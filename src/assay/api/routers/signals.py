"""Signals: what failing checks raised, and what was done about them."""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Query, Request

from assay.api.auth import MEMBERS
from assay.api.guarded import guarded
from assay.api.routers.wiring import Actor, Id, Project, Wired
from assay.api.schemas.signals import (
    AuditAnswer,
    HistoryQuery,
    NewNote,
    NoteAnswer,
    NoteList,
    SignalAnswer,
    SignalList,
    SignalQuery,
    SignalStep,
    log_entry_answer,
    note_answer,
    signal_answer,
)
from assay.api.signal_stream import SignalStream, Streams, start_after
from assay.domain.signal import Signal
from assay.domain.signal_log import AUDITED, LogEntry, LogKind, entry_of
from assay.domain.signal_steps import ImpossibleStep, acknowledge, archive, assign, mute, note, resolve, unmute
from assay.errors import ConflictError, InvalidInputError, NotFoundError
from assay.ports import Page, SignalFilter, Snapshot, Transaction

router = APIRouter(prefix="/api/v1/signals", route_class=guarded(MEMBERS), tags=["signals"])

Stepped = Signal | ImpossibleStep


@router.get("")
async def list_signals(services: Wired, project_id: Project, query: Annotated[SignalQuery, Query()]) -> SignalList:
    """List signals, the one seen last first, or the one raised last."""
    which = SignalFilter(
        project_id=project_id,
        status=query.status,
        severity=query.severity,
        evaluator_id=query.evaluator_id,
        agent_id=query.agent_id,
        since_ns=query.seen_since,
        until_ns=query.seen_until,
        words=query.words,
    )
    async with services.store.snapshot() as snapshot:
        signals, cursor = await snapshot.list_signals(which, Page(limit=query.limit, cursor=query.cursor), query.order)
    now_ns = services.clock.now_ns()
    return SignalList(signals=[signal_answer(signal, now_ns) for signal in signals], next_cursor=cursor)


@router.get("/stream", status_code=200, response_class=SignalStream)
async def stream_signals(services: Wired, project_id: Project, request: Request) -> SignalStream:
    """Follow what happens to signals, as server-sent events; `Last-Event-ID` goes on where a stream broke off."""
    streams: Streams = request.app.state.streams
    after = start_after(request.headers.get("last-event-id"))
    return SignalStream(services.store, streams, request, project_id, after)


@router.get("/{id}")
async def get_signal(services: Wired, project_id: Project, signal_id: Id) -> SignalAnswer:
    """Return one signal."""
    async with services.store.snapshot() as snapshot:
        signal = await _load(snapshot, project_id, signal_id)
    return signal_answer(signal, services.clock.now_ns())


@router.patch("/{id}")
async def change_signal(
    services: Wired, project_id: Project, actor: Actor, signal_id: Id, asked: SignalStep
) -> SignalAnswer:
    """Acknowledge, resolve (with a reason) or archive a signal, give it to somebody, or mute it."""
    _demand_reason(asked)
    now_ns = services.clock.now_ns()
    async with services.store.transaction() as transaction:
        signal = await _load_for_update(transaction, project_id, signal_id)
        entries: list[LogEntry] = []
        for kind, detail, step in _steps(asked, signal, now_ns):
            changed = step(signal)
            if isinstance(changed, ImpossibleStep):
                raise ConflictError(changed.message)
            if changed != signal:
                entries.append(entry_of(changed, kind, actor=actor, at_ns=now_ns, **detail))
            signal = changed
        if entries:
            await transaction.put_signals([signal], entries)
    return signal_answer(signal, now_ns)


@router.post("/{id}/notes", status_code=201)
async def add_note(services: Wired, project_id: Project, actor: Actor, signal_id: Id, given: NewNote) -> NoteAnswer:
    """Note something on a signal; notes are never changed."""
    now_ns = services.clock.now_ns()
    async with services.store.transaction() as transaction:
        noted = note(await _load_for_update(transaction, project_id, signal_id), now_ns=now_ns)
        if isinstance(noted, ImpossibleStep):
            raise ConflictError(noted.message)
        entry = entry_of(noted, "noted", actor=actor, at_ns=now_ns, note=given.note)
        await transaction.put_signals([noted], [entry])
        written, _ = await transaction.signal_history(project_id, signal_id, ("noted",), Page(limit=1))
    return note_answer(written[0])


@router.get("/{id}/notes")
async def list_notes(
    services: Wired, project_id: Project, signal_id: Id, query: Annotated[HistoryQuery, Query()]
) -> NoteList:
    """List what people noted on a signal, newest first."""
    entries, cursor = await _history(services, project_id, signal_id, ("noted",), query)
    return NoteList(notes=[note_answer(entry) for entry in entries], next_cursor=cursor)


@router.get("/{id}/audit")
async def list_audit(
    services: Wired, project_id: Project, signal_id: Id, query: Annotated[HistoryQuery, Query()]
) -> AuditAnswer:
    """List who did what to a signal, newest first; further failures of an open one are counted in it, not listed."""
    entries, cursor = await _history(services, project_id, signal_id, AUDITED, query)
    return AuditAnswer(entries=[log_entry_answer(entry) for entry in entries], next_cursor=cursor)


async def _history(
    services: Wired, project_id: str, signal_id: str, kinds: tuple[LogKind, ...], query: HistoryQuery
) -> tuple[list[LogEntry], str | None]:
    async with services.store.snapshot() as snapshot:
        await _load(snapshot, project_id, signal_id)
        return await snapshot.signal_history(project_id, signal_id, kinds, Page(limit=query.limit, cursor=query.cursor))


async def _load(snapshot: Snapshot, project_id: str, signal_id: str) -> Signal:
    signal = await snapshot.signal(project_id, signal_id)
    if signal is None:
        raise NotFoundError(f"There is no signal {signal_id[:80]!r} in this project.")
    return signal


async def _load_for_update(transaction: Transaction, project_id: str, signal_id: str) -> Signal:
    named = await _load(transaction, project_id, signal_id)
    return await transaction.signal_for_update(project_id, named.evaluator_id, named.agent_id) or named


def _demand_reason(asked: SignalStep) -> None:
    if not asked.model_fields_set:
        raise InvalidInputError("Nothing is asked for; give a status, an assignee or mutedUntil.", field="status")
    if asked.status == "resolved" and not (asked.reason or "").strip():
        raise InvalidInputError("Resolving a signal needs a reason: say what was done about it.", field="reason")
    if asked.status != "resolved" and asked.reason is not None:
        raise InvalidInputError("A reason is kept with resolved signals only; leave it out.", field="reason")


def _steps(
    asked: SignalStep, signal: Signal, now_ns: int
) -> list[tuple[LogKind, dict[str, str | None], Callable[[Signal], Stepped]]]:
    """Return what is asked for, one step after the other."""
    steps: list[tuple[LogKind, dict[str, str | None], Callable[[Signal], Stepped]]] = []
    reason, assignee, until = (asked.reason or "").strip(), asked.assignee, asked.muted_until
    match asked.status:
        case "acknowledged":
            steps.append(("acknowledged", {}, lambda signal: acknowledge(signal, now_ns=now_ns)))
        case "resolved":
            steps.append(("resolved", {"reason": reason}, lambda signal: resolve(signal, reason=reason, now_ns=now_ns)))
        case "archived":
            steps.append(("archived", {}, lambda signal: archive(signal, now_ns=now_ns)))
        case None:
            pass
    if "assignee" in asked.model_fields_set:
        before = {"before": signal.assignee}
        steps.append(("assigned", before, lambda signal: assign(signal, assignee=assignee, now_ns=now_ns)))
    if until is not None:
        steps.append(("muted", {}, lambda signal: mute(signal, until=until, now_ns=now_ns)))
    elif "muted_until" in asked.model_fields_set:
        steps.append(("unmuted", {}, lambda signal: unmute(signal, now_ns=now_ns)))
    return steps

"""Signals: what failing checks raised, and what was done about them."""

from typing import Annotated

from fastapi import APIRouter, Query

from assay.api.auth import MEMBERS
from assay.api.guarded import guarded
from assay.api.routers.wiring import Id, Project, Wired
from assay.api.schemas.signals import SignalAnswer, SignalList, SignalQuery, SignalStep, signal_answer
from assay.domain.signal import ImpossibleStep, Signal, acknowledge, archive, resolve
from assay.errors import ConflictError, InvalidInputError, NotFoundError
from assay.ports import Page, SignalFilter, Snapshot

router = APIRouter(prefix="/api/v1/signals", route_class=guarded(MEMBERS), tags=["signals"])


@router.get("")
async def list_signals(services: Wired, project_id: Project, query: Annotated[SignalQuery, Query()]) -> SignalList:
    """List signals, the one seen last first."""
    which = SignalFilter(
        project_id=project_id, status=query.status, evaluator_id=query.evaluator_id, agent_id=query.agent_id
    )
    async with services.store.snapshot() as snapshot:
        signals, cursor = await snapshot.list_signals(which, Page(limit=query.limit, cursor=query.cursor))
    return SignalList(signals=[signal_answer(signal) for signal in signals], next_cursor=cursor)


@router.get("/{id}")
async def get_signal(services: Wired, project_id: Project, signal_id: Id) -> SignalAnswer:
    """Return one signal."""
    async with services.store.snapshot() as snapshot:
        return signal_answer(await _load(snapshot, project_id, signal_id))


@router.patch("/{id}")
async def change_signal(services: Wired, project_id: Project, signal_id: Id, asked: SignalStep) -> SignalAnswer:
    """Acknowledge, resolve (with a reason) or archive a signal; a new failure reopens what was resolved or archived."""
    _demand_reason(asked)
    async with services.store.transaction() as transaction:
        named = await _load(transaction, project_id, signal_id)
        signal = await transaction.signal_for_update(project_id, named.evaluator_id, named.agent_id) or named
        changed = _step(signal, asked, services.clock.now_ns())
        if isinstance(changed, ImpossibleStep):
            raise ConflictError(changed.message)
        await transaction.put_signal(changed)
    return signal_answer(changed)


async def _load(snapshot: Snapshot, project_id: str, signal_id: str) -> Signal:
    signal = await snapshot.signal(project_id, signal_id)
    if signal is None:
        raise NotFoundError(f"There is no signal {signal_id[:80]!r} in this project.")
    return signal


def _demand_reason(asked: SignalStep) -> None:
    if asked.status == "resolved" and not (asked.reason or "").strip():
        raise InvalidInputError("Resolving a signal needs a reason: say what was done about it.", field="reason")
    if asked.status != "resolved" and asked.reason is not None:
        raise InvalidInputError("A reason is kept with resolved signals only; leave it out.", field="reason")


def _step(signal: Signal, asked: SignalStep, now_ns: int) -> Signal | ImpossibleStep:
    match asked.status:
        case "acknowledged":
            return acknowledge(signal, now_ns=now_ns)
        case "resolved":
            return resolve(signal, reason=asked.reason or "", now_ns=now_ns)
        case "archived":
            return archive(signal, now_ns=now_ns)

"""Evaluators: made, read, changed, deleted; each change of content makes a revision."""

from dataclasses import replace

from fastapi import APIRouter, Request, Response

from assay.api.auth import MEMBERS
from assay.api.credentials import with_credentials
from assay.api.edits import code, demand_affordable, duplicated, laid_over, new_evaluator, numbered, vetted
from assay.api.guarded import guarded
from assay.api.routers.wiring import Actor, Id, Project, Wired
from assay.api.schemas.evaluators import (
    Duplicate,
    EvaluatorAnswer,
    EvaluatorChanges,
    EvaluatorList,
    NewEvaluator,
    RevisionList,
    evaluator_answer,
    revision_answer,
)
from assay.api.services import Services
from assay.api.stored import load_evaluator
from assay.domain.evaluator import Evaluator
from assay.domain.signal import Signal
from assay.domain.signal_log import entry_of
from assay.domain.signal_steps import archive
from assay.errors import ConflictError, InvalidInputError, NotFoundError
from assay.ports import Page, SignalFilter, Snapshot, Transaction

ATTEMPTS = 3

router = APIRouter(route_class=guarded(MEMBERS), tags=["evaluators"])


@router.get("", response_model_exclude_none=True)
async def list_evaluators(services: Wired, project_id: Project) -> EvaluatorList:
    """List all evaluators of the project, newest first."""
    async with services.store.snapshot() as snapshot:
        found = await snapshot.list_evaluators(project_id)
    return EvaluatorList(evaluators=[evaluator_answer(evaluator) for evaluator in found])


@router.post("", status_code=201, response_model_exclude_none=True)
async def create_evaluator(
    services: Wired, project_id: Project, fields: NewEvaluator, request: Request, response: Response
) -> EvaluatorAnswer:
    """Make an evaluator. Its code is looked at before it is saved: syntax, the function, and its interface."""
    now_ns = services.clock.now_ns()
    evaluator = new_evaluator(project_id, fields, now_ns, name=fields.name)
    evaluator = with_credentials(services.vault, await _vetted(services, evaluator, None), fields)
    async with services.store.transaction() as transaction:
        await _demand_known_agents(transaction, evaluator)
        await transaction.add_evaluator(evaluator)
    response.headers["location"] = f"{request.url.path.rstrip('/')}/{evaluator.id}"
    return evaluator_answer(evaluator)


@router.post("/{id}/duplicate", status_code=201, response_model_exclude_none=True)
async def duplicate_evaluator(
    services: Wired,
    project_id: Project,
    evaluator_id: Id,
    request: Request,
    response: Response,
    asked: Duplicate | None = None,
) -> EvaluatorAnswer:
    """Copy an evaluator with its settings to a new one, which begins disabled; only here can the interface differ."""
    wanted = asked or Duplicate()
    async with services.store.snapshot() as snapshot:
        stored = await load_evaluator(snapshot, project_id, evaluator_id)
    copy = duplicated(stored, wanted.interface, wanted.name, services.clock.now_ns())
    copy = replace(copy, revision=await vetted(services.engine, copy.revision))
    async with services.store.transaction() as transaction:
        await transaction.add_evaluator(copy)
    response.headers["location"] = f"{request.url.path.rpartition(stored.id)[0]}{copy.id}"
    return evaluator_answer(copy)


@router.get("/{id}", response_model_exclude_none=True)
async def get_evaluator(services: Wired, project_id: Project, evaluator_id: Id) -> EvaluatorAnswer:
    """Return one evaluator."""
    async with services.store.snapshot() as snapshot:
        return evaluator_answer(await load_evaluator(snapshot, project_id, evaluator_id))


@router.put("/{id}", response_model_exclude_none=True)
async def put_evaluator(
    services: Wired, project_id: Project, evaluator_id: Id, fields: EvaluatorChanges
) -> EvaluatorAnswer:
    """Change an evaluator; what is not named stays. What GET answered can be sent back."""
    return await _change(services, project_id, evaluator_id, fields)


@router.patch("/{id}", response_model_exclude_none=True)
async def patch_evaluator(
    services: Wired, project_id: Project, evaluator_id: Id, fields: EvaluatorChanges
) -> EvaluatorAnswer:
    """Change an evaluator; what is not named stays."""
    return await _change(services, project_id, evaluator_id, fields)


@router.delete("/{id}", status_code=204)
async def delete_evaluator(services: Wired, project_id: Project, actor: Actor, evaluator_id: Id) -> None:
    """Delete an evaluator and archive its signals; the checks it made stay with their traces."""
    async with services.store.transaction() as transaction:
        if not await transaction.delete_evaluator(project_id, evaluator_id):
            raise NotFoundError(f"There is no evaluator {evaluator_id[:80]!r} in this project.")
        await _archive_signals(transaction, project_id, evaluator_id, actor, services.clock.now_ns())


@router.get("/{id}/revisions", response_model_exclude_none=True)
async def list_revisions(services: Wired, project_id: Project, evaluator_id: Id) -> RevisionList:
    """List all revisions of an evaluator, newest first."""
    async with services.store.snapshot() as snapshot:
        await load_evaluator(snapshot, project_id, evaluator_id)
        revisions = await snapshot.revisions(project_id, evaluator_id)
    return RevisionList(revisions=[revision_answer(revision) for revision in revisions])


async def _change(services: Services, project_id: str, evaluator_id: str, fields: EvaluatorChanges) -> EvaluatorAnswer:
    """Lay the fields over what is stored; code is looked at outside of the transaction, so begin again if it moved."""
    for _ in range(ATTEMPTS):
        async with services.store.snapshot() as snapshot:
            stored = await load_evaluator(snapshot, project_id, evaluator_id)
        merged = await _vetted(services, laid_over(stored, fields), stored)
        merged = with_credentials(services.vault, merged, fields)
        changed = numbered(merged, stored, services.clock.now_ns())
        async with services.store.transaction() as transaction:
            if await load_evaluator(transaction, project_id, evaluator_id) != stored:
                continue
            if changed.agent_ids != stored.agent_ids:
                await _demand_known_agents(transaction, changed)
            await transaction.update_evaluator(changed)
        return evaluator_answer(changed)
    raise ConflictError("Somebody else changes this evaluator at the same time; read it again and repeat.")


async def _vetted(services: Services, merged: Evaluator, stored: Evaluator | None) -> Evaluator:
    demand_affordable(merged.revision, None if stored is None else stored.revision, services.limits)
    if stored is not None and code(merged.revision) == code(stored.revision):
        return merged
    return replace(merged, revision=await vetted(services.engine, merged.revision))


async def _archive_signals(
    transaction: Transaction, project_id: str, evaluator_id: str, actor: str, now_ns: int
) -> None:
    """Archive them in the order of their agents, in which recordings take them too; the log comes last."""
    which = SignalFilter(project_id=project_id, evaluator_id=evaluator_id)
    listed: list[Signal] = []
    cursor: str | None = None
    while True:
        page, cursor = await transaction.list_signals(which, Page(limit=200, cursor=cursor), "raised")
        listed += page
        if cursor is None:
            break
    archived: list[Signal] = []
    for agent_id in sorted(signal.agent_id or "" for signal in listed):
        signal = await transaction.signal_for_update(project_id, evaluator_id, agent_id or None)
        if signal is not None and signal.status != "archived":
            archived.append(archive(signal, now_ns=now_ns))
    await transaction.put_signals(
        archived,
        [
            entry_of(signal, "archived", actor=actor, at_ns=now_ns, reason="its evaluator was deleted")
            for signal in archived
        ],
    )


async def _demand_known_agents(snapshot: Snapshot, evaluator: Evaluator) -> None:
    unknown = await snapshot.unknown_agents(evaluator.project_id, evaluator.agent_ids)
    if unknown:
        names = ", ".join(sorted(unknown)[:5])
        raise InvalidInputError(
            f"There are no agents with these ids: {names}. GET /api/v1/agents lists those there are; an agent's id is "
            "not its name.",
            field="agentIds",
        )

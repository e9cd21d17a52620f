"""The history of an evaluator: the checks it made."""

from typing import Annotated

from fastapi import APIRouter, Query

from assay.api.auth import MEMBERS
from assay.api.guarded import guarded
from assay.api.routers.wiring import Id, Project, Wired
from assay.api.schemas.checks import EventList, EventQuery, event_answer
from assay.api.stored import load_evaluator
from assay.ports import CheckFilter, Page

router = APIRouter(route_class=guarded(MEMBERS), tags=["evaluators"])


@router.get("/{id}/events")
async def list_events(
    services: Wired, project_id: Project, evaluator_id: Id, query: Annotated[EventQuery, Query()]
) -> EventList:
    """List the checks an evaluator made, newest first; those it skipped only on demand."""
    which = CheckFilter(
        project_id=project_id,
        evaluator_id=evaluator_id,
        agent_id=query.agent_id,
        statuses=query.statuses,
        since_ns=query.since_ns(services.clock.now_ns()),
    )
    async with services.store.snapshot() as snapshot:
        await load_evaluator(snapshot, project_id, evaluator_id)
        checks, cursor = await snapshot.checks(which, Page(limit=query.limit, cursor=query.cursor))
        total = await snapshot.count_checks(which)
        revisions = await snapshot.revisions_by_id(list({check.revision_id for check in checks}))
    numbers = {revision_id: revision.number for revision_id, revision in revisions.items()}
    return EventList(
        events=[event_answer(check, numbers.get(check.revision_id)) for check in checks],
        total_count=total,
        next_cursor=cursor,
    )

"""Trying an evaluator before it is saved."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from fastapi import APIRouter, Request
from starlette.requests import ClientDisconnect

from assay.api.auth import MEMBERS
from assay.api.dry_run import Turns, dry_run
from assay.api.guarded import guarded
from assay.api.routers.wiring import Project, Wired
from assay.api.schemas.dry_run import DryRun, DryRunAnswer

router = APIRouter(route_class=guarded(MEMBERS), tags=["evaluators"])


@router.post("/dry-run", response_model_exclude_unset=True)
async def try_evaluator(services: Wired, project_id: Project, request: Request, asked: DryRun) -> DryRunAnswer:
    """Run an evaluator once. A failing evaluator is an answer like any other: 200 with `ok` false and the reason."""
    turns: Turns = request.app.state.turns
    return await _unless_left(request, dry_run(services, turns, project_id, asked))


async def _unless_left(request: Request, answering: Coroutine[Any, Any, DryRunAnswer]) -> DryRunAnswer:
    """Return the answer; give it up when the client goes away, since nobody would see it and it holds a turn."""
    answer = asyncio.ensure_future(answering)
    left = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait((answer, left), return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise ClientDisconnect
        return answer.result()
    finally:
        for task in (answer, left):
            task.cancel()
        await asyncio.gather(answer, left, return_exceptions=True)


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass

"""Trying an evaluator before it is saved."""

from fastapi import APIRouter, Request

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
    return await dry_run(services, turns, project_id, asked)

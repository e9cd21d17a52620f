"""Whether the server lives and can work, and its figures."""

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from assay.api.routers.wiring import Wired
from assay.api.schemas.fields import Answer
from assay.errors import SandboxUnavailableError

router = APIRouter(tags=["health"])


class Health(Answer):
    """The server answers."""

    status: str = "ok"


@router.get("/healthz")
async def healthz() -> Health:
    """Say that the process answers."""
    return Health()


@router.get("/readyz")
async def readyz(services: Wired) -> Health:
    """Say that the server can take work, or 503 with what it lacks."""
    await services.queue.depth()
    lacking = await services.unready() if services.unready is not None else None
    if lacking is not None:
        raise SandboxUnavailableError(lacking)
    return Health()


@router.get("/metrics", response_class=Response)
async def metrics(services: Wired) -> Response:
    """Return counters and gauges as Prometheus text; nothing in them belongs to one project."""
    services.meters.backlog.set(await services.queue.depth())
    services.meters.paused.set(services.engine.paused)
    return Response(generate_latest(services.meters.registry), media_type=CONTENT_TYPE_LATEST)

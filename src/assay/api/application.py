"""The HTTP application: every route, behind one border."""

from importlib.metadata import version

from fastapi import Depends, FastAPI

from assay.api.auth import SCHEMES, KeyRing
from assay.api.border import RequestBorder
from assay.api.dry_run import Turns
from assay.api.openapi import install_openapi
from assay.api.problem import install_problems
from assay.api.routers import (
    agents,
    channels,
    documentation,
    dry_run,
    evaluators,
    events,
    health,
    otlp,
    signals,
    traces,
)
from assay.api.services import Services
from assay.api.signal_stream import Streams

__all__ = ["Services", "create_application"]

EVALUATORS = "/agent-monitoring/custom-evaluators"
SHORT_EVALUATORS = "/api/v1/custom-evaluators"
DESCRIPTION = "Run the checks you write over what your LLM application did. Send your key in `x-api-key`."


def create_application(services: Services) -> FastAPI:
    """Return the application over these services, which it neither opens nor closes."""
    app = FastAPI(
        title="Assay",
        version=version("assay"),
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        strict_content_type=False,
    )
    app.state.services = services
    app.state.key_ring = KeyRing(services.store)
    app.state.turns = Turns(services.dry_runs)
    app.state.streams = Streams(services.store)
    install_problems(app)
    install_openapi(app)
    keyed = [Depends(scheme) for scheme in SCHEMES]
    for router in (otlp.router, traces.sending, traces.router, agents.router, signals.router, channels.router):
        app.include_router(router, dependencies=keyed)
    for prefix, is_shown in ((EVALUATORS, True), (SHORT_EVALUATORS, True), ("/api/v1" + EVALUATORS, False)):
        for router in (dry_run.router, evaluators.router, events.router):
            app.include_router(router, prefix=prefix, dependencies=keyed, include_in_schema=is_shown)
    app.include_router(health.router)
    app.include_router(documentation.router)
    app.add_middleware(RequestBorder)
    return app

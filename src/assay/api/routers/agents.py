"""The applications that sent traces."""

from fastapi import APIRouter

from assay.api.auth import MEMBERS
from assay.api.guarded import guarded
from assay.api.routers.wiring import Project, Wired
from assay.api.schemas.signals import AgentList, agent_answer

router = APIRouter(route_class=guarded(MEMBERS), tags=["agents"])


@router.get("/api/v1/agents")
async def list_agents(services: Wired, project_id: Project) -> AgentList:
    """List all agents of the project, by name."""
    async with services.store.snapshot() as snapshot:
        return AgentList(agents=[agent_answer(agent) for agent in await snapshot.list_agents(project_id)])

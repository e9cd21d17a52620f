"""Stored things as requests ask for them: found, or NotFoundError."""

from functools import partial

from assay.api.decoding import in_a_thread
from assay.domain.evaluator import Evaluator
from assay.domain.trace import Trace
from assay.errors import NotFoundError
from assay.ingest.assembly import assemble
from assay.ports import Snapshot

MANY_SPANS = 200


async def load_trace(snapshot: Snapshot, project_id: str, trace_id: str) -> Trace:
    """Return a whole trace; one of many spans is put together beside the event loop."""
    record = await snapshot.trace(project_id, trace_id)
    spans = (await snapshot.spans([(project_id, trace_id)])).get((project_id, trace_id)) if record else None
    if record is None or not spans:
        raise NotFoundError(f"There is no trace {trace_id[:80]!r} in this project.")
    agents = await snapshot.list_agents(project_id)
    assembled = partial(
        assemble,
        project_id,
        spans,
        revision=record.revision,
        created_at_ns=record.created_at_ns,
        agent_id=record.agent_id,
        agent=next((agent.name for agent in agents if agent.id == record.agent_id), None),
    )
    return assembled() if len(spans) < MANY_SPANS else await in_a_thread(assembled)


async def load_evaluator(snapshot: Snapshot, project_id: str, evaluator_id: str) -> Evaluator:
    """Return an evaluator that is not deleted."""
    evaluator = await snapshot.evaluator(project_id, evaluator_id)
    if evaluator is None:
        raise NotFoundError(f"There is no evaluator {evaluator_id[:80]!r} in this project.")
    return evaluator

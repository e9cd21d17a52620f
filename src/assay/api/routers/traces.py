"""Stored traces; and the way in for those without OpenTelemetry."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from assay.api.auth import MEMBERS, SENDERS
from assay.api.decoding import in_a_thread, off_the_loop
from assay.api.guarded import JSON, guarded
from assay.api.routers.wiring import Id, Project, Wired
from assay.api.schemas.checks import event_answer
from assay.api.schemas.traces import Accepted, TraceList, TraceQuery, WholeTrace, trace_summary, whole_trace
from assay.api.stored import MANY_SPANS, load_trace
from assay.ingest.plain import decode_plain
from assay.ports import CheckFilter, Page

CHECKS_SHOWN = 200
PATH = "/api/v1/traces"
ANY_JSON = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": {"type": ["object", "array"]}}}}
}

router = APIRouter(prefix=PATH, route_class=guarded(MEMBERS), tags=["traces"])
sending = APIRouter(prefix=PATH, route_class=guarded(SENDERS), tags=["traces"])


@sending.post("", status_code=201, openapi_extra=ANY_JSON)
async def send_trace(services: Wired, project_id: Project, request: Request) -> Accepted:
    """Store a trace in plain JSON, or a list of them: all or nothing.

    A trace has `id`, `agent`, `sessionId`, `metadata` and `spans`; a span the fields that evaluators read.
    """
    body = await request.body()
    headers = request.headers
    decoded = await off_the_loop(
        body,
        lambda: decode_plain(
            body,
            headers.get("content-type"),
            headers.get("content-encoding"),
            services.bodies,
            now_ns=services.clock.now_ns(),
        ),
    )
    await services.pipeline.accept(project_id, decoded.spans)
    return Accepted(trace_ids=list(dict.fromkeys(span.trace_id for span in decoded.spans)), spans=len(decoded.spans))


@router.get("")
async def list_traces(services: Wired, project_id: Project, query: Annotated[TraceQuery, Query()]) -> TraceList:
    """List traces, newest first."""
    async with services.store.snapshot() as snapshot:
        records, cursor = await snapshot.list_traces(
            project_id, Page(limit=query.limit, cursor=query.cursor), query.agent_id
        )
    return TraceList(traces=[trace_summary(record) for record in records], next_cursor=cursor)


@router.get("/{id:path}", response_model=WholeTrace)
async def get_trace(services: Wired, project_id: Project, trace_id: Id) -> Response:
    """Return a trace with its spans, root first, and the checks made over it, newest first."""
    async with services.store.snapshot() as snapshot:
        trace = await load_trace(snapshot, project_id, trace_id)
        which = CheckFilter(project_id=project_id, trace_id=trace_id)
        checks, _ = await snapshot.checks(which, Page(limit=CHECKS_SHOWN))
        revisions = await snapshot.revisions_by_id(list({check.revision_id for check in checks}))
    numbers = {revision_id: revision.number for revision_id, revision in revisions.items()}

    def body() -> bytes:
        events = [event_answer(check, numbers.get(check.revision_id)) for check in checks]
        return whole_trace(trace, events).model_dump_json().encode("utf-8", "replace")

    content = body() if len(trace.spans) < MANY_SPANS else await in_a_thread(body)
    return Response(content, media_type=JSON)

"""OTLP over HTTP: traces in protobuf or JSON, answered as OTLP asks, errors too."""

from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.requests import ClientDisconnect

from assay.api.auth import SENDERS, authorised
from assay.api.decoding import off_the_loop
from assay.api.guarded import BoundedRequest
from assay.api.problem import log_unexpected, problem_of
from assay.api.services import Services, services_of
from assay.errors import AssayError, TraceFullError
from assay.ingest.otlp import JSON, PROTOBUF, Decoded, decode_traces, encode_error, encode_response

PATHS = ("/v1/traces", "/api/v1/otel/v1/traces")
BINARY: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
ANY_OBJECT: dict[str, Any] = {"schema": {"type": "object"}}
CONTENT = {PROTOBUF: BINARY, JSON: ANY_OBJECT}
DOCUMENTED: dict[str, Any] = {
    "requestBody": {"required": True, "content": CONTENT},
    "responses": {
        "200": {"description": "An ExportTraceServiceResponse, in the encoding of the request.", "content": CONTENT},
        "default": {"description": "A google.rpc.Status, in the encoding of the request.", "content": CONTENT},
    },
}

router = APIRouter(tags=["traces"])


async def export_traces(request: Request) -> Response:
    """Store the spans of an OTLP export; 200 leaves when they and the work they owe are durable.

    A span that cannot be read is left out alone, and the partial success says why.
    """
    content_type = request.headers.get("content-type")
    try:
        return await _store(BoundedRequest(request.scope, request.receive), content_type)
    except ClientDisconnect:
        raise
    except AssayError as error:
        return _refusal(content_type, error)
    except Exception as error:
        log_unexpected(error)
        return _refusal(content_type, error)


async def _store(request: BoundedRequest, content_type: str | None) -> Response:
    key = await authorised(request, SENDERS)
    services = services_of(request)
    encoding = request.headers.get("content-encoding")
    body = await request.body()
    decoded = await off_the_loop(body, lambda: decode_traces(body, content_type, encoding, services.bodies))
    decoded = await _accepted(services, key.project_id, decoded)
    answer, media_type = encode_response(content_type, decoded.rejected, decoded.message)
    return Response(answer, media_type=media_type)


async def _accepted(services: Services, project_id: str, decoded: Decoded) -> Decoded:
    """Store the spans, without those of traces that are full; return what is then to be answered."""
    try:
        await services.pipeline.accept(project_id, decoded.spans)
    except TraceFullError as error:
        kept = [span for span in decoded.spans if span.trace_id not in error.trace_ids]
        rejected = decoded.rejected + len(decoded.spans) - len(kept)
        message = f"{decoded.message} {error}".strip()
        return await _accepted(services, project_id, Decoded(spans=kept, rejected=rejected, message=message))
    return decoded


def _refusal(content_type: str | None, error: Exception) -> Response:
    problem = problem_of(error)
    answer, media_type = encode_error(content_type, problem.status, problem.detail)
    return Response(answer, status_code=problem.status, media_type=media_type, headers=dict(problem.headers))


for path in PATHS:
    router.add_api_route(path, export_traces, methods=["POST"], response_class=Response, openapi_extra=DOCUMENTED)

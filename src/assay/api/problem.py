"""Errors as RFC 9457 problem details: the only map from what went wrong to HTTP."""

import dataclasses
import json
import traceback
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from assay.api.schemas.fields import shown
from assay.errors import (
    AssayError,
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    NotAuthenticatedError,
    NotFoundError,
    OverloadedError,
    PayloadTooLargeError,
    SandboxUnavailableError,
    SecretUnreadableError,
    StoreUnavailableError,
    UnsupportedMediaTypeError,
)

UNKNOWN_FIELD = "unknown-field"
OUR_TYPES = (UNKNOWN_FIELD, "secret", "share", "text", "status", "window")
MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:assay:problem:"
STATUSES: dict[type[AssayError], int] = {
    InvalidInputError: 400,
    NotAuthenticatedError: 401,
    ForbiddenError: 403,
    NotFoundError: 404,
    ConflictError: 409,
    SecretUnreadableError: 409,
    PayloadTooLargeError: 413,
    UnsupportedMediaTypeError: 415,
    OverloadedError: 429,
    SandboxUnavailableError: 503,
    StoreUnavailableError: 503,
}
HTTP_CODES = {400: "invalid-input", 404: "not-found", 405: "method-not-allowed"}
UNAVAILABLE_RETRY_S = 5
SHOWN_FRAMES = 12

log = structlog.stdlib.get_logger("assay.api")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What a client is told: status, stable code, sentence, and where in the request."""

    status: int
    code: str
    detail: str
    field: str | None = None
    line: int | None = None
    column: int | None = None
    errors: tuple[Mapping[str, str], ...] = ()
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict[str, str])


def problem_of(error: Exception) -> Problem:
    """Return what to tell the client; what is not meant for it is not in there, whatever the error says."""
    if isinstance(error, AssayError):
        return _of_ours(error)
    if isinstance(error, RequestValidationError):
        return _of_validation(error.errors())
    if isinstance(error, HTTPException):
        code = HTTP_CODES.get(error.status_code, f"http-{error.status_code}")
        return Problem(
            status=error.status_code, code=code, detail=f"{error.detail}.", headers=dict(error.headers or {})
        )
    return Problem(
        status=500,
        code="internal",
        detail="Something went wrong on our side; the server's log has the cause under this request id.",
    )


def problem_response(problem: Problem, request_id: str | None) -> Response:
    """Return the problem details as a response."""
    document: dict[str, Any] = {
        "type": TYPE_PREFIX + problem.code,
        "title": HTTPStatus(problem.status).phrase,
        "status": problem.status,
        "detail": problem.detail,
        "code": problem.code,
    }
    extras = {
        "field": problem.field,
        "line": problem.line,
        "column": problem.column,
        "errors": problem.errors or None,
        "requestId": request_id,
    }
    document.update({name: value for name, value in extras.items() if value is not None})
    body = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")
    return Response(body, status_code=problem.status, media_type=MEDIA_TYPE, headers=dict(problem.headers))


def log_unexpected(error: Exception) -> None:
    """Log an error nobody planned for by its kind and place; its message may hold what a user sent."""
    frames = traceback.extract_tb(error.__traceback__)[-SHOWN_FRAMES:]
    places = [f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in frames]
    log.error("request-failed", error=type(error).__qualname__, places=places)


def install_problems(app: FastAPI) -> None:
    """Let the application answer its errors with problem details."""

    async def answer(request: Request, error: Exception) -> Response:
        return problem_response(problem_of(error), request.scope["state"].get("request_id"))

    for kind in (AssayError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, answer)


def _of_ours(error: AssayError) -> Problem:
    status = next((STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES), None)
    if status is None:
        log_unexpected(error)
        return Problem(status=500, code="internal", detail="The server cannot do this as it is set up.")
    headers: dict[str, str] = {}
    if isinstance(error, OverloadedError):
        headers["retry-after"] = str(error.retry_after_s)
    if isinstance(error, SandboxUnavailableError | StoreUnavailableError):
        headers["retry-after"] = str(UNAVAILABLE_RETRY_S)
    if isinstance(error, NotAuthenticatedError):
        headers["www-authenticate"] = 'Bearer realm="assay"'
    where = error if isinstance(error, InvalidInputError) else None
    return Problem(
        status=status,
        code=error.code,
        detail=str(error),
        field=where.field if where else None,
        line=where.line if where else None,
        column=where.column if where else None,
        headers=headers,
    )


def _of_validation(found: Sequence[Any]) -> Problem:
    errors = [_validation_error(error) for error in found]
    detail = " ".join(error["detail"] for error in errors[:3])
    if len(errors) > 3:
        detail += f" And {len(errors) - 3} more."
    return Problem(
        status=400,
        code=InvalidInputError.code,
        detail=detail,
        field=errors[0].get("field"),
        errors=tuple(errors) if len(errors) > 1 else (),
    )


def _validation_error(error: Mapping[str, Any]) -> dict[str, str]:
    place, *path = [str(part) for part in error["loc"]]
    context: Mapping[str, Any] = error.get("ctx") or {}
    field = ".".join(path)
    message = _message(error)
    if error["type"] == UNKNOWN_FIELD:
        return {"field": ".".join((*path, context["field"])), "detail": message}
    if place == "body" and (not field or error["type"] == "json_invalid"):
        return {"detail": message}
    return {"field": field, "detail": f"{field}: {message}" if field else message}


def _message(error: Mapping[str, Any]) -> str:
    context: Mapping[str, Any] = error.get("ctx") or {}
    in_body = len(error["loc"]) == 1
    match error["type"]:
        case "json_invalid":
            return f"The body is not JSON: {context.get('error')} at character {error['loc'][-1]}."
        case "missing" if in_body:
            return "The body is empty; expected a JSON object."
        case "model_attributes_type" | "model_type" | "dict_type" if in_body:
            return "The body is not a JSON object."
        case "missing":
            return "this is required."
        case _:
            found = error.get("input")
            is_told = error["type"] in OUR_TYPES or not isinstance(found, str | int | float | bool | None)
            return f"{error['msg']}." if is_told else f"{error['msg']}; found {shown(found)}."

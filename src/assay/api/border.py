"""The outermost layer of a request: its id, its access log line, and errors nobody planned for."""

import re
import time
import uuid

import structlog
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assay.api.problem import log_unexpected, problem_of, problem_response

HEADER = b"x-request-id"
ACCEPTABLE_ID = re.compile(rb"[A-Za-z0-9._:-]{1,64}")
QUIET = frozenset({"/healthz", "/readyz", "/metrics", "/v1/traces", "/api/v1/otel/v1/traces", "/api/v1/traces"})
"""Paths asked so often that only what fails there is worth a line at the usual level."""
FAILED = 400
LONGEST_PATH = 200

log = structlog.stdlib.get_logger("assay.api")


class RequestBorder:
    """Wraps an ASGI application; queries, headers and bodies, which may hold secrets, are never logged."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        status = 0
        started = time.perf_counter()

        async def send_marked(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message.get("headers", []),
                    (HEADER, request_id.encode()),
                    (b"x-content-type-options", b"nosniff"),
                ]
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                await self._app(scope, receive, send_marked)
            except ClientDisconnect:
                log.debug("client-left")
            except Exception as error:
                log_unexpected(error)
                if status:
                    raise
                await problem_response(problem_of(error), request_id)(scope, receive, send_marked)
            finally:
                _log_access(scope, status, time.perf_counter() - started)


def _request_id(scope: Scope) -> str:
    """Return the id the caller gave, where it is fit to be logged, else a new one."""
    given = next((value for name, value in scope["headers"] if name == HEADER), b"")
    return given.decode() if ACCEPTABLE_ID.fullmatch(given) else uuid.uuid4().hex


def _log_access(scope: Scope, status: int, took_s: float) -> None:
    write = log.debug if scope["path"] in QUIET and status < FAILED else log.info
    path = scope.get("raw_path") or scope["path"].encode("ascii", "backslashreplace")
    write(
        "request",
        method=scope["method"],
        path=path[:LONGEST_PATH].decode("ascii", "backslashreplace"),
        status=status,
        duration_ms=round(took_s * 1000, 1),
    )

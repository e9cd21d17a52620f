"""Routes that let only some roles in, and only so much of a body, before anything of the request is looked at."""

from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from assay.api.auth import authorised
from assay.api.services import services_of
from assay.domain.access import Role
from assay.errors import PayloadTooLargeError, UnsupportedMediaTypeError

JSON = "application/json"
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class BoundedRequest(Request):
    """A request whose body ends with PayloadTooLargeError where it grows beyond the limit on the wire."""

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """Yield the body as it comes, counting."""
        limit = services_of(self).bodies.wire_bytes
        announced = self.headers.get("content-length", "")
        size = int(announced) if announced.isdecimal() else 0
        if size > limit:
            raise PayloadTooLargeError(f"The body has {size} bytes; the limit is {limit}.")
        size = 0
        async for chunk in super().stream():
            size += len(chunk)
            if size > limit:
                raise PayloadTooLargeError(f"The body has more than {limit} bytes, which is the limit.")
            yield chunk


def guarded(roles: frozenset[Role]) -> type[APIRoute]:
    """Return the class of the routes that are open to these roles; their bodies, if any, are JSON."""

    class GuardedRoute(APIRoute):
        def get_route_handler(self) -> Handler:
            handle = super().get_route_handler()

            async def handle_guarded(request: Request) -> Response:
                await authorised(request, roles)
                bounded = BoundedRequest(request.scope, request.receive)
                if self.body_field is not None and await bounded.body():
                    _demand_json(bounded)
                return await handle(bounded)

            return handle_guarded

    return GuardedRoute


def _demand_json(request: Request) -> None:
    named = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if named != JSON and not named.endswith("+json"):
        raise UnsupportedMediaTypeError(f"Content-Type is {named[:80]!r}; send {JSON}.")

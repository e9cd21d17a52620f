"""One POST to an endpoint and what it answers, within a time for all of it."""

import asyncio
import ssl
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import cast

import httpcore2

from assay.domain.outcome import RaisedKind
from assay.guarded_http.address_guard import AddressGuard, BlockedAddressError, GuardedBackend
from assay.guarded_http.answer import OK, demand_success, read_body
from assay.guarded_http.failure import CallError
from assay.guarded_http.target import masked, shortened, target

FAILURE_BODY_S = 2.0
KEPT_S = 5.0
LINES_KEPT = 64
HEADERS = [
    (b"Content-Type", b"application/json"),
    (b"Accept", b"application/json"),
    (b"Accept-Encoding", b"identity"),
    (b"User-Agent", b"Assay"),
]


@dataclass(slots=True)
class Seen:
    """What an endpoint has answered so far, for somebody who wants to see it whatever goes wrong; times monotonic."""

    started: float = field(default_factory=time.monotonic)
    headers_at: float = 0.0
    version: str = ""
    status: int | None = None
    headers: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    body: bytearray = field(default_factory=bytearray)

    def note(self, response: httpcore2.Response) -> None:
        """Note status and headers."""
        self.headers_at = time.monotonic()
        extensions = cast("Mapping[str, object]", response.extensions)  # pyright: ignore[reportUnknownMemberType]
        version = extensions.get("http_version")
        self.version = version.decode("latin-1") if isinstance(version, bytes) else ""
        self.status = response.status
        self.headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers]


@dataclass(slots=True)
class _Line:
    """The connections to one origin; `used_at` is the monotonic time at which its last call ended."""

    pool: httpcore2.AsyncConnectionPool
    calls: int = 0
    used_at: float = 0.0


class Exchange:
    """Posts over connections that are kept, in HTTP/2 where an endpoint with TLS speaks it.

    A call that ends before its answer does costs its connection, in HTTP/2 too, where what is still on its way would
    fill up the window of all others; the calls beside it are seen to their end. Proxies of the environment are not
    used, redirects not followed.
    """

    def __init__(self, guard: AddressGuard) -> None:
        self._backend = GuardedBackend(guard)
        self._tls = ssl.create_default_context()
        self._lines: dict[tuple[bytes, bytes, int | None], _Line] = {}
        self._left: list[_Line] = []

    async def post(
        self,
        url: str,
        body: bytes,
        *,
        headers: Sequence[tuple[bytes, bytes]],
        left_s: float,
        budget_s: float,
        seen: Seen | None = None,
    ) -> bytes:
        """Return the body answered within `left_s`; raise CallError, whose message names the whole budget.

        The headers go along with those that say the body is JSON. `seen` is told all that was answered, the body of a
        failure too, which nobody else waits for.
        """
        shown = masked(url)
        endpoint = target(url)
        try:
            async with self._line(endpoint) as pool, asyncio.timeout(left_s):
                async with pool.stream("POST", endpoint, headers=[*HEADERS, *headers], content=body) as response:
                    if seen is not None:
                        seen.note(response)
                        await _watch_failure(response, shown, seen.body)
                    demand_success(response, shown)
                    return await read_body(response, shown, bytearray() if seen is None else seen.body)
        except (TimeoutError, httpcore2.TimeoutException) as error:
            raise CallError("timeout", f"{shown} did not answer within {budget_s:g} s.") from error
        except BlockedAddressError as error:
            raise CallError(
                "blocked_address",
                f"{shown} is not at a public address, and the operator has not allowed it; nothing was sent.",
            ) from error
        except (httpcore2.NetworkError, httpcore2.ProtocolError, ssl.SSLError) as error:
            raise _unreached(error, shown) from error
        except ValueError as error:
            # The status of an HTTP/2 answer is read as a number without being looked at.
            raise CallError("connection", f"{shown} answered something that is not HTTP.") from error

    async def close(self) -> None:
        """Close all connections."""
        for line in (*self._lines.values(), *self._left):
            await line.pool.aclose()
        self._backend.close()

    @asynccontextmanager
    async def _line(self, endpoint: httpcore2.URL) -> AsyncGenerator[httpcore2.AsyncConnectionPool]:
        origin = (endpoint.scheme, endpoint.host.lower(), endpoint.port)
        line = self._lines.pop(origin, None) or _Line(self._new_pool())
        self._lines[origin] = line
        line.calls += 1
        try:
            yield line.pool
        except BaseException:
            if self._lines.get(origin) is line:
                self._left.append(self._lines.pop(origin))
            raise
        finally:
            line.calls -= 1
            line.used_at = time.monotonic()
            for unused in self._unused(line.used_at):
                await unused.pool.aclose()

    def _unused(self, now: float) -> list[_Line]:
        """Take out the lines that nobody calls over and that are not kept, those used longest ago first."""
        unused = [line for line in self._left if not line.calls]
        self._left = [line for line in self._left if line.calls]
        surplus = len(self._lines) - LINES_KEPT
        for origin, line in list(self._lines.items()):
            if line.calls:
                continue
            if surplus <= 0 and now - line.used_at < KEPT_S:
                break
            surplus -= 1
            unused.append(self._lines.pop(origin))
        return unused

    def _new_pool(self) -> httpcore2.AsyncConnectionPool:
        return httpcore2.AsyncConnectionPool(
            ssl_context=self._tls,
            http2=True,
            max_connections=None,
            keepalive_expiry=KEPT_S,
            network_backend=self._backend,
        )


async def _watch_failure(response: httpcore2.Response, shown: str, body: bytearray) -> None:
    """Read what comes with a status that is no answer, as far as it comes soon."""
    if response.status not in OK:
        with suppress(CallError, TimeoutError, httpcore2.NetworkError, httpcore2.ProtocolError):
            async with asyncio.timeout(FAILURE_BODY_S):
                await read_body(response, shown, body)


def _unreached(error: Exception, shown: str) -> CallError:
    kind: RaisedKind = "tls" if _is_tls(error) else "connection"
    cause = shortened(str(error)) or "the connection broke off"
    passing = kind == "connection" and not isinstance(error, httpcore2.LocalProtocolError)
    return CallError(kind, f"{shown} cannot be reached: {cause.rstrip('.')}.", passing=passing)


def _is_tls(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False

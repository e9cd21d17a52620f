"""One POST to an endpoint and what it answers, within a time for all of it."""

import asyncio
import ssl
from collections.abc import Sequence

import httpcore2

from assay.domain.outcome import RaisedKind
from assay.guarded_http.address_guard import AddressGuard, BlockedAddressError, GuardedBackend
from assay.guarded_http.answer import demand_success, read_body
from assay.guarded_http.failure import CallError
from assay.guarded_http.target import masked, shortened, target

HEADERS = [
    (b"Content-Type", b"application/json"),
    (b"Accept", b"application/json"),
    (b"Accept-Encoding", b"identity"),
    (b"User-Agent", b"Assay"),
]


class Exchange:
    """Posts over connections that are kept; proxies of the environment are not used, redirects not followed."""

    def __init__(self, guard: AddressGuard) -> None:
        self._backend = GuardedBackend(guard)
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=ssl.create_default_context(),
            max_connections=None,
            max_keepalive_connections=64,
            keepalive_expiry=5.0,
            network_backend=self._backend,
        )

    async def post(
        self, url: str, body: bytes, *, headers: Sequence[tuple[bytes, bytes]], left_s: float, budget_s: float
    ) -> bytes:
        """Return the body answered within `left_s`; raise CallError, whose message names the whole budget.

        The headers go along with those that say the body is JSON.
        """
        shown = masked(url)
        endpoint = target(url)
        try:
            async with asyncio.timeout(left_s):
                async with self._pool.stream("POST", endpoint, headers=[*HEADERS, *headers], content=body) as response:
                    demand_success(response, shown)
                    return await read_body(response, shown)
        except (TimeoutError, httpcore2.TimeoutException) as error:
            raise CallError("timeout", f"{shown} did not answer within {budget_s:g} s.") from error
        except BlockedAddressError as error:
            raise CallError(
                "blocked_address",
                f"{shown} is not at a public address, and the operator has not allowed it; nothing was sent.",
            ) from error
        except (httpcore2.NetworkError, httpcore2.ProtocolError, ssl.SSLError) as error:
            raise _unreached(error, shown) from error

    async def close(self) -> None:
        """Close all connections."""
        await self._pool.aclose()
        self._backend.close()


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

"""Calls the endpoints of external evaluators: one POST per call, its answer as the outcome."""

import asyncio
import ssl
import time
from collections.abc import Sequence
from weakref import WeakValueDictionary

import httpcore2

from assay.domain.evaluator import Revision
from assay.domain.json_value import JsonValue
from assay.domain.outcome import Call, Inspection, Limits, Outcome, Raised, RaisedKind, Returned
from assay.runners.webhook.address_guard import AddressGuard, BlockedAddressError, GuardedBackend
from assay.runners.webhook.answer import demand_success, json_of, read_body
from assay.runners.webhook.failure import CallError
from assay.runners.webhook.target import masked, shortened, target

AT_ONCE = 8
HEADERS = [
    (b"Content-Type", b"application/json"),
    (b"Accept", b"application/json"),
    (b"Accept-Encoding", b"identity"),
    (b"User-Agent", b"Assay"),
]


class WebhookRunner:
    """Runs external revisions over HTTP; proxies of the environment are not used, and redirects not followed.

    An endpoint (a URL without its query) has at most 8 calls at once, so that one that hangs takes nothing from others.
    """

    def __init__(self, guard: AddressGuard) -> None:
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._backend = GuardedBackend(guard)
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=ssl.create_default_context(),
            max_connections=None,
            max_keepalive_connections=64,
            keepalive_expiry=5.0,
            network_backend=self._backend,
        )

    @property
    def description(self) -> str:
        """Name the runner, as recorded on each check."""
        return "webhook"

    async def execute(self, revision: Revision, calls: Sequence[Call], limits: Limits) -> list[Outcome]:
        """Post each call's one argument; `limits.wall_s` is for a whole exchange, `limits.payload_bytes` for the body.

        Whatever the endpoint does comes back as an outcome, in the order given.
        """
        url = revision.url or ""
        turns = self._turns.setdefault(masked(url), asyncio.Semaphore(AT_ONCE))

        async def one(call: Call) -> Outcome:
            async with turns:
                return await self._outcome(url, call.arguments[0], limits)

        return list(await asyncio.gather(*(one(call) for call in calls)))

    async def inspect(self, language: str, source: str) -> Inspection:
        """Find nothing: an endpoint has no source."""
        return Inspection(names={})

    async def close(self) -> None:
        """Close all connections."""
        await self._pool.aclose()
        self._backend.close()

    async def _outcome(self, url: str, body: bytes, limits: Limits) -> Outcome:
        started = time.perf_counter()
        try:
            value = await self._exchange(url, body, limits)
        except CallError as error:
            return Raised(
                kind=error.kind, type=error.kind, message=str(error), duration_s=time.perf_counter() - started
            )
        return Returned(value=value, duration_s=time.perf_counter() - started)

    async def _exchange(self, url: str, body: bytes, limits: Limits) -> JsonValue:
        shown = masked(url)
        endpoint = target(url)
        if len(body) > limits.payload_bytes:
            raise CallError(
                "too_large", f"The trace has {len(body)} bytes as JSON; at most {limits.payload_bytes} are sent."
            )
        try:
            async with asyncio.timeout(limits.wall_s):
                async with self._pool.stream("POST", endpoint, headers=HEADERS, content=body) as response:
                    demand_success(response, shown)
                    answer = await read_body(response, shown)
        except (TimeoutError, httpcore2.TimeoutException) as error:
            raise CallError("timeout", f"{shown} did not answer within {limits.wall_s:g} s.") from error
        except BlockedAddressError as error:
            raise CallError(
                "blocked_address",
                f"{shown} is not at a public address, and the operator has not allowed it; nothing was sent.",
            ) from error
        except (httpcore2.NetworkError, httpcore2.ProtocolError, ssl.SSLError) as error:
            kind: RaisedKind = "tls" if _is_tls(error) else "connection"
            cause = shortened(str(error)) or "the connection broke off"
            raise CallError(kind, f"{shown} cannot be reached: {cause.rstrip('.')}.") from error
        return json_of(answer, shown)


def _is_tls(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False

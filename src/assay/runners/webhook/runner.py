"""Calls the endpoints of external evaluators: one POST per call, its answer as the outcome."""

import asyncio
import ssl
import time
from collections.abc import Sequence

import httpcore2
import httpx2
import msgspec

from assay.domain.evaluator import Revision
from assay.domain.json_value import JsonValue
from assay.domain.outcome import Call, Inspection, Limits, Outcome, Raised, RaisedKind, Returned
from assay.runners.webhook.address_guard import AddressGuard, BlockedAddressError, GuardedBackend

RESPONSE_BYTES = 1024 * 1024
AT_ONCE = 16
OK = range(200, 300)
REDIRECTS = range(300, 400)
HEADERS = [
    (b"Content-Type", b"application/json"),
    (b"Accept", b"application/json"),
    (b"Accept-Encoding", b"identity"),
    (b"User-Agent", b"Assay"),
]
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class CallError(Exception):
    """The exchange failed in a way the evaluator's author can mend."""

    def __init__(self, kind: RaisedKind, message: str) -> None:
        super().__init__(message)
        self.kind: RaisedKind = kind


class WebhookRunner:
    """Runs external revisions over HTTP; proxies of the environment are not used, and redirects not followed."""

    def __init__(self, guard: AddressGuard) -> None:
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=ssl.create_default_context(),
            max_connections=64,
            max_keepalive_connections=16,
            keepalive_expiry=5.0,
            network_backend=GuardedBackend(guard),
        )

    @property
    def description(self) -> str:
        """Name the runner, as recorded on each check."""
        return "webhook"

    async def execute(self, revision: Revision, calls: Sequence[Call], limits: Limits) -> list[Outcome]:
        """Post each call's one argument; `limits.wall_s` is for a whole exchange, `limits.payload_bytes` for the body.

        Whatever the endpoint does comes back as an outcome, in the order given.
        """
        turns = asyncio.Semaphore(AT_ONCE)

        async def one(call: Call) -> Outcome:
            async with turns:
                return await self._outcome(revision.url or "", call.arguments[0], limits)

        return list(await asyncio.gather(*(one(call) for call in calls)))

    async def inspect(self, language: str, source: str) -> Inspection:
        """Find nothing: an endpoint has no source."""
        return Inspection(names={})

    async def close(self) -> None:
        """Close all connections."""
        await self._pool.aclose()

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
        target = _target(url)
        shown = masked(url)
        if len(body) > limits.payload_bytes:
            raise CallError(
                "too_large", f"The trace has {len(body)} bytes as JSON; at most {limits.payload_bytes} are sent."
            )
        try:
            async with asyncio.timeout(limits.wall_s):
                async with self._pool.stream("POST", target, headers=HEADERS, content=body) as response:
                    _demand_success(response, shown)
                    answer = await _read(response, shown)
        except (TimeoutError, httpcore2.TimeoutException) as error:
            raise CallError("timeout", f"{shown} did not answer within {limits.wall_s:g} s.") from error
        except BlockedAddressError as error:
            raise CallError(
                "blocked_address",
                f"{shown} is not at a public address, and the operator has not allowed it; nothing was sent.",
            ) from error
        except (httpcore2.NetworkError, httpcore2.ProtocolError) as error:
            kind: RaisedKind = "tls" if _is_tls(error) else "connection"
            raise CallError(kind, f"{shown} cannot be reached: {error or type(error).__name__}.") from error
        try:
            return msgspec.json.decode(answer.removeprefix(BYTE_ORDER_MARK))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            found = answer[:60].decode("utf-8", "replace")
            raise CallError("not_json", f"{shown} answered something that is not JSON: {found!r}.") from error


def masked(url: str) -> str:
    """Return the URL as it may be shown: without its query, fragment and credentials, which can hold secrets."""
    address, query, _ = url.partition("#")[0].partition("?")
    scheme, separator, rest = address.partition("://")
    authority, slash, path = rest.partition("/")
    host = authority.rpartition("@")[2]
    return f"{scheme}{separator}{host}{slash}{path}" + ("?…" if query else "")


def _target(url: str) -> httpcore2.URL:
    try:
        parsed = httpx2.URL(url)
    except (httpx2.InvalidURL, ValueError) as error:
        raise CallError("connection", f"{masked(url)} is not a URL.") from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise CallError("connection", f"{masked(url)} is not an http or https URL with a host.")
    if parsed.userinfo:
        raise CallError(
            "blocked_address", f"{masked(url)} has credentials before its host; put a token in the query instead."
        )
    return httpcore2.URL(scheme=parsed.raw_scheme, host=parsed.raw_host, port=parsed.port, target=parsed.raw_path)


def _demand_success(response: httpcore2.Response, shown: str) -> None:
    if response.status in OK:
        return
    if response.status in REDIRECTS:
        where = next((value for name, value in response.headers if name.lower() == b"location"), b"nowhere")
        raise CallError(
            "redirect",
            f"{shown} answered {response.status} and points to {masked(where.decode('latin-1'))}; "
            "redirects are not followed, so give the final URL.",
        )
    raise CallError("http_status", f"{shown} answered {response.status}; only 2xx counts as an answer.")


async def _read(response: httpcore2.Response, shown: str) -> bytes:
    answer = bytearray()
    async for part in response.aiter_stream():
        answer += part
        if len(answer) > RESPONSE_BYTES:
            raise CallError("too_large", f"{shown} answered more than {RESPONSE_BYTES} bytes, which is the limit.")
    return bytes(answer)


def _is_tls(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False

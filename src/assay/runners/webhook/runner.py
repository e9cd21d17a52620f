"""Calls the endpoints of external evaluators: one POST per call, repeated where that may help."""

import asyncio
import random
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

import stamina

from assay.domain.credentials import Credentials, SealedCredentials, credentials_of, redacted, vault_place
from assay.domain.evaluator import Revision
from assay.domain.json_value import JsonValue
from assay.domain.outcome import Call, HttpAnswer, Inspection, Limits, Outcome, Raised, Returned, Unavailable
from assay.domain.url import origin
from assay.errors import SecretUnreadableError
from assay.guarded_http.address_guard import AddressGuard
from assay.guarded_http.answer import RESPONSE_BYTES, json_of
from assay.guarded_http.exchange import Exchange, Seen
from assay.guarded_http.failure import CallError
from assay.guarded_http.target import masked
from assay.runners.webhook.breaker import Breaker
from assay.runners.webhook.headers import headers_of
from assay.vault import Vault

ATTEMPTS = 3
FIRST_WAIT_S = 0.2
PATIENCE_S = 3600.0
ENDPOINTS_KNOWN = 10_000
CHECKS_KNOWN = 100_000
HEADERS_SHOWN = frozenset(
    {"content-encoding", "content-length", "content-type", "date", "location", "retry-after", "server"}
    | {"www-authenticate", "x-request-id"}
)
"""What helps to mend an endpoint; cookies and the like do not."""


@dataclass(slots=True)
class _Endpoint:
    turns: asyncio.Semaphore
    breaker: Breaker = field(default_factory=Breaker)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pending:
    """A check that will be delivered again: its first delivery, in monotonic seconds, and the attempts made."""

    since: float
    attempts: int = 0


class WebhookRunner:
    """Runs external revisions over HTTP.

    An endpoint (a URL without its query) has at most `at_once` calls at a time, so that one that hangs takes nothing
    from others, and a breaker. A failure that may pass is tried again, up to three attempts in all: at once while half
    of the budget is left, then when the check is delivered again. Waiting for an endpoint that is left alone is no
    attempt; a check does so for `patience_s` seconds. By its key a check is known to have had its attempts or its wait.
    """

    def __init__(self, guard: AddressGuard, vault: Vault, *, at_once: int = 8, patience_s: float = PATIENCE_S) -> None:
        self._vault = vault
        self._at_once = at_once
        self._patience_s = patience_s
        self._exchange = Exchange(guard)
        self._endpoints: dict[str, _Endpoint] = {}
        self._pending: dict[str, _Pending] = {}

    @property
    def description(self) -> str:
        """Name the runner, as recorded on each check."""
        return "webhook"

    async def execute(self, revision: Revision, calls: Sequence[Call], limits: Limits) -> list[Outcome]:
        """Post each call's one argument; `limits.wall_s` is for all attempts, `limits.payload_bytes` for the body.

        Whatever the endpoint does comes back as an outcome, in the order given. An evaluator not saved yet (an empty
        id) is tried once, whatever the breaker says, and its outcome tells what was answered.
        """
        url = revision.url or ""
        endpoint = self._endpoint(masked(url))

        async def one(call: Call) -> Outcome:
            async with endpoint.turns:
                try:
                    credentials = self._opened(revision, call.credentials)
                except SecretUnreadableError as error:
                    return Raised(kind="credentials", type="credentials", message=str(error))
                delivery = _Delivery(self._exchange, endpoint.breaker, url, call, limits, credentials)
                if revision.evaluator_id == "":
                    return await self._draft_outcome(delivery)
                return await self._outcome(delivery, call.key)

        return list(await asyncio.gather(*(one(call) for call in calls)))

    async def inspect(self, language: str, source: str, project_id: str = "") -> Inspection:
        """Find nothing: an endpoint has no source."""
        return Inspection(names={})

    async def close(self) -> None:
        """Close all connections."""
        await self._exchange.close()

    def _endpoint(self, shown: str) -> _Endpoint:
        endpoint = self._endpoints.pop(shown, None) or _Endpoint(asyncio.Semaphore(self._at_once))
        self._endpoints[shown] = endpoint
        _forget_oldest(self._endpoints, ENDPOINTS_KNOWN)
        return endpoint

    def _opened(self, revision: Revision, sealed: SealedCredentials | None) -> Credentials:
        """Open the credentials, which go to the origin they were given for and nowhere else."""
        if sealed is None:
            return Credentials()
        where = origin(revision.url or "")
        if sealed.origin != where:
            raise SecretUnreadableError(
                f"The evaluator's headers and secrets were given for {sealed.origin}, and this revision posts to "
                f"{where}; nothing was sent."
            )
        return credentials_of(self._vault.open(sealed.sealed, place=vault_place(revision.project_id, where)))

    async def _draft_outcome(self, delivery: "_Delivery") -> Outcome:
        seen = Seen()
        try:
            value = await delivery.once(seen)
        except CallError as error:
            return Raised(
                kind=error.kind,
                type=error.kind,
                message=str(error),
                duration_s=time.monotonic() - seen.started,
                answer=delivery.answer_of(seen),
            )
        return Returned(value=value, duration_s=time.monotonic() - seen.started, answer=delivery.answer_of(seen))

    async def _outcome(self, delivery: "_Delivery", key: str | None) -> Outcome:
        started = time.monotonic()
        before = (self._pending.pop(key, None) if key is not None else None) or _Pending(since=started)
        try:
            value = await delivery.patiently(ATTEMPTS - before.attempts)
        except CallError as error:
            now = time.monotonic()
            attempts = before.attempts + delivery.attempts
            was_refused = delivery.attempts == 0
            waited_s = now - before.since
            waits_on = attempts < ATTEMPTS and not (was_refused and waited_s > self._patience_s)
            if error.passing and key is not None and waits_on:
                self._pending[key] = _Pending(since=before.since, attempts=attempts)
                _forget_oldest(self._pending, CHECKS_KNOWN)
                return Unavailable(cause=str(error), after_s=error.retry_after_s or 0.0, duration_s=now - started)
            message = f"{error} It was tried {attempts} times." if attempts > 1 else str(error)
            if was_refused and waited_s > self._patience_s:
                message += f" The check waited for {waited_s:.0f} s."
            return Raised(kind=error.kind, type=error.kind, message=message, duration_s=now - started)
        return Returned(value=value, duration_s=time.monotonic() - started)


class _Delivery:
    """One call on its way, within its budget; `attempts` counts those made."""

    def __init__(
        self,
        exchange: Exchange,
        breaker: Breaker,
        url: str,
        call: Call,
        limits: Limits,
        credentials: Credentials,
    ) -> None:
        self.attempts = 0
        self._credentials = credentials
        self._exchange = exchange
        self._breaker = breaker
        self._url = url
        self._body = call.arguments[0]
        self._key = call.key or uuid.uuid4().hex
        self._limits = limits
        self._ends = time.monotonic() + limits.wall_s
        self._last_start = self._ends - limits.wall_s / 2

    async def once(self, seen: Seen | None = None) -> JsonValue:
        """Make one attempt; raise CallError. `seen` is told all that was answered."""
        self._demand_size()
        self.attempts += 1
        try:
            answer = await self._exchange.post(
                self._url,
                self._body,
                headers=headers_of(self._credentials, self._key, self._body),
                left_s=self._ends - time.monotonic(),
                budget_s=self._limits.wall_s,
                seen=seen,
            )
            value = json_of(redacted(answer, self._credentials), masked(self._url))
        except CallError as error:
            if error.passing or error.kind == "timeout":
                self._breaker.failed(error, time.monotonic())
            else:
                self._breaker.answered()
            raise
        self._breaker.answered()
        return value

    def answer_of(self, seen: Seen) -> HttpAnswer | None:
        """Return what was seen of an answer, fit to be shown; None where there was none."""
        if seen.status is None:
            return None
        return HttpAnswer(
            version=seen.version,
            status=seen.status,
            headers=tuple(
                (name.lower(), self._shown(value.encode("latin-1")))
                for name, value in seen.headers
                if name.lower() in HEADERS_SHOWN
            ),
            body=self._shown(bytes(seen.body[:RESPONSE_BYTES])),
            headers_s=seen.headers_at - seen.started,
            duration_s=time.monotonic() - seen.started,
        )

    def _shown(self, text: bytes) -> str:
        return redacted(text, self._credentials).decode("utf-8", "replace")

    async def patiently(self, attempts: int) -> JsonValue:
        """Make so many attempts, as far as the budget allows; raise the last one's CallError."""
        async for attempt in stamina.retry_context(on=self._wait_s, attempts=attempts, timeout=None):
            with attempt:
                await self._admitted()
                return await self.once()
        raise AssertionError("an attempt returns or raises")

    def _demand_size(self) -> None:
        most = self._limits.payload_bytes
        if len(self._body) > most:
            raise CallError("too_large", f"The trace has {len(self._body)} bytes as JSON; at most {most} are sent.")

    def _wait_s(self, error: Exception) -> float | bool:
        """Return how long to wait before the next attempt, in seconds; False when there is none within the budget."""
        if not isinstance(error, CallError) or not error.passing:
            return False
        wait_s = error.retry_after_s
        if wait_s is None:
            wait_s = FIRST_WAIT_S * 2.0 ** (self.attempts - 1) * random.uniform(0.5, 1.0)
        return wait_s if self._fits(wait_s) else False

    def _fits(self, wait_s: float) -> bool:
        return time.monotonic() + wait_s <= self._last_start

    async def _admitted(self) -> None:
        """Wait until the breaker lets this call through; raise the failure that opened it when that takes too long."""
        while wait_s := self._breaker.delay_s(time.monotonic(), probe_s=self._limits.wall_s):
            if not self._fits(wait_s):
                raise self._refused(wait_s)
            await asyncio.sleep(wait_s)

    def _refused(self, wait_s: float) -> CallError:
        shown, last = masked(self._url), self._breaker.last
        return CallError(
            last.kind if last is not None else "connection",
            f"{shown} was left alone after it failed; the last failure was: {last}",
            passing=True,
            retry_after_s=wait_s,
        )


def _forget_oldest(known: dict[str, _Endpoint] | dict[str, _Pending], most: int) -> None:
    while len(known) > most:
        del known[next(iter(known))]

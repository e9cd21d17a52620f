"""A real endpoint on a loopback socket that behaves as a test says, and counts who came."""

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self, TypeAlias

from assay.domain.evaluator import Revision
from assay.domain.outcome import Call, Limits, Outcome, Raised, Returned
from assay.guarded_http.address_guard import AddressGuard
from assay.runners.webhook.runner import WebhookRunner
from assay.testing import a_revision
from support.notifications import VAULT

LOOPBACK = ("127.0.0.0/8", "::1/128")
MATCHES = b'{"matches": true}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What came, as bytes off the wire."""

    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Behaviour: TypeAlias = Callable[[Request, asyncio.StreamWriter], Awaitable[None]]


class Endpoint:
    """Serves until the block ends; every request is remembered, and each is answered by `behaviour`."""

    def __init__(self, behaviour: Behaviour, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> None:
        self.connections = 0
        self.requests: list[Request] = []
        self.at_once = 0
        self.most_at_once = 0
        self.port = 0
        self._behaviour = behaviour
        self._host = host
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://{self._host}:{self.port}/score"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, self._host, 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError, ssl.SSLError):
            while not writer.is_closing():
                request = await _read(reader)
                self.requests.append(request)
                self.at_once += 1
                self.most_at_once = max(self.most_at_once, self.at_once)
                try:
                    await self._behaviour(request, writer)
                    await writer.drain()
                finally:
                    self.at_once -= 1
        writer.close()


async def _read(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    line, *fields = head.rstrip().split("\r\n")
    headers = {name.lower(): value for name, _, value in (field.partition(": ") for field in fields)}
    return Request(line=line, headers=headers, body=await reader.readexactly(int(headers["content-length"])))


def answering(body: bytes = MATCHES, *, status: int = 200, **headers: str) -> Behaviour:
    """Answer every request like this; an underscore in a header's name stands for a dash."""
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return sending(f"HTTP/1.1 {status} Whatever\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)


def sending(raw: bytes, *, closing: bool = False) -> Behaviour:
    """Write these bytes, whatever they are."""

    async def behave(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(raw)
        if closing:
            await writer.drain()
            writer.close()

    return behave


def dripping(raw: bytes, drop: bytes, *, every_s: float = 0.01) -> Behaviour:
    """Write these bytes and then a drop now and again, without end."""

    async def behave(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(raw)
        while True:
            writer.write(drop)
            await writer.drain()
            await asyncio.sleep(every_s)

    return behave


async def silent(_: Request, __: asyncio.StreamWriter) -> None:
    """Never answer."""
    await asyncio.Event().wait()


def in_turn(*behaviours: Behaviour) -> Behaviour:
    """Behave like each of these once, and then like the last."""
    waiting = list(behaviours)

    async def behave(request: Request, writer: asyncio.StreamWriter) -> None:
        behaviour = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        await behaviour(request, writer)

    return behave


def external(url: str, *, raise_when: bool = True, evaluator_id: str = "evl_1") -> Revision:
    """Return a revision of an external evaluator; without an id it is a draft, which is tried only once."""
    return replace(
        a_revision(evaluator_id=evaluator_id),
        kind="external",
        language=None,
        interface=None,
        source=None,
        url=url,
        raise_when=raise_when,
    )


async def outcomes_of(
    url: str,
    *bodies: bytes,
    allow: tuple[str, ...] = LOOPBACK,
    limits: Limits | None = None,
) -> list[Outcome]:
    """Return what came of posting these bodies (one, when none is given) with a runner of their own, each once."""
    runner = WebhookRunner(AddressGuard(allow), VAULT)
    try:
        calls = [Call(arguments=(body,)) for body in bodies or (b"{}",)]
        return await runner.execute(external(url, evaluator_id=""), calls, limits or Limits())
    finally:
        await runner.close()


async def returned_by(url: str, **options: Any) -> Any:
    (outcome,) = await outcomes_of(url, **options)
    assert isinstance(outcome, Returned), outcome
    return outcome.value


async def failure_of(url: str, **options: Any) -> Raised:
    (outcome,) = await outcomes_of(url, **options)
    assert isinstance(outcome, Raised), outcome
    return outcome

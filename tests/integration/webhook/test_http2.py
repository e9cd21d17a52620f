"""Endpoints that speak HTTP/2, over TLS as real ones do."""

import asyncio
import json
import socket
import ssl
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypercorn.asyncio import serve  # pyright: ignore[reportUnknownVariableType]
from hypercorn.config import Config, Sockets

from assay.domain.outcome import Call, Limits, Outcome, Raised, Returned
from assay.guarded_http.address_guard import AddressGuard
from assay.runners.webhook.runner import WebhookRunner
from support.endpoint import LOOPBACK, MATCHES, Endpoint, answering, external
from support.notifications import VAULT

CERTIFICATE = Path(__file__).parent / "loopback.pem"
MEBIBYTE = 1024 * 1024

Answer = Callable[[str, Callable[[dict[str, Any]], Awaitable[None]]], Awaitable[None]]
pytestmark = pytest.mark.usefixtures("trusting")


@pytest.fixture
def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))


class Http2Endpoint:
    """Counts the connections and remembers the requests; `answer` is given the path and the ASGI send."""

    def __init__(self, answer: Answer) -> None:
        self.requests: list[dict[str, Any]] = []
        self.calls_by_connection: Counter[Any] = Counter()
        self.url = ""
        self._answer = answer

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.requests.append({"version": scope["http_version"], "headers": headers, "body": body})
        self.calls_by_connection[scope["client"]] += 1
        await self._answer(scope["path"], send)


async def answered(send: Any, body: bytes = MATCHES, status: int = 200) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": body})


class BoundConfig(Config):
    """Takes sockets that are bound already, so that nobody else gets the port."""

    bound: Sockets

    def create_sockets(self) -> Sockets:
        return self.bound


@asynccontextmanager
async def serving(answer: Answer) -> AsyncGenerator[Http2Endpoint]:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    endpoint = Http2Endpoint(answer)
    endpoint.url = f"https://127.0.0.1:{listener.getsockname()[1]}"
    config = BoundConfig()
    config.certfile = config.keyfile = str(CERTIFICATE)
    config.bound = Sockets([listener], [], [])
    config.graceful_timeout = 0.1
    config.accesslog = config.errorlog = None
    told = asyncio.Event()
    task = asyncio.create_task(serve(endpoint, config, shutdown_trigger=told.wait))  # pyright: ignore[reportArgumentType]
    try:
        yield endpoint
    finally:
        told.set()
        await task


@asynccontextmanager
async def running(allow: tuple[str, ...] = LOOPBACK) -> AsyncGenerator[WebhookRunner]:
    runner = WebhookRunner(AddressGuard(allow), VAULT)
    try:
        yield runner
    finally:
        await runner.close()


async def posted(runner: WebhookRunner, url: str, calls: int = 1, wall_s: float = 8.0) -> list[Outcome]:
    bodies = [Call(arguments=(json.dumps(number).encode(),), key=f"chk_{number}") for number in range(calls)]
    return await runner.execute(external(url), bodies, Limits(wall_s=wall_s))


async def test_many_calls_go_over_one_connection_at_once_and_one_after_the_other() -> None:
    at_once, all_here = 0, asyncio.Event()

    async def together(path: str, send: Any) -> None:
        nonlocal at_once
        at_once += 1
        if at_once == 8:
            all_here.set()
        await asyncio.wait_for(all_here.wait(), 20)
        await answered(send)

    async with serving(together) as endpoint, running() as runner:
        first = await posted(runner, endpoint.url, 8)
        second = await posted(runner, endpoint.url, 20)
    assert all(isinstance(outcome, Returned) for outcome in [*first, *second])
    assert {request["version"] for request in endpoint.requests} == {"2"}
    assert list(endpoint.calls_by_connection.values()) == [28]
    request = endpoint.requests[0]
    assert request["headers"]["assay-schema-version"] == "2"
    assert request["headers"]["idempotency-key"].startswith("chk_")
    assert sorted(json.loads(request["body"]) for request in endpoint.requests[:8]) == list(range(8))


async def test_a_denied_address_is_not_connected_to_in_http_2_either() -> None:
    async with serving(lambda _, send: answered(send)) as endpoint, running(allow=()) as runner:
        (outcome,) = await posted(runner, endpoint.url)
        assert isinstance(outcome, Raised)
        assert outcome.kind == "blocked_address"
        assert endpoint.requests == []
        async with running() as allowed:
            assert isinstance((await posted(allowed, endpoint.url))[0], Returned)


async def test_the_certificate_is_looked_at_in_http_2_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    async with serving(lambda _, send: answered(send)) as endpoint, running() as runner:
        (outcome,) = await posted(runner, endpoint.url)
    assert isinstance(outcome, Raised)
    assert outcome.kind == "tls"
    assert endpoint.requests == []


async def test_answers_that_are_left_half_read_take_nothing_from_the_calls_that_follow() -> None:
    """More of them than the window of one connection holds."""

    async def by_path(path: str, send: Any) -> None:
        await answered(send, b" " * (12 * MEBIBYTE) if path == "/large" else MATCHES)

    async with serving(by_path) as endpoint, running() as runner:
        for _ in range(4):
            (outcome,) = await posted(runner, f"{endpoint.url}/large")
            assert isinstance(outcome, Raised)
            assert outcome.kind == "too_large"
        (outcome,) = await posted(runner, f"{endpoint.url}/small")
    assert isinstance(outcome, Returned), outcome


async def test_a_call_that_times_out_leaves_those_beside_it_on_the_connection_alone() -> None:
    given_up, slow_is_here = asyncio.Event(), asyncio.Event()

    async def by_path(path: str, send: Any) -> None:
        if path == "/hangs":
            await asyncio.Event().wait()
        if path == "/slow":
            slow_is_here.set()
            await given_up.wait()
        await answered(send)

    async with serving(by_path) as endpoint, running() as runner:
        await posted(runner, f"{endpoint.url}/quick")
        slow = asyncio.create_task(posted(runner, f"{endpoint.url}/slow", wall_s=60))
        await slow_is_here.wait()
        (hung,) = await posted(runner, f"{endpoint.url}/hangs", wall_s=0.3)
        assert isinstance(hung, Raised)
        assert hung.kind == "timeout"
        assert isinstance((await posted(runner, f"{endpoint.url}/quick"))[0], Returned)
        given_up.set()
        assert isinstance((await slow)[0], Returned)
    assert list(endpoint.calls_by_connection.values()) == [3, 1]


async def test_a_server_that_speaks_http_1_only_is_served_too() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    context.set_alpn_protocols(["http/1.1"])

    async with Endpoint(answering(), tls=context) as endpoint, running() as runner:
        assert all(isinstance(outcome, Returned) for outcome in await posted(runner, endpoint.url, 20))
    assert endpoint.connections <= 8

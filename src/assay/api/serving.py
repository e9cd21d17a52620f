"""The HTTP server: its socket, its signals, and how long it waits for slow clients."""

import asyncio
import contextlib
import resource
import signal
import socket
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from assay.errors import ConfigurationError

WAITING_CONNECTIONS = 2048
HEADERS_S = 15.0
"""From a connection, or the end of its last request's grace, to the end of a request's headers."""
BODY_S = 120.0
GRACE_S = 5


class PatientProtocol(HttpToolsProtocol):
    """HTTP/1.1, with a bound on how long a client may take over its headers and its body."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for headers."""
        super().connection_made(transport)
        self._wait(HEADERS_S)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._wait(None)
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Wait for the rest of the headers."""
        self._wait(HEADERS_S)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Wait for the body."""
        self._wait(BODY_S)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Stop waiting: what comes next is ours to do."""
        self._wait(None)
        super().on_message_complete()

    def _wait(self, seconds: float | None) -> None:
        if self._patience is not None:
            self._patience.cancel()
        self._patience = None if seconds is None else self.loop.call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        self._patience = None
        if not self.transport.is_closing():
            self.transport.abort()


class ApiServer(uvicorn.Server):
    """Uvicorn, whose signals are ours: it would raise them again after its end, in the middle of our clean-up."""

    def __init__(self, application: FastAPI) -> None:
        super().__init__(
            uvicorn.Config(
                application,
                http=PatientProtocol,
                ws="none",
                log_config=None,
                access_log=False,
                lifespan="off",
                backlog=WAITING_CONNECTIONS,
                server_header=False,
                timeout_graceful_shutdown=GRACE_S,
            )
        )
        self._told = asyncio.Event()
        self._application = application

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signals alone."""
        yield

    @contextmanager
    def told_to_stop(self) -> Generator[asyncio.Event]:
        """Stop at SIGINT and SIGTERM while the block runs; the event is set then. A second signal drops requests."""
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGINT, signal.SIGTERM)
        for number in numbers:
            loop.add_signal_handler(number, self._stop)
        try:
            yield self._told
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    def _stop(self) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True
        self._application.state.streams.end()
        self._told.set()


def raise_descriptor_limit() -> None:
    """Allow as many connections as the system lets us: the usual 1,024 are soon held by idle ones."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def listen(host: str, port: int) -> socket.socket:
    """Return a bound socket. Raises ConfigurationError when the address is not ours or is taken."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigurationError(
            f"Cannot listen on {host!r}: {error.strerror}. ASSAY_HOST must be an address of this machine."
        ) from error
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise ConfigurationError(
            f"Cannot listen on {host}:{port}: {error.strerror}. Choose another address or port with --host and --port."
        ) from error
    return listener


def shown_url(listener: socket.socket) -> str:
    """Return the URL under which a listening socket is reached."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"

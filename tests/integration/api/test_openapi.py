# pyright: basic
"""The OpenAPI document is true: generated requests are answered as it says, and never with a failure of ours."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import schemathesis
import uvicorn
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from support.api import key, running_api

CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance, status_code_conformance]
EXAMPLES = settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve the application on a free port, in a loop of its own."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    path = tmp_path_factory.mktemp("openapi") / "assay.db"
    serving = Serving(path, listener)
    serving.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    serving.stop()


class Serving(threading.Thread):
    def __init__(self, path: Path, listener: socket.socket) -> None:
        super().__init__(daemon=True)
        self._path = path
        self._listener = listener
        self._ready = threading.Event()
        self._server: uvicorn.Server | None = None

    def start(self) -> None:
        super().start()
        assert self._ready.wait(30)

    def run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        async with running_api(f"sqlite:///{self._path}") as api:
            # A stream would last.
            api.app.state.streams.end()
            self._server = uvicorn.Server(uvicorn.Config(api.app, log_config=None, lifespan="off"))
            self._ready.set()
            await self._server.serve(sockets=[self._listener])

    def stop(self) -> None:
        assert self._server is not None
        self._server.should_exit = True
        self.join(30)


def test_generated_requests_are_answered_as_documented(served: str) -> None:
    headers = {"x-api-key": key("admin")}
    document = schemathesis.openapi.from_url(f"{served}/openapi.json")
    tried: list[str] = []
    for found in document.get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()
        tried.append(operation.label)

        @EXAMPLES
        @given(operation.as_strategy())
        def is_answered_as_documented(case: schemathesis.Case) -> None:
            case.call_and_validate(headers=headers, checks=CHECKS, timeout=20)

        is_answered_as_documented()
    assert len(tried) > 20

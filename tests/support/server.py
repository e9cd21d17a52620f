"""A real `assay serve` process on a free loopback port."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2

ADMIN_KEY = "test-admin-key-0123456789"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """Starts, stops and kills one server over one data folder; the port stays the same across restarts."""

    def __init__(self, data_dir: Path, **settings: str) -> None:
        self.data_dir = data_dir
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.client = httpx2.Client(base_url=self.url, headers={"x-api-key": ADMIN_KEY}, timeout=30)
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        log = (self.data_dir / "server.log").open("ab")
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "assay.cli.main",
                "serve",
                "--port",
                str(self.port),
                "--data-dir",
                str(self.data_dir),
            ],
            stdout=log,
            stderr=log,
            env={**os.environ, "ASSAY_ADMIN_KEY": ADMIN_KEY, "ASSAY_SETTLE_S": "0.2", **self._settings},
        )
        log.close()
        wait_for(self._is_ready, "the server to be ready", 60)
        return self

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        return self._process.wait(timeout=30)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        return (self.data_dir / "server.log").read_text(errors="replace")

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log[-4000:]
        try:
            return self.client.get("/readyz").is_success
        except httpx2.TransportError:
            return False

    def get(self, path: str, **parameters: Any) -> Any:
        answer = self.client.get(path, params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def create_evaluator(self, **fields: Any) -> str:
        body = {"name": "check", "kind": "code", "language": "python", "sampleRate": 1, **fields}
        answer = self.client.post("/agent-monitoring/custom-evaluators", json=body)
        assert answer.status_code == 201, answer.text
        return answer.json()["id"]

    def events(self, evaluator_id: str, **parameters: Any) -> list[dict[str, Any]]:
        """Return the whole history, page by page."""
        found: list[dict[str, Any]] = []
        cursor: dict[str, str] = {}
        while True:
            page = self.get(
                f"/agent-monitoring/custom-evaluators/{evaluator_id}/events", limit=200, **parameters, **cursor
            )
            found += page["events"]
            if not page["nextCursor"]:
                return found
            cursor = {"cursor": page["nextCursor"]}

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()
        self.client.close()


def wait_for(condition: Any, what: str, timeout_s: float = 20) -> Any:
    """Return the condition's first true value."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.05)
    raise AssertionError(f"waited {timeout_s} s for {what}")

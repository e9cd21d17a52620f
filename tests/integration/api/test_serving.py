"""The real server process under clients that take their time, and a disk that is full."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from assay.api import serving
from support.server import Server, wait_for


def test_a_client_that_never_ends_its_headers_is_hung_up_on(tmp_path: Path) -> None:
    with Server(tmp_path) as server, socket.create_connection(("127.0.0.1", server.port)) as slow:
        slow.sendall(b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nX-A: ")
        slow.settimeout(serving.HEADERS_S + 15)
        began = time.monotonic()
        assert slow.recv(100) == b""
        assert time.monotonic() - began > serving.HEADERS_S / 2
        assert server.get("/readyz") == {"status": "ok"}


def test_more_idle_connections_than_the_usual_limit_shut_nobody_out(tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(900)]
        try:
            limits = Path(f"/proc/{server.pid}/limits").read_text()
            soft, hard = next(line for line in limits.splitlines() if line.startswith("Max open files")).split()[3:5]
            assert soft == hard
            assert server.get("/healthz") == {"status": "ok"}
        finally:
            for connection in idle:
                connection.close()


def test_the_server_stops_in_its_grace_though_a_client_dawdles(tmp_path: Path) -> None:
    with Server(tmp_path) as server, socket.create_connection(("127.0.0.1", server.port)) as slow:
        slow.sendall(b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc")
        time.sleep(0.3)
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < 2 * serving.GRACE_S
        assert "Traceback" not in server.log


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", folder], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a small disk here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=False)


def test_a_full_disk_is_answered_with_503_and_loses_nothing_that_was_accepted(small_disk: Path) -> None:
    server = Server(small_disk)
    with server:
        accepted: list[str] = []
        statuses: set[int] = set()
        for number in range(200):
            trace = {"trace_id": f"t{number}", "spans": [{"name": "s", "output": "x" * 200_000}]}
            answer = server.client.post("/api/v1/traces", json=trace)
            statuses.add(answer.status_code)
            if answer.is_success:
                accepted.append(f"t{number}")
            elif answer.status_code == 503:
                assert answer.headers["retry-after"]
                assert answer.json()["code"] == "store-unavailable"
                break
        assert statuses == {201, 503}
        assert server.client.get("/readyz").status_code == 503
        wait_for(lambda: server.client.get("/healthz").is_success, "the server to live")
        for trace_id in accepted:
            assert server.get(f"/api/v1/traces/{trace_id}")["trace"]["id"] == trace_id


def test_the_data_is_for_the_servers_user_alone(tmp_path: Path) -> None:
    with Server(tmp_path):
        modes = {path.stat().st_mode & 0o777 for path in tmp_path.glob("assay.db*")}
    assert modes == {0o600}

"""`assay demo`: a server of its own with two evaluators and traffic to check."""

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import httpx2
import typer
from rich.console import Console
from rich.live import Live

from assay.cli.demo_board import draw, read_board, where_to_look
from assay.errors import AssayError, ConfigurationError

START_S = 30.0
EVALUATORS: tuple[dict[str, Any], ...] = (
    {"name": "promises a refund", "sample": "promises_a_refund.py", "severity": "high"},
    {"name": "answers in time", "sample": "answers_in_time.py", "severity": "medium"},
)


def demo(
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 4700,
    data_dir: Annotated[Path, typer.Option(help="Folder of the demo's data.")] = Path("demo-data"),
) -> None:
    """Start a server with example evaluators, send it traces, and show what happens. Ctrl-C stops it."""
    try:
        from assay.cli.demo_traffic import Traffic
    except ModuleNotFoundError as error:
        raise ConfigurationError("The demo needs the OpenTelemetry SDK: install assay[demo].") from error
    _demand_free(port)
    data_dir.mkdir(parents=True, exist_ok=True)
    key = _key(data_dir / "admin.key")
    url = f"http://127.0.0.1:{port}"
    log_path = data_dir / "server.log"
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    server = _start_server(port, data_dir, key, log_path)
    traffic = None
    try:
        with httpx2.Client(base_url=url, headers={"x-api-key": key}, timeout=10) as client:
            _wait_until_ready(client, server, log_path)
            names = _put_evaluators(client)
            traffic = Traffic(url, key)
            traffic.start()
            _show(client, server, url=url, key=key, names=names, log=str(log_path))
    except KeyboardInterrupt:
        print("\nStopping; the data stays in", data_dir)
    finally:
        if traffic is not None:
            traffic.stop()
        server.terminate()
        try:
            server.wait(timeout=15)
        except subprocess.TimeoutExpired:
            server.kill()


def _demand_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise ConfigurationError(
                f"Cannot listen on 127.0.0.1:{port}: {error.strerror}. Choose another port with --port."
            ) from error


def _key(path: Path) -> str:
    """Return the demo's admin key, kept beside its data for the next start."""
    if not path.exists():
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(f"assay_{secrets.token_urlsafe(32)}")
    return path.read_text().strip()


def _start_server(port: int, data_dir: Path, key: str, log_path: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "assay.cli.main", "serve", "--port", str(port), "--data-dir", str(data_dir)]
    with log_path.open("ab") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "ASSAY_ADMIN_KEY": key, "ASSAY_HOST": "127.0.0.1"},
            start_new_session=True,
        )


def _wait_until_ready(client: httpx2.Client, server: subprocess.Popen[bytes], log_path: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if server.poll() is not None:
            last = log_path.read_text(errors="replace").strip().splitlines()[-3:]
            raise AssayError(f"The server did not start (see {log_path}): {' '.join(last)}")
        try:
            if client.get("/readyz").is_success:
                return
        except httpx2.TransportError:
            pass
        time.sleep(0.1)
    raise AssayError(f"The server was not ready within {START_S:.0f} s; see {log_path}.")


def _put_evaluators(client: httpx2.Client) -> dict[str, str]:
    """Make the example evaluators that are not there yet; return the names of all by id."""
    path = "/agent-monitoring/custom-evaluators"
    known = {item["name"] for item in client.get(path).raise_for_status().json()["evaluators"]}
    for example in EVALUATORS:
        if example["name"] in known:
            continue
        script = resources.files("assay.cli.samples").joinpath(example["sample"]).read_text(encoding="utf-8")
        body = {"kind": "code", "language": "python", "script": script, "sampleRate": 1}
        answer = client.post(path, json={**body, "name": example["name"], "severity": example["severity"]})
        if answer.is_error:
            raise AssayError(f"The example {example['name']!r} was refused: {answer.text}")
    return {item["id"]: item["name"] for item in client.get(path).raise_for_status().json()["evaluators"]}


def _show(
    client: httpx2.Client, server: subprocess.Popen[bytes], *, url: str, key: str, names: dict[str, str], log: str
) -> None:
    console = Console()
    console.print(where_to_look(url=url, key=key, log=log), soft_wrap=True)
    if not console.is_terminal:
        while server.poll() is None:
            time.sleep(1)
            console.print(read_board(client).line)
    with Live(console=console, refresh_per_second=4) as live:
        while server.poll() is None:
            live.update(draw(read_board(client), url=url, names=names))
            time.sleep(1)
    raise AssayError(f"The server stopped by itself; see {log}.")

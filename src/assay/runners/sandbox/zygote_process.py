"""One zygote as the server sees it: started, asked to fork, told to kill, and replaced when it does not answer."""

import asyncio
import contextlib
import mmap
import os
import signal
import socket
import subprocess
from typing import IO

from assay.errors import SandboxUnavailableError
from assay.runners.sandbox import frames
from assay.runners.sandbox.launch import Rung, shared_memory, zygote_command

START_S = 15.0
SILENCE_S = 2.0


class ZygoteLostError(Exception):
    """The zygote died or fell silent: start another and try again."""


class ZygoteProcess:
    """A running zygote with its control socket and the memory its children report in."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket, shared: mmap.mmap) -> None:
        self._process = process
        self._control = control
        self._shared = shared

    @classmethod
    async def start(cls, rung: Rung) -> "ZygoteProcess":
        """Start a zygote and wait until it is ready. Raises SandboxUnavailableError with what it said.

        It is started from the event loop's thread, since it is killed when the thread that started it ends.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        descriptor = shared_memory()
        with theirs:
            process = subprocess.Popen(  # noqa: ASYNC220 - must be this thread's child
                zygote_command(rung, theirs.fileno(), descriptor),
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={}, cwd="/",
                pass_fds=(theirs.fileno(), descriptor), start_new_session=not rung.namespaces,
            )  # fmt: skip
        shared = mmap.mmap(descriptor, frames.SHARED_BYTES)
        os.close(descriptor)
        ours.setblocking(False)
        zygote = cls(process, ours, shared)
        try:
            message = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(ours, 64), START_S)
        except TimeoutError:
            message = b""
        if message != frames.CONTROL_READY:
            said = zygote.stop()
            raise SandboxUnavailableError(f"the sandbox process did not start: {said or 'it said nothing'}")
        _close(process.stderr)
        return zygote

    async def fork(self, request: bytes) -> socket.socket:
        """Fork a child for this FORK message; return our end of its channel. Raises ZygoteLostError."""
        self._shared[: frames.LOG_OFFSET] = bytes(frames.LOG_OFFSET)
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            try:
                socket.send_fds(self._control, [request], [theirs.fileno()])
            except OSError as error:
                ours.close()
                raise ZygoteLostError(f"the sandbox process is gone: {error}") from error
        return ours

    def kill_child(self) -> None:
        """Have the zygote kill its child."""
        with contextlib.suppress(OSError):
            self._control.send(frames.CONTROL_KILL)

    async def child_status(self) -> int:
        """Wait for the end of the child, which was killed or has nothing more to do; return its wait status.

        Raises ZygoteLostError when the zygote is gone or silent for two seconds.
        """
        loop = asyncio.get_running_loop()
        try:
            message = await asyncio.wait_for(loop.sock_recv(self._control, frames.CONTROL_BYTES), SILENCE_S)
        except (TimeoutError, OSError) as error:
            raise ZygoteLostError("the sandbox process fell silent") from error
        if len(message) != frames.ENDED.size:
            raise ZygoteLostError("the sandbox process died")
        return frames.ENDED.unpack(message)[1]

    def progress(self) -> tuple[int, float]:
        """Return the item being run (from 1, 0: none yet) and its start (CLOCK_MONOTONIC), as the child claims."""
        item, _, started = frames.PROGRESS.unpack_from(self._shared)
        return item, started

    def logs(self, limit: int) -> tuple[bytes, bool]:
        """Return what the evaluation being run has printed, and whether that was cut."""
        _, written, _ = frames.PROGRESS.unpack_from(self._shared)
        kept = min(written, limit, frames.LOG_ROOM)
        return self._shared[frames.LOG_OFFSET : frames.LOG_OFFSET + kept], written > kept

    def stop(self) -> str:
        """Kill the zygote with all it started; return what it said on stderr while starting."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGKILL)
        self._control.close()
        said = b""
        if self._process.stderr is not None and not self._process.stderr.closed:
            said = self._process.stderr.read()
            self._process.stderr.close()
        self._process.wait()
        self._shared.close()
        return said.decode(errors="replace").strip()[-2000:]


def _close(stream: IO[bytes] | None) -> None:
    if stream is not None:
        stream.close()

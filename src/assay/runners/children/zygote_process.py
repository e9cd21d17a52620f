"""One zygote as the server sees it: started, asked to fork, told to kill, and given up when it does not answer."""

import asyncio
import contextlib
import fcntl
import mmap
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from assay.errors import SandboxUnavailableError
from assay.runners.children import frames

START_S = 15.0
SILENCE_S = 5.0
_SENDING_BYTES = 2 * 1024 * 1024
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class ZygoteLostError(Exception):
    """The zygote died or fell silent: start another and try again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How a zygote is started: its command line, given the descriptor of the control socket it inherits.

    `start_s` is how long it may take until it is ready.
    """

    command: Callable[[int], Sequence[str]]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    directory: str = "/"
    own_session: bool = True
    start_s: float = START_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a child ended: its wait status, and what the kernel counted of its CPU time and of the memory it held."""

    status: int
    cpu_s: float
    peak_bytes: int


class Child:
    """A forked child as the server sees it: its channel, and the memory it reports its progress in."""

    def __init__(self, zygote: "ZygoteProcess", number: int, channel: socket.socket, shared: mmap.mmap) -> None:
        self.channel = channel
        self._zygote = zygote
        self._number = number
        self._shared = shared
        # When it was last told how much CPU time it had used, and that time: on the kernel's word, both in seconds.
        self.cpu: tuple[float, float] | None = None
        self.forked_at = time.monotonic()
        # None when the zygote was lost first.
        self.ended: asyncio.Future[Ending | None] = asyncio.get_running_loop().create_future()

    def progress(self) -> tuple[int, float]:
        """Return how many items were begun and when the last one was (CLOCK_MONOTONIC), as the child claims."""
        item, _, started = frames.PROGRESS.unpack_from(self._shared)
        return item, started

    def logs(self, limit: int) -> tuple[bytes, int]:
        """Return what the evaluation being run has printed, and how many bytes that were in all."""
        _, written, _ = frames.PROGRESS.unpack_from(self._shared)
        kept = min(written, limit, frames.LOG_ROOM)
        return self._shared[frames.LOG_OFFSET : frames.LOG_OFFSET + kept], written

    def ask_cpu(self) -> None:
        """Have the zygote tell how much CPU time it has used; `cpu` changes when it has."""
        if not self.ended.done():
            self._zygote.ask_cpu(self._number)

    def kill(self) -> None:
        """Have the zygote kill it, if it still runs."""
        if not self.ended.done():
            self._zygote.kill(self._number)

    async def ending(self) -> Ending:
        """Wait for the end of a child that was killed or hung up, and return it. Raises ZygoteLostError."""
        try:
            ending = await asyncio.wait_for(asyncio.shield(self.ended), SILENCE_S)
        except TimeoutError:
            self._zygote.lose()
            ending = None
        if ending is None or ending.status == frames.NOT_FORKED:
            raise ZygoteLostError("the sandbox process died, fell silent, or could not fork")
        return ending

    def close(self) -> None:
        """Be done with it, whatever it still does."""
        self.kill()
        self.channel.close()
        self._shared.close()


class ZygoteProcess:
    """A running zygote with its control socket and its children."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket) -> None:
        self._process = process
        self._control = control
        self._children: dict[int, Child] = {}
        self._last_number = 0
        self.lost = False

    @classmethod
    async def start(cls, launch: Launch) -> "ZygoteProcess":
        """Start a zygote and wait until it is ready. Raises SandboxUnavailableError with what it said.

        It is started from the event loop's thread, since it is killed when the thread that started it ends.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        with theirs:
            process = subprocess.Popen(  # noqa: ASYNC220 - must be this thread's child
                launch.command(theirs.fileno()),
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                env=launch.environment, cwd=launch.directory,
                pass_fds=(theirs.fileno(),), start_new_session=launch.own_session,
            )  # fmt: skip
        zygote = cls(process, ours)
        loop = asyncio.get_running_loop()
        try:
            message = await asyncio.wait_for(loop.sock_recv(ours, frames.CONTROL_BYTES), launch.start_s)
        except (TimeoutError, OSError):
            message = b""
        except BaseException:
            zygote.stop()
            raise
        if message != frames.CONTROL_READY:
            said = zygote.stop().splitlines() or ["the sandbox process did not start, and said nothing"]
            raise SandboxUnavailableError(said[-1])
        assert process.stderr is not None
        process.stderr.close()
        loop.add_reader(ours.fileno(), zygote._listen)
        return zygote

    @property
    def pid(self) -> int:
        """Return the process id of what was started."""
        return self._process.pid

    @property
    def load(self) -> int:
        """Return how many children it has."""
        return len(self._children)

    def fork(
        self, what: bytes, memory_bytes: int, cpu_s: float, result_bytes: int, log_bytes: int, niceness: int = 0
    ) -> Child:
        """Fork a child; `niceness` (0 to 19) is how far it gives way to others on the CPU. Raises ZygoteLostError."""
        self._last_number += 1
        number = self._last_number
        descriptor = _shared_memory()
        ours, theirs = socket.socketpair()
        # So that a whole batch waits for the child, where the kernel allows that much, and not the child for its rest.
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SENDING_BYTES)
        ours.setblocking(False)
        message = frames.FORK.pack(what, number, memory_bytes, cpu_s, result_bytes, log_bytes, niceness)
        child = Child(self, number, ours, mmap.mmap(descriptor, frames.SHARED_BYTES))
        try:
            socket.send_fds(self._control, [message], [theirs.fileno(), descriptor])
        except OSError as error:
            child.ended.set_result(None)
            child.close()
            self.lose()
            raise ZygoteLostError(f"the sandbox process is gone: {error}") from error
        finally:
            theirs.close()
            os.close(descriptor)
        self._children[number] = child
        return child

    def kill(self, number: int) -> None:
        """Kill the child; a zygote that does not do so in time is lost."""
        try:
            self._control.send(frames.KILL.pack(frames.CONTROL_KILL, number))
        except OSError:
            self.lose()
        else:
            asyncio.get_running_loop().call_later(SILENCE_S, self._expect_end, number)

    def ask_cpu(self, number: int) -> None:
        """Ask for the child's CPU time. Nothing depends on the answer, so what cannot be sent is left."""
        with contextlib.suppress(OSError):
            self._control.send(frames.KILL.pack(frames.CONTROL_CPU, number))

    def _expect_end(self, number: int) -> None:
        if number in self._children:
            self.lose()

    def _listen(self) -> None:
        try:
            message = self._control.recv(frames.CONTROL_BYTES)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        if len(message) == frames.USED.size:
            _, number, used_s = frames.USED.unpack(message)
            if number in self._children:
                self._children[number].cpu = (time.monotonic(), used_s)
            return
        if len(message) != frames.ENDED.size:
            self.lose()
            return
        _, number, status, cpu_s, peak_bytes = frames.ENDED.unpack(message)
        child = self._children.pop(number, None)
        if child is not None and not child.ended.done():
            child.ended.set_result(Ending(status=status, cpu_s=cpu_s, peak_bytes=peak_bytes))

    def lose(self) -> None:
        """Give it up: kill it with all its children."""
        if not self.lost:
            self.stop()

    def stop(self) -> str:
        """Kill the zygote with all it started; return what it said on stderr while starting."""
        self.lost = True
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGKILL)
        if self._control.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._control.fileno())
            self._control.close()
        said = b""
        if self._process.stderr is not None and not self._process.stderr.closed:
            said = self._process.stderr.read()
            self._process.stderr.close()
        self._process.wait()
        children, self._children = list(self._children.values()), {}
        for child in children:
            if not child.ended.done():
                child.ended.set_result(None)
        return said.decode(errors="replace").strip()[-2000:]


def _shared_memory() -> int:
    """Return a descriptor of memory that nobody can resize, so that reading what is mapped is always safe."""
    descriptor = os.memfd_create("assay-progress", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, frames.SHARED_BYTES)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
    return descriptor

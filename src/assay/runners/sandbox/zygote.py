"""The warm process that forks a confined child for each batch. It holds trusted code only, and stays lean.

Started as `python -I -S -B -c ...` with two descriptors: the control socket and the shared memory of its children.
"""

import gc
import mmap
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence

import orjson

from assay.runners.sandbox import confine, frames, worker_python
from assay.runners.sandbox.inspection import inspect_source


class Zygote:
    """Waits for the server's word, forks, watches the child, and tells how it ended. One child at a time."""

    def __init__(self, control: socket.socket, shared: mmap.mmap, confine_child: Callable[[], None]) -> None:
        self._control = control
        self._shared = shared
        self._confine_child = confine_child
        self._mapped_bytes = confine.address_space_bytes()

    def serve(self) -> None:
        """Serve until the server hangs up."""
        self._control.send(frames.CONTROL_READY)
        while True:
            message, descriptors, _, _ = socket.recv_fds(self._control, frames.CONTROL_BYTES, 1)
            if not message:
                return
            if len(message) != frames.FORK.size or len(descriptors) != 1:
                continue
            pid = os.fork()
            if pid == 0:
                self._become_child(message, descriptors[0])
            os.close(descriptors[0])
            status = self._watch(pid)
            if status is None:
                return
            self._control.send(frames.ENDED.pack(frames.CONTROL_ENDED, status))

    def _watch(self, pid: int) -> int | None:
        """Return the child's wait status; kill it when told to. None when the server hung up."""
        handle = os.pidfd_open(pid)
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        poll.register(self._control.fileno(), select.POLLIN)
        try:
            while True:
                ready = [descriptor for descriptor, _ in poll.poll()]
                if handle in ready:
                    return os.waitpid(pid, 0)[1]
                message = self._control.recv(frames.CONTROL_BYTES)
                if message in (frames.CONTROL_KILL, b""):
                    os.kill(pid, signal.SIGKILL)
                if not message:
                    return None
        finally:
            os.close(handle)

    def _become_child(self, message: bytes, descriptor: int) -> None:
        try:
            confine.die_with_parent()
            what, memory, cpu_s, result_bytes, log_bytes = frames.FORK.unpack(message)
            self._control.close()
            reading, writing = os.pipe2(os.O_NONBLOCK)
            os.dup2(writing, 1)
            os.dup2(writing, 2)
            os.close(writing)
            channel = socket.socket(fileno=descriptor)
            confine.limit_memory(self._mapped_bytes, memory)
            self._confine_child()
            gc.enable()
            if what == frames.CONTROL_INSPECT:
                _inspect(channel)
            else:
                log_bytes = min(log_bytes, frames.LOG_ROOM)
                worker_python.Batch(channel, self._shared, reading, cpu_s, result_bytes, log_bytes).serve()
        finally:
            os._exit(0)


def _inspect(channel: socket.socket) -> None:
    (length,) = frames.INSPECT.unpack(channel.recv(frames.INSPECT.size, socket.MSG_WAITALL))
    source = channel.recv(length, socket.MSG_WAITALL) if length else b""
    description, code = inspect_source(source)
    text = orjson.dumps(description)
    channel.sendall(frames.INSPECTED.pack(len(text), len(code)) + text + code)


def main(
    control: int, shared: int, readable: Sequence[str], hidden: Sequence[str], *, landlock: bool, preload: Sequence[str]
) -> None:
    """Confine this process as far as it can bear, and serve.

    `readable` is all that may still be read; `hidden` is taken out of the import path.
    """
    channel = socket.socket(fileno=control)
    memory = mmap.mmap(shared, frames.SHARED_BYTES)
    os.close(shared)
    for name in preload:
        __import__(name)
    sys.path[:] = [path for path in sys.path if path not in hidden]
    confine.die_with_parent()
    confine.forgo_privileges()
    confine.limit_files()
    if landlock:
        confine.confine_files(readable)
    confine_child = confine.prepare_filter(may_open=landlock)
    os.dup2(0, 1)
    os.dup2(0, 2)
    time.perf_counter()
    gc.collect()
    gc.freeze()
    gc.disable()
    Zygote(channel, memory, confine_child).serve()

"""The warm process that forks a child for each batch. It holds trusted code only.

It is started with the control socket as its one descriptor beside the standard ones, and told what to do to children.
"""

import gc
import mmap
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson

from assay.runners.children import bounds, frames
from assay.runners.children.batch import Batches, LogWriter, MakeWorker

# From a source to its description and what a worker runs.
Inspect: TypeAlias = Callable[[bytes], tuple[dict[str, Any], bytes]]

UNCONFINED = 70
_CHANNEL = 3
# How Linux numbers the clock of the CPU time of another process, below its inverted id.
_CPU_OF_PROCESS = 2


def kill_process(pid: int) -> None:
    """Kill this process."""
    os.kill(pid, signal.SIGKILL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Speech:
    """How a language is looked at and run."""

    inspect: Inspect
    worker: MakeWorker


@dataclass(frozen=True, slots=True, kw_only=True)
class Custody:
    """What is done to children: how they are confined and killed; and the language they speak."""

    confine: Callable[[], None]
    speech: Speech
    kill: Callable[[int], None] = kill_process


class Zygote:
    """Waits for the server's word, forks, kills when told to, and tells how each child ended."""

    def __init__(self, control: socket.socket, custody: Custody) -> None:
        self._control = control
        self._custody = custody
        self._mapped_bytes = bounds.address_space_bytes()
        self._poll = select.poll()
        self._poll.register(control.fileno(), select.POLLIN)
        self._pids: dict[int, int] = {}
        self._handles: dict[int, int] = {}

    def serve(self) -> None:
        """Serve until the server hangs up."""
        self._control.send(frames.CONTROL_READY)
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor in self._handles:
                    self._bury(descriptor)
                elif not self._obey():
                    return

    def _obey(self) -> bool:
        """Do what the server says next; tell whether it is still there."""
        message, descriptors, _, _ = socket.recv_fds(self._control, frames.CONTROL_BYTES, 2)
        if len(message) == frames.KILL.size:
            what, number = frames.KILL.unpack(message)
            pid = self._pids.get(number)
            if pid is not None and what == frames.CONTROL_CPU:
                self._tell_cpu(number, pid)
            elif pid is not None:
                self._custody.kill(pid)
        elif len(message) == frames.FORK.size:
            self._fork(message, *descriptors)
        return bool(message)

    def _tell_cpu(self, number: int, pid: int) -> None:
        try:
            used_s = time.clock_gettime(~pid << 3 | _CPU_OF_PROCESS)
        except OSError:
            return
        self._control.send(frames.USED.pack(frames.CONTROL_CPU, number, used_s))

    def _fork(self, message: bytes, channel: int, shared: int) -> None:
        number = frames.FORK.unpack(message)[1]
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError:
            self._control.send(frames.ENDED.pack(frames.CONTROL_ENDED, number, frames.NOT_FORKED, 0.0, 0))
        else:
            if pid == 0:
                self._become_child(message, channel, shared, parent)
            handle = os.pidfd_open(pid)
            self._pids[number], self._handles[handle] = pid, number
            self._poll.register(handle, select.POLLIN)
        os.close(channel)
        os.close(shared)

    def _bury(self, handle: int) -> None:
        self._poll.unregister(handle)
        os.close(handle)
        number = self._handles.pop(handle)
        pid = self._pids.pop(number)
        self._custody.kill(pid)
        _, status, used = os.wait4(pid, 0)
        cpu_s, peak_bytes = used.ru_utime + used.ru_stime, used.ru_maxrss * 1024
        self._control.send(frames.ENDED.pack(frames.CONTROL_ENDED, number, status, cpu_s, peak_bytes))

    def _become_child(self, message: bytes, channel_descriptor: int, shared: int, parent: int) -> None:
        leave = os._exit
        status = UNCONFINED
        try:
            bounds.die_with_parent()
            if os.getppid() != parent:
                return
            what, _, memory, cpu_s, result_bytes, log_bytes, niceness = frames.FORK.unpack(message)
            progress = mmap.mmap(shared, frames.SHARED_BYTES)
            self._control.detach()
            if channel_descriptor != _CHANNEL:
                os.dup2(channel_descriptor, _CHANNEL, inheritable=False)
            os.closerange(_CHANNEL + 1, bounds.MOST_FILES)
            channel = socket.socket(fileno=_CHANNEL)
            bounds.limit_memory(self._mapped_bytes + frames.SHARED_BYTES, memory)
            os.nice(niceness)
            self._custody.confine()
            gc.enable()
            status = 0
            if what == frames.CONTROL_INSPECT:
                _inspect(channel, self._custody.speech.inspect)
            else:
                log = LogWriter(progress, min(log_bytes, frames.LOG_ROOM))
                worker = self._custody.speech.worker(log, result_bytes, memory)
                Batches(channel, progress, log, worker, cpu_s).serve()
        finally:
            leave(status)


def _inspect(channel: socket.socket, inspect: Inspect) -> None:
    channel.sendall(frames.BEGUN)
    (length,) = frames.INSPECT.unpack(channel.recv(frames.INSPECT.size, socket.MSG_WAITALL))
    source = channel.recv(length, socket.MSG_WAITALL) if length else b""
    description, code = inspect(source)
    text = orjson.dumps(description)
    channel.sendall(frames.INSPECTED.pack(len(text), len(code)) + text + code)


def serve(control: socket.socket, custody: Custody) -> None:
    """Be a zygote until the server hangs up, with all that is loaded by now shared with the children."""
    gc.collect()
    gc.freeze()
    gc.disable()
    Zygote(control, custody).serve()

"""The child's side of the conversation with the server: batches come in, results go out, whatever the language.

An author's Python shares this process and may replace any builtin, so what runs after it uses names bound here.
"""

import io
import mmap
import signal
import socket
import struct
import time
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from assay.runners.children import frames

_FLUSH_BYTES = 64 * 1024
_FLUSH_S = 0.005


class Worker(Protocol):
    """Runs evaluations of one revision, one after the other."""

    def load(self, entry: str, code: bytes, source: bytes) -> None:
        """Take the revision to run: the name of its function, what its inspection compiled, and the author's text."""
        ...

    def reset(self) -> None:
        """Undo what the evaluation before did to this process."""
        ...

    def answer(self, arguments: list[memoryview]) -> tuple[int, bytes]:
        """Run one evaluation; return the status and the value of its result frame. Never raises."""
        ...


class LogWriter(io.RawIOBase):
    """Keeps what the code prints, up to a limit, where the server can still read it when this process is gone."""

    def __init__(self, shared: mmap.mmap, limit: int) -> None:
        self._shared = shared
        self._limit = limit
        self.written = 0
        self._header = memoryview(shared).cast("I")

    def writable(self) -> bool:
        """Tell that this is for writing."""
        return True

    def write(self, data: Any, /) -> int:
        """Keep what fits; everything counts as written."""
        size = len(data)
        room = self._limit - self.written
        if room > 0:
            piece = bytes(data[:room])
            start = frames.LOG_OFFSET + self.written
            self._shared[start : start + len(piece)] = piece
        self.written = min(self.written + size, 0xFFFFFFFF)
        self._header[1] = self.written
        return size

    def close(self) -> None:
        """Stay open, whatever becomes of the streams above."""

    def take(self) -> bytes:
        """Return what was kept of this evaluation."""
        return self._shared[frames.LOG_OFFSET : frames.LOG_OFFSET + min(self.written, self._limit)]

    def reset(self) -> None:
        """Begin anew."""
        self.written = 0
        self._header[1] = 0


MakeWorker: TypeAlias = Callable[[LogWriter, int, int], Worker]
"""Make a worker from where its logs go, its largest result, and the memory it may use (both in bytes)."""


class Batches:
    """Serves batches of the same revision; `cpu_s` 0 means no budget of CPU time."""

    def __init__(self, channel: socket.socket, shared: mmap.mmap, log: LogWriter, worker: Worker, cpu_s: float) -> None:
        self._channel = channel
        self._log = log
        self._worker = worker
        self._cpu_s = cpu_s
        self._item = memoryview(shared).cast("I")
        self._started = memoryview(shared).cast("d")
        self._begun = 0

    def serve(self) -> None:
        """Answer until the server hangs up."""
        self._channel.sendall(frames.BEGUN)
        while True:
            head = self._receive(frames.REQUEST.size)
            if head is None:
                return
            batch_id, count, width, entry_length, code_length, source_length = frames.REQUEST.unpack(head)
            if code_length:
                named = self._receive(entry_length + code_length + source_length)
                if named is None:
                    return
                end = entry_length + code_length
                self._worker.load(
                    bytes(named[:entry_length]).decode(), bytes(named[entry_length:end]), bytes(named[end:])
                )
            raw_sizes = self._receive(4 * count * width)
            if raw_sizes is None:
                return
            sizes = struct.unpack(f"<{count * width}I", raw_sizes)
            try:
                body = self._receive(sum(sizes))
            except MemoryError:
                self._channel.sendall(_pack(batch_id, 0, _MEMORY, 0.0, 0, 4, 0) + b"null")
                return
            if body is None or not self._run(batch_id, count, width, sizes, body):
                return

    def _run(self, batch_id: bytes, count: int, width: int, sizes: tuple[int, ...], body: memoryview) -> bool:
        """Answer one batch; tell whether this process is fit for another."""
        item, started, log, answer, reset = self._item, self._started, self._log, self._worker.answer, self._reset
        pack, clock, get_size, send = _pack, _clock, _length, self._channel.sendall
        pending: list[bytes] = []
        position, waiting, flushed, argument, half = 0, 0, clock(), 0, count // 2
        for number in range(count):
            arguments: list[memoryview] = []
            for _ in range(width):
                end = position + sizes[argument]
                arguments.append(body[position:end])
                position, argument = end, argument + 1
            if log.written:
                log.reset()
            reset()
            begun = clock()
            started[1] = begun
            self._begun += 1
            item[0] = self._begun
            status, value = answer(arguments)
            now = clock()
            written = log.written
            logs = log.take() if written else b""
            size, log_size = get_size(value), get_size(logs)
            pending.append(pack(batch_id, number, status, now - begun, written, size, log_size))
            pending.append(value)
            if written:
                pending.append(logs)
            waiting += size + log_size
            # The first half lets the server send the next batch while the second is being answered.
            if waiting > _FLUSH_BYTES or now - flushed > _FLUSH_S or number == half or status == _MEMORY:
                send(_join(pending))
                if status == _MEMORY:
                    return False
                pending, waiting, flushed = [], 0, now
        pending.append(batch_id)
        send(_join(pending))
        return True

    def _reset(self) -> None:
        self._worker.reset()
        if self._cpu_s:
            _signal(signal.SIGPROF, signal.SIG_DFL)
            _set_timer(signal.ITIMER_PROF, self._cpu_s)

    def _receive(self, size: int) -> memoryview | None:
        """Return exactly so many bytes; None when the server hung up."""
        buffer = memoryview(bytearray(size))
        got = 0
        while got < size:
            read = self._channel.recv_into(buffer[got:])
            if not read:
                return None
            got += read
        return buffer


_MEMORY = frames.STATUS_MEMORY
_pack, _join, _length, _clock = frames.RESULT.pack, b"".join, len, time.perf_counter
_signal, _set_timer = signal.signal, signal.setitimer

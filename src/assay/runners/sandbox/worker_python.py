"""Runs one batch of evaluations of one revision inside a confined child.

The author's code shares this process and may replace any builtin, so what runs after it uses names bound here.
"""

import builtins
import io
import marshal
import math
import mmap
import os
import signal
import socket
import struct
import sys
import time
import types
from collections.abc import Callable
from typing import Any

import orjson

from assay.runners.sandbox import frames
from assay.runners.sandbox.faults import describe, missing_entry_point
from assay.runners.sandbox.plain import UnfitValueError, plain

_FLUSH_BYTES = 64 * 1024
_FLUSH_S = 0.005


class SpanRecord(dict[str, Any]):
    """A span of the trace, readable as span["model"] and as span.model."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"a span has no {name!r}; it has {', '.join(self)}") from None


class TraceView:
    """The trace as the author's handler sees it."""

    def __init__(self, spans: bytes) -> None:
        self._spans = spans

    async def get_spans(self, span_type: str | list[str] | None = None) -> list[SpanRecord]:
        """Return copies of the spans of these types, root first, then by start time; all when none is named."""
        records = [SpanRecord(record) for record in orjson.loads(self._spans or b"[]")]
        if span_type is None:
            return records
        wanted = [span_type] if isinstance(span_type, str) else list(span_type)
        return [record for record in records if record.get("type") in wanted]


class LogWriter(io.RawIOBase):
    """Keeps what the code prints, up to a limit, where the server can still read it when this process is gone."""

    def __init__(self, shared: mmap.mmap, limit: int) -> None:
        self._shared = shared
        self._limit = limit
        self.written = 0
        self.header = memoryview(shared).cast("I")

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
        self.header[1] = self.written
        return size

    def take(self) -> bytes:
        """Return what was kept of this evaluation."""
        return self._shared[frames.LOG_OFFSET : frames.LOG_OFFSET + min(self.written, self._limit)]

    def reset(self) -> None:
        """Begin anew."""
        self.written = 0
        self.header[1] = 0


class Batch:
    """The child's side of the conversation with the server."""

    def __init__(
        self, channel: socket.socket, shared: mmap.mmap, pipe: int, cpu_s: float, result_bytes: int, log_bytes: int
    ) -> None:
        self._channel = channel
        self._pipe = pipe
        self._cpu_s = cpu_s
        self._result_bytes = result_bytes
        self._log_bytes = log_bytes
        self._log = LogWriter(shared, log_bytes)
        self._item = memoryview(shared).cast("I")
        self._started = memoryview(shared).cast("d")
        self._builtins = dict(builtins.__dict__)
        self._out = self._new_stream()

    def serve(self) -> None:
        """Answer batches of the same revision until the server hangs up."""
        entry, code, source = "", None, b""
        while True:
            head = self._receive(frames.REQUEST.size)
            if head is None:
                return
            batch_id, careful, count, width, entry_length, code_length, source_length = frames.REQUEST.unpack(head)
            if code_length:
                named = self._receive(entry_length + code_length + source_length)
                if named is None:
                    return
                entry = bytes(named[:entry_length]).decode()
                code = marshal.loads(named[entry_length : entry_length + code_length])
                source = bytes(named[entry_length + code_length :])
            sizes_raw = self._receive(4 * count * width)
            if sizes_raw is None:
                return
            sizes = struct.unpack(f"<{count * width}I", sizes_raw)
            body = self._receive(sum(sizes))
            if body is None or not self._run(batch_id, bool(careful), count, width, sizes, body, entry, code, source):
                return

    def _run(
        self, batch_id: bytes, careful: bool, count: int, width: int, sizes: tuple[int, ...], body: memoryview,
        entry: str, code: Any, source: bytes,
    ) -> bool:  # fmt: skip
        """Answer one batch; tell whether this process is fit for another."""
        # Names bound here, because the code may replace those in builtins and in modules.
        item, started, log, take_stray = self._item, self._started, self._log, self._take_stray
        clock, pack, answer, reset, get_size = time.perf_counter, frames.RESULT.pack, self._answer, self._reset, len
        is_handler = entry == "handler"
        log_bytes = self._log_bytes
        pending: list[bytes] = []
        waiting, flushed, position, argument = 0, clock(), 0, 0
        for number in range(count):
            arguments: list[Any] = []
            for _ in range(width):
                end = position + sizes[argument]
                arguments.append(body[position:end])
                position, argument = end, argument + 1
            log.reset()
            reset()
            begun = clock()
            started[1] = begun
            item[0] = number + 1
            status, value = answer(arguments, is_handler, entry, code, source)
            spent = clock() - begun
            if log.written or True:
                stray = take_stray()
                if stray:
                    log.write(stray)
            logs = log.take() if log.written else b""
            frame = pack(batch_id, number, status, log.written > log_bytes, spent, get_size(value), get_size(logs))
            pending.append(frame + value + logs)
            waiting += get_size(value) + get_size(logs)
            if careful or waiting > _FLUSH_BYTES or clock() - flushed > _FLUSH_S or status == frames.STATUS_MEMORY:
                self._send(b"".join(pending))
                pending.clear()
                waiting, flushed = 0, clock()
            if status == frames.STATUS_MEMORY:
                return False
        item[0] = count + 1
        self._send(b"".join(pending))
        return True

    def _answer(
        self, arguments: list[memoryview], is_handler: bool, entry: str, code: Any, source: bytes
    ) -> tuple[int, bytes]:
        """Run one evaluation in fresh module globals."""
        try:
            decoded: list[Any] = [_loads(raw) if raw else None for raw in arguments]
            if is_handler:
                decoded[-1] = TraceView(bytes(arguments[-1]))
            module = _Module(frames.MODULE_NAME)
            _modules[frames.MODULE_NAME] = module
            namespace = module.__dict__
            _exec(code, namespace)
            function = namespace.get(entry, _MISSING)
            if function is _MISSING:
                return frames.STATUS_RAISED, _dumps(missing_entry_point(entry, namespace))
            value = function(*decoded)
            if _hasattr(value, "__await__"):
                value = _drive(value)
            value = plain(value)
            try:
                result = _dumps(value)
            except (TypeError, ValueError):
                result = _long_dumps(value)
        except UnfitValueError as error:
            report = {"kind": error.kind, "type": "UnfitValue", "message": str(error), "line": None, "traceback": None}
            return frames.STATUS_RAISED, _dumps(report)
        except MemoryError:
            return frames.STATUS_MEMORY, b"null"
        except BaseException as error:  # noqa: BLE001 - the author's code may raise anything
            return frames.STATUS_RAISED, _dumps(describe(error, source))
        if len(result) > self._result_bytes:
            return frames.STATUS_RESULT, b"%d" % len(result)
        return frames.STATUS_RETURNED, result

    def _reset(self) -> None:
        """Undo what the evaluation before did to builtins, streams and timers."""
        known, current = self._builtins, builtins.__dict__
        _update(current, known)
        if _length(current) != _length(known):
            for name in [name for name in current if name not in known]:
                del current[name]
        if sys.stdout is not self._out or sys.stderr is not self._out or self._out.closed:
            self._out = self._new_stream()
        if self._cpu_s:
            signal.signal(signal.SIGPROF, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_PROF, self._cpu_s)

    def _new_stream(self) -> io.TextIOWrapper:
        stream = io.TextIOWrapper(self._log, encoding="utf-8", errors="backslashreplace", write_through=True)  # type: ignore[type-var]
        sys.stdout = sys.stderr = stream
        return stream

    def _take_stray(self) -> bytes:
        """Return what was written to descriptors 1 and 2 past Python's own streams."""
        try:
            return os.read(self._pipe, 65536)
        except OSError:
            return b""

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

    def _send(self, data: bytes) -> None:
        self._channel.sendall(data)


def _drive(awaitable: Any) -> Any:
    """Return what the awaitable comes to; a loop is started only for code that has imported asyncio."""
    if "asyncio" in sys.modules:
        import asyncio

        async def whole() -> Any:
            return await awaitable

        return asyncio.run(whole())
    steps = awaitable.__await__()
    while True:
        try:
            steps.send(None) if hasattr(steps, "send") else next(steps)
        except StopIteration as end:
            return end.value


def _long_dumps(value: Any) -> bytes:
    """Encode a value with integers beyond 64 bits."""
    import json

    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


_MISSING = object()
_Module: Callable[[str], types.ModuleType] = types.ModuleType
_modules = sys.modules
_loads, _dumps = orjson.loads, orjson.dumps
_exec, _hasattr, _length, _update = exec, hasattr, len, dict.update
assert math.isfinite(0.0)

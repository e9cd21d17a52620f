"""Runs batches of evaluations of one revision inside a confined child.

The author's code shares this process and may replace any builtin, so what runs after it uses names bound here.
"""

import builtins
import io
import json
import marshal
import mmap
import signal
import socket
import struct
import sys
import time
import types
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from assay.runners.children import frames
from assay.runners.children.faults import describe, missing_entry_point
from assay.runners.children.plain import TooLargeError, UnfitValueError, plain

_FLUSH_BYTES = 64 * 1024
_FLUSH_S = 0.005
_SMALL = 16 * 1024


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


class Batch:
    """The child's side of the conversation with the server; `offered` are the code's builtins, if not the usual."""

    def __init__(
        self,
        channel: socket.socket,
        shared: mmap.mmap,
        cpu_s: float,
        result_bytes: int,
        log_bytes: int,
        offered: Mapping[str, Any] | None = None,
    ) -> None:
        self._channel = channel
        self._cpu_s = cpu_s
        self._result_bytes = result_bytes
        self._log = LogWriter(shared, log_bytes)
        self._item = memoryview(shared).cast("I")
        self._started = memoryview(shared).cast("d")
        self._begun = 0
        self._offered = offered
        self._builtins = dict(builtins.__dict__)
        self._recursion_limit = sys.getrecursionlimit()
        self._out = self._new_stream()
        self._entry = ""
        self._code: Any = None
        self._source = b""

    def serve(self) -> None:
        """Answer batches of the same revision until the server hangs up."""
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
                self._entry = bytes(named[:entry_length]).decode()
                self._code = marshal.loads(named[entry_length : entry_length + code_length])
                self._source = bytes(named[entry_length + code_length :])
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
        # Names bound here, because the code may replace those in builtins and in modules.
        item, started, log, answer, reset = self._item, self._started, self._log, self._answer, self._reset
        pack, clock, get_size, entry, send = _pack, _clock, _length, self._entry, self._channel.sendall
        pending: list[bytes] = []
        position, waiting, flushed, argument = 0, 0, clock(), 0
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
            status, value = answer(arguments, entry)
            now = clock()
            written = log.written
            logs = log.take() if written else b""
            size, log_size = get_size(value), get_size(logs)
            pending.append(pack(batch_id, number, status, now - begun, written, size, log_size))
            pending.append(value)
            if written:
                pending.append(logs)
            waiting += size + log_size
            if waiting > _FLUSH_BYTES or now - flushed > _FLUSH_S or status == _MEMORY:
                send(_join(pending))
                if status == _MEMORY:
                    return False
                pending, waiting, flushed = [], 0, now
        pending.append(batch_id)
        send(_join(pending))
        return True

    def _answer(self, arguments: list[memoryview], entry: str) -> tuple[int, bytes]:
        """Run one evaluation in fresh module globals.

        They are cleared at its end, so that what its objects do when they die falls into its own time.
        """
        module = _Module(frames.MODULE_NAME)
        _modules[frames.MODULE_NAME] = module
        namespace = module.__dict__
        try:
            if self._offered is not None:
                namespace["__builtins__"] = self._offered
            _exec(self._code, namespace)
            function = namespace.get(entry, _MISSING)
            if function is _MISSING:
                return _RAISED, _dumps(missing_entry_point(entry, namespace))
            if entry == "handler":
                trace = TraceView(bytes(arguments.pop()))
                value = function(*[_loads(raw) if raw else None for raw in arguments], trace)
            else:
                value = function(*[_loads(raw) if raw else None for raw in arguments])
            if _hasattr(value, "__await__"):
                value = _drive(value, b"asyncio" in self._source)
            value, size = plain(value, self._result_bytes)
            if size > _SMALL:
                result = _long_dumps(value)
            else:
                try:
                    result = _dumps(value)
                except (TypeError, ValueError):
                    result = _long_dumps(value)
        except TooLargeError:
            return _RESULT, b"0"
        except UnfitValueError as error:
            report = {"kind": error.kind, "type": "UnfitValue", "message": str(error), "line": None, "traceback": None}
            return _RAISED, _dumps(report)
        except MemoryError:
            return _MEMORY, b"null"
        except BaseException as error:
            return _RAISED, _dumps(describe(error, self._source))
        finally:
            _clear(namespace)
        if _length(result) > self._result_bytes:
            return _RESULT, b"%d" % _length(result)
        return _RETURNED, result

    def _reset(self) -> None:
        """Undo what the evaluation before did to builtins, streams, limits and timers."""
        known, current = self._builtins, builtins.__dict__
        _update(current, known)
        if _length(current) != _length(known):
            for name in [name for name in current if name not in known]:
                del current[name]
        out = self._out
        if sys.stdout is not out or sys.stderr is not out or out.closed:
            self._out = self._new_stream()
        _set_recursion_limit(self._recursion_limit)
        if self._cpu_s:
            _signal(signal.SIGPROF, signal.SIG_DFL)
            _set_timer(signal.ITIMER_PROF, self._cpu_s)

    def _new_stream(self) -> io.TextIOWrapper:
        stream = io.TextIOWrapper(self._log, encoding="utf-8", errors="backslashreplace", write_through=True)  # type: ignore[type-var]
        sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = stream  # type: ignore[misc]
        return stream

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


def _drive(awaitable: Any, needs_loop: bool) -> Any:
    """Return what the awaitable comes to; a loop is started only for code that speaks of asyncio."""
    if needs_loop:
        import asyncio

        async def whole() -> Any:
            return await awaitable

        return asyncio.run(whole())
    steps = awaitable.__await__()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def _long_dumps(value: Any) -> bytes:
    """Encode a value that is large (the quick encoder takes too much memory), or has integers beyond 64 bits."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except ValueError:
        raise UnfitValueError(
            "not-json-serialisable", "the returned value holds an integer of thousands of digits"
        ) from None


_MISSING = object()
_RETURNED, _RAISED, _MEMORY, _RESULT = (
    frames.STATUS_RETURNED, frames.STATUS_RAISED, frames.STATUS_MEMORY, frames.STATUS_RESULT,
)  # fmt: skip
_Module: Callable[[str], types.ModuleType] = types.ModuleType
_modules = sys.modules
_loads, _dumps, _pack, _join = orjson.loads, orjson.dumps, frames.RESULT.pack, b"".join
_exec, _hasattr, _length, _update, _clock = exec, hasattr, len, dict[str, Any].update, time.perf_counter
_clear = dict[str, Any].clear
_set_recursion_limit, _signal, _set_timer = sys.setrecursionlimit, signal.signal, signal.setitimer

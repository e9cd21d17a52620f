"""Runs an author's Python inside a child.

The author's code shares this process and may replace any builtin, so what runs after it uses names bound here.
"""

import builtins
import io
import json
import marshal
import sys
import types
from collections.abc import Callable, Generator, Mapping
from typing import Any

import orjson

from assay.runners.children import frames
from assay.runners.children.batch import LogWriter
from assay.runners.children.faults import describe, missing_entry_point
from assay.runners.children.plain import TooLargeError, UnfitValueError, plain

_SMALL = 16 * 1024


class SpanRecord(dict[str, Any]):
    """A span of the trace, readable as span["model"] and as span.model."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"a span has no {name!r}; it has {', '.join(self)}") from None


class SpanList(list[SpanRecord]):
    """Spans that may be awaited, as the contract asks, or used as they are by code that forgot to."""

    def __await__(self) -> Generator[Any, None, list[SpanRecord]]:
        """Return the same spans."""
        yield from ()
        return list(self)


class TraceView:
    """The trace as the author's handler sees it."""

    def __init__(self, spans: bytes) -> None:
        self._spans = spans

    def get_spans(self, span_type: str | list[str] | None = None) -> SpanList:
        """Return copies of the spans of these types, root first, then by start time; all when none is named."""
        records = SpanList(SpanRecord(record) for record in orjson.loads(self._spans or b"[]"))
        if span_type is None:
            return records
        wanted = [span_type] if isinstance(span_type, str) else list(span_type)
        return SpanList(record for record in records if record.get("type") in wanted)


class PythonWorker:
    """Runs Python, each evaluation in fresh module globals; `offered` are the code's builtins, if not the usual."""

    def __init__(
        self, log: LogWriter, result_bytes: int, memory_bytes: int, offered: Mapping[str, Any] | None = None
    ) -> None:
        self._log = log
        self._result_bytes = result_bytes
        self._offered = offered
        self._builtins: dict[str, Any] = {}
        self._recursion_limit = sys.getrecursionlimit()
        self._out = self._new_stream()
        self._entry = ""
        self._code: Any = None
        self._tame = False
        self._source = b""

    def load(self, entry: str, code: bytes, source: bytes) -> None:
        """Take the revision to run; its code is what the inspection marshalled."""
        self._entry, self._source = entry, source
        self._code, self._tame = marshal.loads(code)
        if not self._tame:
            self._builtins = dict(builtins.__dict__)

    def answer(self, arguments: list[memoryview]) -> tuple[int, bytes]:
        """Run one evaluation in fresh module globals.

        They are cleared at its end, so that what its objects do when they die falls into its own time.
        """
        entry = self._entry
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
            if _type(value) is not dict and _hasattr(value, "__await__"):
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

    def reset(self) -> None:
        """Undo what the evaluation before did to builtins, streams and limits."""
        if self._tame:
            return
        known, current = self._builtins, builtins.__dict__
        _update(current, known)
        if _length(current) != _length(known):
            for name in [name for name in current if name not in known]:
                del current[name]
        out = self._out
        if sys.stdout is not out or sys.stderr is not out or out.closed:
            self._out = self._new_stream()
        _set_recursion_limit(self._recursion_limit)

    def _new_stream(self) -> io.TextIOWrapper:
        stream = io.TextIOWrapper(self._log, encoding="utf-8", errors="backslashreplace", write_through=True)  # type: ignore[type-var]
        sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = stream  # type: ignore[misc]
        return stream


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
_loads, _dumps = orjson.loads, orjson.dumps
_exec, _hasattr, _length, _type, _update = exec, hasattr, len, type, dict[str, Any].update
_clear = dict[str, Any].clear
_set_recursion_limit = sys.setrecursionlimit

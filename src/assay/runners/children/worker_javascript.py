"""Runs an author's JavaScript inside a child, each evaluation in a QuickJS context of its own.

Nothing of Python is in reach of the author's code but what the prelude keeps to itself: a function that takes a line
of the logs, and one that hands out the prelude's own parts. Values cross as JSON text, which the context parses: text
with a NUL in it, and integers beyond 32 bits, would be spoilt on the way if they crossed as themselves.
"""

import json
import re
import resource
from pathlib import Path
from typing import Any

import _quickjs
import orjson

from assay.runners.children import frames
from assay.runners.children.batch import LogWriter
from assay.runners.children.places import line_at


def _part(name: str) -> str:
    text = Path(__file__).with_name(f"{name}.js").read_text("utf-8")
    return re.sub(r"^\s*(//.*)?\n?", "", text, flags=re.MULTILINE)


_PARTS = {name: _part(name) for name in ("prelude", "module", "handler", "spans", "console", "telling")}
# What stays free of the memory budget, so that an evaluation that uses it up can still be told.
_RESERVE_BYTES = 24 * 1024 * 1024
_OURS = "assay$"
_STEP = re.compile(r"^\s*at (?:(?P<name>.*) \()?<input>:(?P<line>\d+):(?P<column>\d+)\)?$")
_OUT_OF_MEMORY = ("InternalError", "out of memory")
_MESSAGE_LIMIT = 4000


class JavaScriptWorker:
    """Runs JavaScript; what its inspection compiled is a script or a module, and where its lines come from."""

    def __init__(self, log: LogWriter, result_bytes: int, memory_bytes: int) -> None:
        self._log = log
        self._result_bytes = result_bytes
        self._memory_bytes = max(memory_bytes - _RESERVE_BYTES, memory_bytes // 2)
        self._peak_bytes = _peak_bytes()
        self._entry = ""
        self._script: dict[str, Any] = {}
        self._source: list[str] = []

    def load(self, entry: str, code: bytes, source: bytes) -> None:
        """Take the revision to run; its code is the JSON of what to evaluate for each entry point."""
        self._entry = entry
        self._script = orjson.loads(code)[entry]
        self._source = source.decode("utf-8", "replace").removeprefix("\ufeff").splitlines()

    def reset(self) -> None:
        """Do nothing: an evaluation leaves nothing but what dies with its context."""

    def answer(self, arguments: list[memoryview]) -> tuple[int, bytes]:
        """Run one evaluation in a context of its own, which is gone when this returns."""
        try:
            kind, body = self._evaluate(arguments)
        except MemoryError:
            return frames.STATUS_MEMORY, b"null"
        except _quickjs.JSException as error:
            kind, body = "-", json.dumps(_report_of_text(str(error)))
        return self._read(kind, body)

    def _evaluate(self, arguments: list[memoryview]) -> tuple[str, str]:
        context = _quickjs.Context()
        context.set_memory_limit(self._memory_bytes)
        context.add_callable("part", self._part)
        run = context.eval(_PARTS["prelude"])
        texts = [str(raw, "utf-8") if raw else "null" for raw in arguments]
        spans = texts.pop() if self._entry == "handler" else None
        text, export = self._script["text"], self._script["export"]
        if export is not None:
            context.module(text)
            text = None
        run(text, export, self._result_bytes, self._script["shape"], spans, *texts)
        while context.execute_pending_job():
            pass
        return run(), run("")

    def _part(self, wanted: object = None) -> str:
        """Return a part of the prelude by its name; a JSON string is a line for the logs. It must not raise."""
        if not isinstance(wanted, str):
            return ""
        if wanted.startswith('"'):
            try:
                self._log.write(json.loads(wanted).encode("utf-8", "replace") + b"\n")
            except (MemoryError, ValueError):
                self._log.write(b"[a line that could not be kept]\n")
        return _PARTS.get(wanted, "")

    def _read(self, kind: str, body: str) -> tuple[int, bytes]:
        if kind in "=#":
            value = orjson.dumps(json.loads(body, parse_int=_number)) if kind == "#" else body.encode()
            if len(value) > self._result_bytes:
                return frames.STATUS_RESULT, b"%d" % len(value)
            return frames.STATUS_RETURNED, value
        if kind == ">":
            return frames.STATUS_RESULT, b"0"
        if kind == "!":
            return frames.STATUS_MEMORY, b"null"
        if kind == "-":
            report = json.loads(body)
            if self._ran_out_of_memory(report):
                return frames.STATUS_MEMORY, b"null"
            return frames.STATUS_RAISED, orjson.dumps(self._described(report))
        return frames.STATUS_RAISED, orjson.dumps(self._unanswered(kind))

    def _ran_out_of_memory(self, report: dict[str, str]) -> bool:
        """Tell whether this is the engine's word for it: an error, or null where there was no room for an error.

        An author can throw null as well, so it only counts where this process has been large. A false alarm does no
        harm: it is tried once more in a process of its own.
        """
        if report["type"] == "null":
            return _peak_bytes() - self._peak_bytes > self._memory_bytes // 3
        return (report["type"], report["message"]) == _OUT_OF_MEMORY

    def _unanswered(self, kind: str) -> dict[str, Any]:
        if kind == "?":
            message = f"the code must define a function named '{self._entry}'"
            return _plain_report("entry-point-missing", "ReferenceError", message)
        message = f"{self._entry} returned a promise that never settles: nothing that is left to run could resolve it"
        return _plain_report("unsupported-return-type", "PendingPromise", message)

    def _described(self, report: dict[str, str]) -> dict[str, Any]:
        """Return the report with line and traceback, of the author's own steps alone."""
        name, message = _clean(report["type"]), _clean(report["message"])
        steps = [step for line in report["stack"].splitlines() if (step := self._step(line)) is not None]
        makers = {name, *report.get("makers", "").split("\n")}
        while len(steps) > 1 and steps[0][0].partition(" (")[0] in makers:
            del steps[0]  # The constructor of an error is not where it was thrown.
        shown = [f"{name}: {message}"]
        for where, line in steps:
            shown.append(f"    at {where}")
            if line <= len(self._source):
                shown.append(f"        {self._source[line - 1].strip()[:200]}")
        return {
            "kind": report["kind"],
            "type": name,
            "message": message,
            "line": steps[0][1] if steps else None,
            "traceback": "\n".join(shown) if steps else None,
        }

    def _step(self, text: str) -> tuple[str, int] | None:
        """Return where a step of the stack is, and its line in the author's source; None when it is none of theirs."""
        found = _STEP.match(text)
        if found is None or (found["name"] or "").startswith(_OURS):
            return None
        column, places = int(found["column"]), self._script["places"]
        line = line_at(places, int(found["line"]), column)
        if line is None:
            return None
        where = f"line {line}, column {column}" if places is None else f"line {line}"
        name = found["name"]
        return (f"{_clean(name)} ({where})" if name and name != "<eval>" else where), line


def _number(digits: str) -> int | float:
    """Read an integer as JavaScript means it: beyond 2**53 it stands for the nearest float, whatever its digits say."""
    number = int(digits)
    return number if -(2**53) < number < 2**53 else float(digits)


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _plain_report(kind: str, name: str, message: str) -> dict[str, Any]:
    return {"kind": kind, "type": name, "message": message, "line": None, "traceback": None}


def _report_of_text(text: str) -> dict[str, str]:
    """Return the report of an exception of which only the text is left, as of one thrown in a microtask."""
    head, _, stack = text.partition("\n    at ")
    name, colon, message = head.partition(": ")
    if not colon or not name.isidentifier():
        name, message = "Error", head.removesuffix("\nundefined")
    return {"kind": "script-raised", "type": name, "message": message.strip(), "stack": f"    at {stack}"}


def _clean(text: str) -> str:
    if len(text) > _MESSAGE_LIMIT:
        text = text[:_MESSAGE_LIMIT] + "…"
    return text.encode("utf-8", "backslashreplace").decode()

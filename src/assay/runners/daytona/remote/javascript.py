"""Runs an author's JavaScript and TypeScript: a Node.js worker, killed and started anew when an evaluation ends it."""

import contextlib
import itertools
import json
import os
import re
import signal
import struct
import subprocess
from importlib.resources import files
from typing import Any

from assay.runners.children import frames
from assay.runners.children.javascript_text import DEFAULT, Bindings, Token, bindings_of, tokens_of
from assay.runners.daytona.remote.batch import Batch
from assay.runners.daytona.remote.watch import Budgets, Seen, end_session, watch

_SUFFIX = ".js"
_ENTRIES = ("evaluate", "handler")
_HANDED = frozenset(("input", "output", "expected", "metadata", "trace"))
_OUT_OF_MEMORY = (signal.SIGABRT, signal.SIGTRAP, signal.SIGILL)
# What the worker says in place of STATUS_RETURNED where numbers are to be read as JavaScript means them.
_INEXACT = 4
_LAST_WORDS_S = 2.0
_LOOKING = Budgets(wall_s=10.0, cpu_s=10.0, result_bytes=64 * 1024 * 1024, log_bytes=0)


class LackingError(Exception):
    """The snapshot lacks what this language needs: the message says what."""


class DefectError(Exception):
    """The source cannot be used; `defect` has message, line and column."""

    def __init__(self, defect: "dict[str, Any]") -> None:
        super().__init__(defect["message"])
        self.defect = defect


class Node:
    """A Node.js process that runs `worker`, a file; started when it is first needed."""

    def __init__(self, worker: str, memory_bytes: int) -> None:
        self._worker = worker
        self._memory_mb = max(16, memory_bytes // 1024 // 1024)
        self._process: subprocess.Popen[bytes] | None = None
        self._answers = -1
        self.last_status = 0

    def ask(self, texts: "list[bytes]", budgets: Budgets) -> Seen:
        """Send a frame and return what comes back; the process is gone when it did not answer."""
        process = self._started()
        frame = [struct.pack("<I", len(texts))]
        for text in texts:
            frame += [struct.pack("<I", len(text)), text]
        assert process.stdin is not None
        assert process.stdout is not None
        # What a process that is dead already cannot take, it will not answer either.
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(b"".join(frame))
            process.stdin.flush()
        seen = watch(process.pid, self._answers, process.stdout.fileno(), budgets)
        if seen.ended != "answered":
            self._end(_LAST_WORDS_S if seen.ended == "died" else 0)
            if (
                seen.ended == "died"
                and os.WIFSIGNALED(self.last_status)
                and os.WTERMSIG(self.last_status) in _OUT_OF_MEMORY
            ):
                seen.ended = "memory"
        return seen

    @property
    def is_running(self) -> bool:
        """Tell whether there is a process now."""
        return self._process is not None

    def close(self) -> None:
        """Kill the process, if there is one."""
        self._end(0)

    def _end(self, patience_s: float) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            code = process.wait(patience_s)
        except subprocess.TimeoutExpired:
            end_session(process.pid)
            code = process.wait()
        end_session(process.pid)
        self.last_status = -code if code < 0 else code << 8
        os.close(self._answers)
        process.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._process is not None:
            return self._process
        answers, answers_end = os.pipe()
        heap = f"--max-old-space-size={self._memory_mb}"
        self._process = subprocess.Popen(
            ["node", "--no-warnings", "--experimental-vm-modules", heap, self._worker, str(answers_end)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=(answers_end,),
            start_new_session=True,
        )
        os.close(answers_end)
        self._answers = answers
        return self._process


class JavaScript:
    """One revision. Raises DefectError where its source cannot be used."""

    def __init__(self, batch: Batch, budgets: Budgets, node: Node) -> None:
        self._budgets = budgets
        self._node = node
        examined = examine(batch.language, batch.source, node)
        parameters = examined["bindings"].parameters
        bound = batch.entry if batch.entry in examined["bindings"].names else DEFAULT
        self._load = json.dumps(
            {
                "entry": batch.entry,
                "module": examined["module"],
                "shape": _shape(batch.entry, parameters.get(bound, [])),
                "text": examined["text"],
                "lines": examined["lines"],
                "most": batch.limits["result_bytes"],
                "source": _text(batch.source).splitlines(),
                "parts": json.dumps(_parts()),
            }
        ).encode()
        self._loaded = False

    @property
    def last_status(self) -> int:
        """Return the wait status of the process that ended last."""
        return self._node.last_status

    def evaluate(self, arguments: "list[bytes]") -> Seen:
        """Run one evaluation."""
        if not self._loaded or not self._node.is_running:
            _asked(self._node, [b"load", self._load])
            self._loaded = True
        seen = self._node.ask([b"call", *(argument or b"null" for argument in arguments)], self._budgets)
        if seen.status == _INEXACT:
            value = json.loads(seen.value, parse_int=_number)
            seen.value = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
            seen.status = frames.STATUS_RETURNED
        return seen

    def close(self) -> None:
        """End the worker."""
        self._node.close()


def inspect_javascript(batch: Batch, node: Node) -> "dict[str, Any]":
    """Return what the source defines, found without running it."""
    try:
        examined = examine(batch.language, batch.source, node)
    except DefectError as error:
        defect = {"kind": "syntax-error", **error.defect}
        return {"names": {}, "defect": defect}
    bindings: Bindings = examined["bindings"]
    names = dict(bindings.names)
    for entry in _ENTRIES:
        is_other = entry == "evaluate" and _is_bundled(bindings.parameters.get(DEFAULT, []))
        if DEFAULT in names and not is_other:
            names.setdefault(entry, names[DEFAULT])
    names.pop(DEFAULT, None)
    return {"names": names, "defect": None}


def examine(language: str, source: bytes, node: Node) -> "dict[str, Any]":
    """Return text to run, its original lines (None: its own), bindings and kind of a source. Raises DefectError."""
    text, lines = _text(source), None
    if text.startswith("#!"):
        text = f"//{text[2:]}"
    if language == "typescript":
        stripped = _asked(node, [b"strip", text.encode()])
        text, lines = stripped["text"], stripped["lines"]
    tokens = tokens_of(text)
    bindings = bindings_of(tokens)
    try:
        kind = _asked(node, [b"module" if _seems_module(tokens) else b"parse", text.encode()])
    except DefectError as error:
        imports, line = error.defect.pop("imports", None), error.defect["line"]
        if imports is not None:
            line = next((token.line for token in tokens if token.text[1:-1] == imports), None)
        if line is not None and lines is not None:
            line = lines[min(line, len(lines)) - 1]
        error.defect["line"] = line
        raise
    return {"text": text, "lines": lines, "bindings": bindings, "module": kind["module"]}


def _seems_module(tokens: "list[Token]") -> bool:
    return any(token.level == 0 and token.text in ("import", "export", "await") for token in tokens)


def _asked(node: Node, texts: "list[bytes]") -> "dict[str, Any]":
    seen = node.ask(texts, _LOOKING)
    if seen.ended == "died":
        raise LackingError("JavaScript and TypeScript need node (20 or newer) in the snapshot; it could not be run")
    if seen.ended != "answered":
        message = "the source could not be compiled within the limits of time and memory"
        raise DefectError({"message": message, "line": None, "column": None})
    answer: dict[str, Any] = json.loads(seen.value)
    if "lacking" in answer:
        raise LackingError(answer["lacking"])
    if "defect" in answer:
        raise DefectError(answer["defect"])
    return answer


def _text(source: bytes) -> str:
    text = source.decode("utf-8", "surrogatepass")
    if text.startswith("\ufeff"):
        text = text[1:]
    for number, line in enumerate(text.split("\n"), 1):
        if "\0" in line:
            defect = {"message": "the source has a NUL character", "line": number, "column": line.index("\0") + 1}
            raise DefectError(defect)
        if any("\ud800" <= character <= "\udfff" for character in line):
            message = "the source has half of a surrogate pair: not valid text"
            raise DefectError({"message": message, "line": number, "column": None})
    return text


def _number(digits: str) -> "int | float":
    """Read an integer as JavaScript means it: beyond 2**53 it stands for the nearest float, whatever its digits say."""
    number = int(digits)
    return number if -(2**53) < number < 2**53 else float(digits)


def _parts() -> "dict[str, str]":
    """Return the scripts that every JavaScript worker has, by name, without their comments."""
    return {
        file.name[: -len(_SUFFIX)]: re.sub(r"^\s*(//.*)?\n?", "", file.read_text("utf-8"), flags=re.MULTILINE)
        for file in files("assay.runners.children").iterdir()
        if file.name.endswith(_SUFFIX)
    }


def _shape(entry: str, parameters: "list[list[Token]]") -> str:
    if entry != "handler":
        return ""
    return "bundled" if _is_bundled(parameters) else "listed"


def _is_bundled(parameters: "list[list[Token]]") -> bool:
    """Tell whether one parameter, which picks some of a handler's by name, takes them all."""
    if len(parameters) != 1 or parameters[0][0].text != "{":
        return False
    level = parameters[0][0].level + 1
    keys = {
        token.text
        for before, token in itertools.pairwise(parameters[0])
        if token.kind == "word" and token.level == level and before.text in ("{", ",")
    }
    return bool(keys) and keys <= _HANDED

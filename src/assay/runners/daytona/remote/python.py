"""Runs an author's Python: a process of its own for every evaluation, forked from the supervisor."""

import importlib
import io
import os
import resource
import sys
import time
from collections.abc import Callable
from typing import Any, cast

from assay.runners.children.inspection import inspect_source, plainly
from assay.runners.daytona.remote import json_codec
from assay.runners.daytona.remote.batch import Batch
from assay.runners.daytona.remote.watch import HEAD, Budgets, Seen, end_session, end_strays, watch

_PAGE = os.sysconf("SC_PAGE_SIZE")


class Printed(io.RawIOBase):
    """Where the code prints: the pipe that the supervisor reads."""

    def __init__(self) -> None:
        self._write = os.write

    def writable(self) -> bool:
        """Tell that this is for writing."""
        return True

    def write(self, data: Any, /) -> int:
        """Write all of it."""
        rest = memoryview(data)
        while rest:
            rest = rest[self._write(1, rest) :]
        return len(data)

    def close(self) -> None:
        """Stay open, whatever becomes of the streams above."""


class Python:
    """One revision; `forget` wipes what a child must not know."""

    def __init__(self, batch: Batch, budgets: Budgets, forget: Callable[[], None]) -> None:
        self._batch = batch
        self._budgets = budgets
        self._forget = forget
        self._make = _worker_class()
        self._code = inspect_source(batch.source, plainly)[1]

    def evaluate(self, arguments: "list[bytes]") -> Seen:
        """Run one evaluation in a child, which is dead when this returns."""
        answers, answers_end = os.pipe()
        logs, logs_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                self._answer(arguments, answers_end, logs_end)
            finally:
                os._exit(70)
        os.close(answers_end)
        os.close(logs_end)
        seen = None
        try:
            seen = watch(pid, answers, logs, self._budgets)
            return seen
        finally:
            end_session(pid)
            _, self.last_status, used = os.wait4(pid, 0)
            if seen is not None:
                seen.cpu_s, seen.peak_bytes = used.ru_utime + used.ru_stime, used.ru_maxrss * 1024
            os.close(answers)
            os.close(logs)
            end_strays()

    def close(self) -> None:
        """Do nothing: no child outlives its evaluation."""

    def _answer(self, arguments: "list[bytes]", answers: int, logs: int) -> None:
        write, leave, clock, pack = os.write, os._exit, time.perf_counter, HEAD.pack
        os.setsid()
        self._forget()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(logs, 1)
        os.dup2(logs, 2)
        os.dup2(answers, 3)
        os.closerange(4, 1024)
        limits = self._batch.limits
        _bound_memory(limits["memory_bytes"])
        worker = self._make(Printed(), limits["result_bytes"], limits["memory_bytes"])
        worker.load(self._batch.entry, self._code, self._batch.source)
        worker.reset()
        began = clock()
        status, value = worker.answer([memoryview(argument) for argument in arguments])
        rest = memoryview(pack(status, clock() - began, len(value)) + value)
        while rest:
            rest = rest[write(3, rest) :]
        leave(0)


def inspect_python(batch: Batch) -> "dict[str, Any]":
    """Return what the source defines, found without running it."""
    description, _ = inspect_source(batch.source, plainly)
    return {name: description[name] for name in ("names", "needed", "defect")}


def _worker_class() -> Any:
    """Return the worker that every runner has; orjson is lent to it for as long as it is imported."""
    real = sys.modules.get("orjson")
    sys.modules["orjson"] = cast("Any", json_codec)
    try:
        return importlib.import_module("assay.runners.children.worker_python").PythonWorker
    finally:
        del sys.modules["orjson"]
        if real is not None:
            sys.modules["orjson"] = real


def _bound_memory(memory_bytes: int) -> None:
    with open("/proc/self/statm", "rb") as file:
        cap = int(file.read().split()[0]) * _PAGE + memory_bytes
    resource.setrlimit(resource.RLIMIT_AS, (cap, cap))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

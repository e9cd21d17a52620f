"""What runs in each worker process: an engine of its own, and one part after the other."""

import asyncio
import atexit
import os
import threading
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any, TypeVar

import daft
import msgspec
import uvloop
from daft.exceptions import DaftCoreException

from assay.app import open_engine
from assay.batch.execute import execute
from assay.distributed.parquet import UNREADABLE
from assay.distributed.parts import Part
from assay.distributed.results import Counts, counts_at, results_at
from assay.distributed.rows import Row, rows_of
from assay.distributed.task import Task
from assay.domain.check import Check, CheckError
from assay.domain.subject import Testcase
from assay.errors import AssayError
from assay.settings import Settings

CLOSING_S = 4.0
Made = TypeVar("Made")


class PartReport(msgspec.Struct, kw_only=True):
    """How a part went: its counts, whether its results were there already, and why there are none, if so."""

    source: str
    number: int
    counts: Counts
    was_there: bool = False
    problem: str | None = None


class Worker:
    """Evaluates parts. The engine starts with the process and ends with it; its settings are read here."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._parent = os.getppid()
        self._loop = uvloop.new_event_loop()
        # The sandbox ends with the thread that started it, so this one lives as long as the process.
        threading.Thread(target=self._loop.run_forever, name="engine", daemon=True).start()
        self._lifetime = AsyncExitStack()
        self._engine = self._wait(self._lifetime.enter_async_context(open_engine(_settings())))
        atexit.register(self._close)

    @daft.method.batch(return_dtype=daft.DataType.string(), batch_size=1)
    def evaluate(self, parts: daft.Series) -> list[str]:
        """Return the reports of these parts, both as JSON."""
        decoded = [msgspec.json.decode(part, type=Part) for part in parts.to_pylist()]
        return [msgspec.json.encode(self._wait(self._report(part))).decode() for part in decoded]

    def _wait(self, work: Coroutine[Any, Any, Made]) -> Made:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._lifetime.aclose(), self._loop).result(CLOSING_S)

    async def _report(self, part: Part) -> PartReport:
        place = f"{self._task.folder}/{part.result_name}"
        report = PartReport(source=part.file.source, number=part.number, counts=Counts())
        try:
            done = counts_at(place, part)
            if done is not None:
                report.counts, report.was_there = done, True
                return report
            report.counts = await self._evaluate(part, place)
        except (OSError, UNREADABLE, DaftCoreException, AssayError) as error:
            report.problem = str(error)
        return report

    async def _evaluate(self, part: Part, place: str) -> Counts:
        with results_at(place, part, self._task.digest) as results:
            for rows in rows_of(part, self._task):
                results.add(rows, await self._outcomes(rows))
                if os.getppid() != self._parent:
                    raise RuntimeError("The command that this worker belongs to has ended.")
        return results.counts

    async def _outcomes(self, rows: list[Row]) -> list[Check | CheckError]:
        subjects = [row.subject for row in rows if isinstance(row.subject, Testcase)]
        checks = iter(await execute(self._engine, self._task.revision, subjects))
        return [next(checks) if isinstance(row.subject, Testcase) else row.subject for row in rows]


def _settings() -> Settings:
    """Return the settings of this machine, with one warm process for code, as workers are many, unless they say."""
    settings = Settings()  # pyright: ignore[reportCallIssue]
    return settings if settings.sandbox_workers else settings.model_copy(update={"sandbox_workers": 1})

"""Runners that live in the test's own process, for tests where neither sandbox nor network is the point."""

import inspect
import json
import traceback
from collections.abc import Sequence
from typing import Any

from assay.domain.evaluator import ENTRY_POINTS, Revision
from assay.domain.json_value import JsonValue
from assay.domain.outcome import Call, Defect, Inspection, Limits, Outcome, Raised, Returned
from assay.runners.children.inspection import inspect_source, plainly

FILE = "<evaluator>"


class Spans:
    """What `handler` gets as its trace."""

    def __init__(self, records: list[dict[str, Any]]) -> None:
        self._records = records

    async def get_spans(self) -> list[dict[str, Any]]:
        return self._records


class InProcessRunner:
    """Runs Python by exec; whoever writes the test writes the code."""

    description = "in-process"

    async def execute(self, revision: Revision, calls: Sequence[Call], limits: Limits) -> list[Outcome]:
        return [await _run(revision, call) for call in calls]

    async def inspect(self, language: str, source: str, project_id: str = "") -> Inspection:
        found, _ = inspect_source(source.encode(), plainly)
        defect = found["defect"] and Defect(**found["defect"])
        return Inspection(names=found["names"], needed=found["needed"], defect=defect)

    async def close(self) -> None:
        return


class AnsweringRunner:
    """An endpoint that always answers the same, and remembers what it was sent."""

    description = "webhook"

    def __init__(self, answer: JsonValue) -> None:
        self.received: list[Any] = []
        self._answer = answer

    async def execute(self, revision: Revision, calls: Sequence[Call], limits: Limits) -> list[Outcome]:
        self.received += [json.loads(call.arguments[0]) for call in calls]
        return [Returned(value=self._answer) for _ in calls]

    async def inspect(self, language: str, source: str, project_id: str = "") -> Inspection:
        return Inspection(names={})

    async def close(self) -> None:
        return


async def _run(revision: Revision, call: Call) -> Outcome:
    printed: list[str] = []
    names: dict[str, Any] = {"print": lambda *values: printed.append(" ".join(map(str, values)) + "\n")}  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    arguments = [json.loads(argument) for argument in call.arguments]
    if revision.interface == "handler":
        arguments[-1] = Spans(arguments[-1])
    try:
        exec(compile(revision.source or "", FILE, "exec"), names)
        value = names[ENTRY_POINTS[revision.interface or "evaluate"]](*arguments)
        if inspect.iscoroutine(value):
            value = await value
    except Exception as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == FILE]
        return Raised(
            kind="script-raised",
            type=type(error).__name__,
            message=str(error),
            line=lines[-1] if lines else None,
            logs="".join(printed),
        )
    return Returned(value=value, logs="".join(printed), duration_s=0.001)

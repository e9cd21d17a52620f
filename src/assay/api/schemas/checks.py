"""Checks, as history, traces and dry runs show them."""

import re
from typing import Annotated, TypedDict

from pydantic import AfterValidator, Field, JsonValue
from pydantic_core import PydanticCustomError

from assay.api.schemas.fields import Answer, Cursor, Identifier, Limit, Query, iso, shown
from assay.domain.check import Check, CheckStatus
from assay.domain.text import mended_value

ALL_STATUSES: tuple[CheckStatus, ...] = ("scored", "skipped", "errored")
USUAL_STATUSES: tuple[CheckStatus, ...] = ("scored", "errored")
WINDOW = re.compile(r"([1-9][0-9]{0,4})([mhd])")
UNIT_S = {"m": 60, "h": 3600, "d": 86400}


def _known_statuses(values: list[str]) -> list[str]:
    for name in (part.strip() for value in values for part in value.split(",")):
        if name != "all" and name not in ALL_STATUSES:
            raise PydanticCustomError(
                "status",
                "found {found}; allowed are all, or some of scored, skipped, errored with commas between",
                {"found": shown(name)},
            )
    return values


def _window(value: str | None) -> str | None:
    if value is not None and WINDOW.fullmatch(value) is None:
        raise PydanticCustomError(
            "window",
            "found {found}; allowed is a number of minutes, hours or days, such as 30m, 1h, 24h, 7d",
            {"found": shown(value)},
        )
    return value


class EventQuery(Query):
    """Which events; those of skipped traces only on demand."""

    limit: Limit = 50
    cursor: Cursor = None
    window: Annotated[
        str | None, AfterValidator(_window), Field(description="How far back, such as 1h, 24h or 7d.")
    ] = None
    status: Annotated[
        list[str], AfterValidator(_known_statuses), Field(description="`all`, or some of scored, skipped, errored.")
    ] = Field(default_factory=lambda: list[str](USUAL_STATUSES))
    agent_id: Identifier | None = None

    @property
    def statuses(self) -> tuple[CheckStatus, ...]:
        """Return the statuses asked for."""
        names = {part.strip() for value in self.status for part in value.split(",")}
        return tuple(status for status in ALL_STATUSES if status in names or "all" in names)

    def since_ns(self, now_ns: int) -> int | None:
        """Return the start of the window."""
        parts = WINDOW.fullmatch(self.window or "")
        return None if parts is None else now_ns - int(parts[1]) * UNIT_S[parts[2]] * 1_000_000_000


class CheckErrorAnswer(Answer):
    """Why a check errored; `line` is in the author's source."""

    kind: str
    message: str
    line: int | None
    traceback: str | None


class CheckAnswer(Answer):
    """One revision applied to one subject: what the author's code decided, and what running it took."""

    status: CheckStatus
    failed: Annotated[bool, Field(description="Whether it raises a signal.")]
    metrics: dict[str, JsonValue]
    name: str | None
    reason: str | None
    metadata: dict[str, JsonValue] | None
    error: CheckErrorAnswer | None
    logs: str
    duration_ms: float
    runner: str


class _CheckFields(TypedDict):
    status: CheckStatus
    failed: bool
    metrics: dict[str, JsonValue]
    name: str | None
    reason: str | None
    metadata: dict[str, JsonValue] | None
    error: CheckErrorAnswer | None
    logs: str
    duration_ms: float
    runner: str


class EventAnswer(CheckAnswer):
    """A check as recorded."""

    id: str
    trace_id: str | None
    agent_id: str | None
    evaluator_id: str
    revision: Annotated[int | None, Field(description="The number of the revision that made it.")]
    revision_id: str
    recorded_at: str
    recorded_at_ns: int


class EventList(Answer):
    """A page of history, newest first; `totalCount` is of all pages."""

    events: list[EventAnswer]
    total_count: int
    next_cursor: str | None


def check_answer(check: Check) -> CheckAnswer:
    """Return a check that is not recorded, and whose texts nobody has made fit for being so."""
    answer = CheckAnswer(**_check_fields(check))
    return CheckAnswer.model_validate(mended_value(answer.model_dump(by_alias=False)))


def event_answer(check: Check, revision: int | None) -> EventAnswer:
    """Return a recorded check; `revision` is the number of the one that made it."""
    return EventAnswer(
        **_check_fields(check),
        id=check.id,
        trace_id=check.trace_id,
        agent_id=check.agent_id,
        evaluator_id=check.evaluator_id,
        revision=revision,
        revision_id=check.revision_id,
        recorded_at=iso(check.recorded_at_ns),
        recorded_at_ns=check.recorded_at_ns,
    )


def _check_fields(check: Check) -> _CheckFields:
    reading, error = check.reading, check.reading.error
    return {
        "status": reading.status,
        "failed": check.failed,
        "metrics": reading.metrics,
        "name": reading.name,
        "reason": reading.reason,
        "metadata": reading.metadata,
        "error": None
        if error is None
        else CheckErrorAnswer(kind=error.kind, message=error.message, line=error.line, traceback=error.traceback),
        "logs": check.logs,
        "duration_ms": round(check.duration_s * 1000, 3),
        "runner": check.runner,
    }

"""A span as it came over OTLP, in either encoding, before any convention is applied."""

from dataclasses import dataclass, field

from assay.domain.json_value import JsonObject
from assay.domain.trace import SpanStatus

SHOWN_PROBLEMS = 5
MAX_DEPTH = 64
MOST_ENTRIES = 2000
"""Attributes of a span, an event or a resource; and events of a span."""
LONGEST_NAME = 1000
LONGEST_SHARED = 200
"""Characters of a text that every span repeats, such as the name of its agent."""
EARLIEST_NS = 31_536_000 * 1_000_000_000
"""The end of 1970: an earlier time is a unit mistake or an unset clock, never the time of a span."""
LATEST_NS = 2**63 - 1
STATUSES: tuple[SpanStatus, ...] = ("UNSET", "OK", "ERROR")


class SpanDefect(Exception):
    """What is wrong with one span; the others of its request are kept."""


@dataclass(slots=True, kw_only=True)
class Source:
    """What spans of one scope have in common."""

    resource: JsonObject
    scope: str


@dataclass(slots=True)
class ReceivedSpan:
    """One span in neutral form: lower-case hex ids, plain values, nanoseconds or None."""

    trace_id: str
    span_id: str
    parent_span_id: str | None
    name: str
    started_at_ns: int | None
    ended_at_ns: int | None
    status: SpanStatus
    status_message: str
    attributes: JsonObject
    events: list[tuple[str, JsonObject]]
    source: Source


@dataclass(slots=True, kw_only=True)
class Received:
    """The readable spans of a request, how many were not, and what was wrong with the first of those."""

    spans: list[ReceivedSpan] = field(default_factory=list[ReceivedSpan])
    rejected: int = 0
    problems: list[str] = field(default_factory=list[str])

    def reject(self, where: str, what: str) -> None:
        """Count a span (or a container that cannot be read) as rejected."""
        self.rejected += 1
        if len(self.problems) < SHOWN_PROBLEMS:
            self.problems.append(f"{where}: {what}")


def demand_entries(count: int, where: str) -> None:
    """Raise SpanDefect for more attributes or events than a span may have."""
    if count > MOST_ENTRIES:
        raise SpanDefect(f"{where} holds {count} entries; at most {MOST_ENTRIES} are allowed.")


def cut_text(text: str, most: int) -> str:
    """Return the text, cut to `most` characters where it is longer; then it ends in an ellipsis."""
    return text if len(text) <= most else text[: most - 1] + "…"


def plausible_time(at_ns: int) -> int | None:
    """Return the time, or None when no span can have it."""
    return at_ns if EARLIEST_NS <= at_ns <= LATEST_NS else None

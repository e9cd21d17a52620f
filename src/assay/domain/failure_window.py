"""The last checks of an evaluator over an agent, where it takes more than one failure to raise a signal."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from assay.domain.check import Metrics
from assay.domain.severity import Severity, is_worse

EVIDENCE_KEPT = 10
MOST_COUNTED = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RaiseAfter:
    """Raise when at least `failures` of the last `of` checks failed; 1 <= failures <= of <= 100."""

    failures: int = 1
    of: int = 1


EVERY_FAILURE = RaiseAfter()


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """One failing check, as a signal remembers it."""

    check_id: str
    trace_id: str
    metrics: Metrics
    reason: str | None
    occurred_at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """Failures that go into a signal together; `occurrences` are the last ten of them, newest first."""

    count: int
    severity: Severity
    first_ns: int
    last_ns: int
    occurrences: tuple[Occurrence, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A failure in the window; `is_folded` says that a signal has it already."""

    severity: Severity
    occurred_at_ns: int
    is_folded: bool = False


Passed: TypeAlias = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureWindow:
    """The last checks, oldest first, and the last ten failures among them that no signal has yet, oldest first.

    Closing a signal starts a new window: what somebody has dealt with does not count again. `closings` tells how often
    the signal had been closed when this one began.
    """

    closings: int = 0
    entries: tuple[Failed | Passed, ...] = ()
    waiting: tuple[Occurrence, ...] = field(default=())

    @property
    def failures(self) -> int:
        """Return how many of the checks failed."""
        return sum(entry is not None for entry in self.entries)


def slid(window: FailureWindow, failure: tuple[Occurrence, Severity] | None, *, of: int) -> FailureWindow:
    """Return the window of the last `of` checks after one more, which failed like this or, for None, passed."""
    entry = None
    waiting = window.waiting
    if failure is not None:
        occurrence, severity = failure
        entry = Failed(severity=severity, occurred_at_ns=occurrence.occurred_at_ns)
        waiting = (*waiting, occurrence)
    entries = (*window.entries, entry)[-of:]
    unfolded = sum(entry is not None and not entry.is_folded for entry in entries)
    kept = min(unfolded, EVIDENCE_KEPT)
    return replace(window, entries=entries, waiting=waiting[len(waiting) - kept :])


def taken(window: FailureWindow) -> tuple[Failures | None, FailureWindow]:
    """Return the failures that no signal has yet, and the window in which one has them."""
    fresh = [entry for entry in window.entries if entry is not None and not entry.is_folded]
    if not fresh:
        return None, window
    worst = fresh[0].severity
    for entry in fresh:
        worst = entry.severity if is_worse(entry.severity, worst) else worst
    failures = Failures(
        count=len(fresh),
        severity=worst,
        first_ns=min(entry.occurred_at_ns for entry in fresh),
        last_ns=max(entry.occurred_at_ns for entry in fresh),
        occurrences=newest(window.waiting),
    )
    entries = tuple(None if entry is None else replace(entry, is_folded=True) for entry in window.entries)
    return failures, replace(window, entries=entries, waiting=())


def newest(occurrences: Sequence[Occurrence]) -> tuple[Occurrence, ...]:
    """Return the last ten occurrences, newest first."""
    ordered = sorted(occurrences, key=lambda occurrence: (occurrence.occurred_at_ns, occurrence.check_id), reverse=True)
    return tuple(ordered[:EVIDENCE_KEPT])

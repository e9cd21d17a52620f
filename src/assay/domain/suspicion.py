"""When a revision that crashes again and again is paused, and what its author is told."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from assay.domain.breaker import FAILURES_TO_OPEN, Breaker, Pauses, after
from assay.domain.check import CheckError, Verdict
from assay.domain.outcome import Exceeded, Outcome, Raised, Unavailable, is_crash

PAUSES = Pauses(first_s=15.0, longest_s=300.0)
"""A probe of what hangs costs the whole budget of wall time, 8 s unless set otherwise."""
PAUSED = "evaluator-paused"
SHOWN_OF_CRASH = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspicion:
    """What is remembered of a revision that crashed: its breaker, and the message of its last crash."""

    breaker: Breaker = field(default_factory=lambda: Breaker(pauses=PAUSES))
    last: str = ""

    @property
    def is_none(self) -> bool:
        """Tell whether there is nothing to remember."""
        return not self.breaker.failures

    def admitted(self, waiting: int, now_s: float) -> int:
        """Return how many of the calls that wait may run together.

        All of them when the last one did not crash, no more than it takes to pause the revision when it did; one as
        the probe, and none while paused.
        """
        if self.breaker.wait_s(now_s):
            return 0
        if self.breaker.openings:
            return 1
        return min(waiting, FAILURES_TO_OPEN - self.breaker.failures) if self.breaker.failures else waiting

    def noted(self, outcomes: Sequence[Outcome], now_s: float) -> "tuple[Suspicion, int | None]":
        """Return what is known after these outcomes, in their order, and the index of the crash that paused it."""
        told = [index for index, outcome in enumerate(outcomes) if not isinstance(outcome, Unavailable)]
        crashes = [outcome for outcome in outcomes if isinstance(outcome, Raised | Exceeded) and is_crash(outcome)]
        breaker, opened_by = after(self.breaker.unprobed(), [not is_crash(outcomes[index]) for index in told], now_s)
        last = crashes[-1].message[:SHOWN_OF_CRASH].rstrip(".") if crashes else self.last
        return replace(self, breaker=breaker, last=last), None if opened_by is None else told[opened_by]

    def refusal(self, until_ns: int) -> CheckError:
        """Return the error of a check that is kept back; it is tried again at that time."""
        return CheckError(
            kind=PAUSED,
            message=f"the evaluator is paused and this check was not run: {self._story()} It is tried again with one "
            f"check after {_clock_time(until_ns)}; a new revision is tried at once",
        )

    def verdict(self, until_ns: int) -> Verdict:
        """Return the verdict on the check whose crash paused the evaluator."""
        reason = f"The evaluator itself is failing, and is paused until {_clock_time(until_ns)}: {self._story()}"
        return Verdict(failed=True, reason=reason)

    def _story(self) -> str:
        return (
            f"{self.breaker.failures} of its checks in a row ended their process or used up a budget, "
            f"the last one with: {self.last}."
        )


def _clock_time(at_ns: int) -> str:
    return datetime.fromtimestamp(at_ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

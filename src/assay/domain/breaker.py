"""A breaker: what fails again and again is left alone for a while, then tried with a single probe."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

FAILURES_TO_OPEN = 5
PROBE_LOOK_S = 0.5
"""How long to wait for the end of somebody else's probe before looking again, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """How long a breaker stays open: at first, and at most; it is twice as long each time the probe fails. Seconds."""

    first_s: float
    longest_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """Failures in a row. Times are seconds of one clock that the caller hands in.

    After five it opens. While it is half open, one call at a time goes through, as the probe, which closes it or opens
    it again. `openings` counts those since the last success; 0 is closed.
    """

    pauses: Pauses
    failures: int = 0
    openings: int = 0
    open_until: float = 0.0
    probe_until: float = 0.0

    def wait_s(self, now: float) -> float:
        """Return how long the next call has to wait; 0 lets it through, as the probe unless the breaker is closed."""
        if now < self.open_until:
            return self.open_until - now
        return PROBE_LOOK_S if self.openings and now < self.probe_until else 0.0

    def probing(self, until: float) -> "Breaker":
        """Return it with the probe on its way, until it comes back or that time."""
        return replace(self, probe_until=until)

    def unprobed(self) -> "Breaker":
        """Return it with the probe given up: neither did it succeed, nor did it fail."""
        return replace(self, probe_until=0.0)

    def succeeded(self) -> "Breaker":
        """Return it closed."""
        return Breaker(pauses=self.pauses)

    def failed(self, now: float) -> "Breaker":
        """Return it after one more failure; those of calls that were on their way do not keep it open longer."""
        counted = replace(self, failures=self.failures + 1, probe_until=0.0)
        if counted.failures < FAILURES_TO_OPEN or now < self.open_until:
            return counted
        pause_s = min(self.pauses.longest_s, self.pauses.first_s * 2.0 ** min(self.openings, 10))
        return replace(counted, openings=self.openings + 1, open_until=now + pause_s)


def after(breaker: Breaker, results: Iterable[bool], now: float) -> tuple[Breaker, int | None]:
    """Return the breaker after these results in their order (True: a success), and which one opened it.

    None when none did, or when one that came later closed it again.
    """
    opened_by: int | None = None
    for index, is_success in enumerate(results):
        openings = breaker.openings
        breaker = breaker.succeeded() if is_success else breaker.failed(now)
        if is_success:
            opened_by = None
        elif breaker.openings > openings:
            opened_by = index
    return breaker, opened_by

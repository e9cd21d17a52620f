"""A breaker: an endpoint that fails again and again is left alone for a while, then tried with a single call."""

from assay.guarded_http.failure import LONGEST_WAIT_S, CallError

FAILURES_TO_OPEN = 5
FIRST_OPEN_S = 5.0
LONGEST_OPEN_S = 60.0
PROBE_LOOK_S = 0.5


class Breaker:
    """Counts an endpoint's failures in a row. Times are monotonic seconds that the caller hands in.

    After five failures it opens, for 5 s and twice as long each time its probe fails, up to a minute. While it is half
    open one call at a time goes through, as the probe; an answer closes it. A Retry-After holds calls back as well.
    """

    def __init__(self) -> None:
        self.last: CallError | None = None
        self._failures = 0
        self._openings = 0
        self._open_until = 0.0
        self._probe_until = 0.0
        self._asked_until = 0.0

    def delay_s(self, now: float, *, probe_s: float) -> float:
        """Return how long the next call has to wait; 0 lets it through, as the probe of `probe_s` where one is due."""
        held_until = max(self._open_until, self._asked_until)
        if now < held_until:
            return held_until - now
        if self._openings == 0:
            return 0.0
        if now < self._probe_until:
            return PROBE_LOOK_S
        self._probe_until = now + probe_s
        return 0.0

    def answered(self) -> None:
        """Note that the endpoint is there, whatever it answered."""
        self._failures = self._openings = 0
        self._open_until = self._probe_until = 0.0

    def failed(self, error: CallError, now: float) -> None:
        """Note a failure that may pass."""
        self.last = error
        self._failures += 1
        self._probe_until = 0.0
        if self._failures >= FAILURES_TO_OPEN and now >= self._open_until:
            self._open_until = now + min(LONGEST_OPEN_S, FIRST_OPEN_S * 2.0 ** min(self._openings, 10))
            self._openings += 1
        if error.retry_after_s is not None:
            self._asked_until = max(self._asked_until, now + min(error.retry_after_s, LONGEST_WAIT_S))

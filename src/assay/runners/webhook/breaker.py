"""The breaker of one endpoint, with its last failure and the Retry-After it asked for."""

from assay.domain import breaker as domain
from assay.guarded_http.failure import LONGEST_WAIT_S, CallError

PAUSES = domain.Pauses(first_s=5.0, longest_s=60.0)


class Breaker:
    """Decides when an endpoint is left alone. Times are monotonic seconds that the caller hands in.

    After five failures in a row it opens, for 5 s and twice as long each time its probe fails, up to a minute. A
    Retry-After holds calls back as well, though others are answered.
    """

    def __init__(self) -> None:
        self.last: CallError | None = None
        self._state = domain.Breaker(pauses=PAUSES)
        self._asked_until = 0.0

    def delay_s(self, now: float, *, probe_s: float) -> float:
        """Return how long the next call has to wait; 0 lets it through, as the probe of `probe_s` where one is due."""
        if now < self._asked_until:
            return max(self._asked_until - now, self._state.wait_s(now))
        wait_s = self._state.wait_s(now)
        if not wait_s and self._state.openings:
            self._state = self._state.probing(now + probe_s)
        return wait_s

    def answered(self) -> None:
        """Note that the endpoint is there, whatever it answered."""
        self._state = self._state.succeeded()

    def failed(self, error: CallError, now: float) -> None:
        """Note a failure that may pass."""
        self.last = error
        self._state = self._state.failed(now)
        if error.retry_after_s is not None:
            self._asked_until = max(self._asked_until, now + min(error.retry_after_s, LONGEST_WAIT_S))

"""How an exchange with an endpoint fails."""

from assay.domain.outcome import RaisedKind

LONGEST_WAIT_S = 300.0


class CallError(Exception):
    """The exchange failed in a way the evaluator's author can mend.

    A `passing` failure may be gone at the next attempt, which the endpoint wants no sooner than `retry_after_s`, in
    seconds, if it said so.
    """

    def __init__(
        self, kind: RaisedKind, message: str, *, passing: bool = False, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.kind: RaisedKind = kind
        self.passing = passing
        self.retry_after_s = retry_after_s

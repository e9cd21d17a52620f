"""How an exchange with an endpoint fails."""

from assay.domain.outcome import RaisedKind


class CallError(Exception):
    """The exchange failed in a way the evaluator's author can mend."""

    def __init__(self, kind: RaisedKind, message: str) -> None:
        super().__init__(message)
        self.kind: RaisedKind = kind

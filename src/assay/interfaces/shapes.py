"""What came back from the author's code, in the words of their language, and the rules all scores share."""

import math

from assay.domain.check import CheckError, Reading
from assay.domain.evaluator import Language
from assay.domain.json_value import JsonValue

ROUNDING = 1e-6


def errored(kind: str, message: str) -> Reading:
    """Return the reading of a check that could not be scored."""
    return Reading(status="errored", error=CheckError(kind=kind, message=message))


def described(value: JsonValue, language: Language | None) -> str:
    """Name a value's type as its author would, with the value itself where it is short."""
    name = _python_name(value) if language in (None, "python") else _javascript_name(value)
    if value is None or isinstance(value, list | dict):
        return name
    shown = str(value)
    return f"{name} {shown if len(shown) <= 40 else shown[:40] + '…'}"


def score_of(value: float, what: str) -> float | Reading:
    """Return the score, or the errored reading of a number that is none.

    A score is 0 to 1. A rounding error of up to 1e-6 beyond is taken back to 0 or 1; anything further is refused,
    since it means another scale. `what` names the number in the message.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return errored("non-finite", f"{what} is {value}; a score must be a number from 0 to 1.")
    if not -ROUNDING <= value <= 1 + ROUNDING:
        return errored("score-out-of-range", f"{what} is {_short(value)}; a score must be a number from 0 to 1.")
    return min(1.0, max(0.0, float(value)))


def _short(value: float) -> str:
    """Show a number; integers can have more digits than anyone reads."""
    if isinstance(value, float) or abs(value) < 10**18:
        return str(value)
    return f"an integer of {value.bit_length()} bits"


def _python_name(value: JsonValue) -> str:
    return "None" if value is None else type(value).__name__


def _javascript_name(value: JsonValue) -> str:
    match value:
        case None:
            return "null or undefined"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"

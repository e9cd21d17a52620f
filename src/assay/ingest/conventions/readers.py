"""Readers of attribute values: each returns the value in our terms, or None when it does not hold one."""

import msgspec

from assay.domain.json_value import JsonObject, JsonValue
from assay.ingest.received import MAX_DEPTH

INT64_HIGH = 2**63 - 1
LARGEST_AMOUNT = 1e18
INT64_DIGITS = 19
AG_JSON = "@ag.type=json:"
AG_NONE = "@ag.type=none:"
_DIGITS = bytes(48 if 48 <= code <= 57 else 32 for code in range(256))
_LONG_NUMBER = b"0" * INT64_DIGITS


def parsed(text: str) -> JsonValue:
    """Return the value of JSON text; the text itself when it is none, or is nested too deeply.

    Integers beyond 64 bits become text, since few readers of JSON can hold them.
    """
    try:
        value: JsonValue = msgspec.json.decode(text)
        if text.count("[") + text.count("{") > MAX_DEPTH or _LONG_NUMBER in text.encode().translate(_DIGITS):
            value = _bounded(value, MAX_DEPTH)
    except (ValueError, RecursionError):
        return text
    return value


def _bounded(value: JsonValue, depth: int) -> JsonValue:
    if depth < 0:
        raise RecursionError
    if isinstance(value, dict):
        return {key: _bounded(item, depth - 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_bounded(item, depth - 1) for item in value]
    if isinstance(value, int) and not -INT64_HIGH <= value <= INT64_HIGH:
        return str(value)
    return value


def content(value: JsonValue) -> JsonValue:
    """Return an input or output: JSON text of an object or list as its value, any other text as it is."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        return parsed(value)
    return value


def json_content(value: JsonValue) -> JsonValue:
    """Return an input or output that its family always writes as JSON text."""
    return parsed(value) if isinstance(value, str) else value


def ag_content(value: JsonValue) -> JsonValue:
    """Return a value with Agenta's type prefix taken off and obeyed."""
    if isinstance(value, str):
        if value.startswith(AG_JSON):
            return parsed(value[len(AG_JSON) :])
        if value.startswith(AG_NONE):
            return None
    return value


def text(value: JsonValue) -> str | None:
    """Return text that is not empty."""
    return value if isinstance(value, str) and value else None


def ag_text(value: JsonValue) -> str | None:
    """Return text that is not empty, with Agenta's type prefix obeyed."""
    return text(ag_content(value))


def kind(value: JsonValue) -> str | None:
    """Return a span kind in lower case."""
    return value.lower() if isinstance(value, str) and value else None


def count(value: JsonValue) -> int | None:
    """Return a whole number of at least 0, given as a number or as text."""
    if isinstance(value, str):
        value = int(value) if value.isdecimal() and len(value) < INT64_DIGITS else None
    elif isinstance(value, float):
        value = int(value) if value.is_integer() else None
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= INT64_HIGH:
        return value
    return None


def amount(value: JsonValue) -> float | None:
    """Return a number from 0 to 1e18, beyond which sums and units overflow, given as a number or as text."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= LARGEST_AMOUNT:
        return float(value)
    return None


def milliseconds(value: JsonValue) -> float | None:
    """Return a duration given in milliseconds, in seconds."""
    duration_ms = amount(value)
    return None if duration_ms is None else duration_ms / 1000


def record(value: JsonValue) -> JsonObject | None:
    """Return an object, given as such or as JSON text; anything else that is not empty under the name `value`."""
    value = content(value)
    if isinstance(value, dict):
        return value
    return None if value in (None, "") else {"value": value}


def sub_object(name: str, value: JsonValue) -> JsonValue:
    """Return a member of an object that wraps it, or the value itself when it does not."""
    return value[name] if isinstance(value, dict) and name in value else value

"""Moments as people write them: ISO 8601 text, or a number since the epoch in whichever unit."""

from datetime import UTC, datetime

from assay.domain.json_value import JsonValue
from assay.ingest.received import EARLIEST_NS, plausible_time

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NS_PER_S = 1_000_000_000
FRACTION_DIGITS = 9
NS_PER_UNIT = (NS_PER_S, 1_000_000, 1_000, 1)
"""Seconds, milliseconds, microseconds, nanoseconds."""
TEN_BILLION_S = 10_000_000_000
"""The year 2286: up to there a number of seconds is too small to be a later unit's time after 1970."""


def read_moment(value: JsonValue) -> int | None:
    """Return nanoseconds since the epoch, None when the value is no time after 1970, or has no time zone."""
    if isinstance(value, str):
        text = value.strip()
        return _from_number(int(text)) if _is_whole(text) else _from_iso(text)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _from_number(value)
    return None


def _is_whole(text: str) -> bool:
    return text.isdecimal() and text.isascii() and FRACTION_DIGITS < len(text) <= len(str(2**63))


def _from_number(number: int | float) -> int | None:
    """Read a number in the unit in which it lies between 1971 and 2286, of which there is at most one."""
    for ns_per_unit in NS_PER_UNIT:
        if EARLIEST_NS <= number * ns_per_unit < TEN_BILLION_S * NS_PER_S:
            whole = int(number)
            return plausible_time(whole * ns_per_unit + round((number - whole) * ns_per_unit))
    return None


def _from_iso(text: str) -> int | None:
    """Read the fraction apart, since datetime ends at microseconds."""
    whole, _, rest = text.partition(".")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    try:
        moment = datetime.fromisoformat(whole + rest[len(digits) :])
    except ValueError:
        return None
    if moment.tzinfo is None or ":" not in whole:
        return None
    since = moment - EPOCH
    at_ns = (since.days * 86_400 + since.seconds) * NS_PER_S + since.microseconds * 1000
    return plausible_time(at_ns + int(digits[:FRACTION_DIGITS].ljust(FRACTION_DIGITS, "0")))

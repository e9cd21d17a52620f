"""Identifiers: stable ones derived from what they name, and time-ordered ones for new things."""

import hashlib
import uuid


def derived_id(prefix: str, *parts: str | int) -> str:
    """Return the same id for the same parts, everywhere and for ever.

    Parts are length-prefixed, so ("ab", "c") and ("a", "bc") differ.
    """
    digest = hashlib.sha256()
    for part in parts:
        text = str(part).encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(text))
        digest.update(text)
    return f"{prefix}_{digest.hexdigest()[:24]}"


def new_id(prefix: str, now_ns: int) -> str:
    """Return a new id that sorts by its time of making (millisecond, then random)."""
    return f"{prefix}_{now_ns // 1_000_000:012x}{uuid.uuid4().hex[:12]}"

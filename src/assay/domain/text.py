"""Text that is text in every encoding, and that every database can hold."""

from assay.domain.json_value import JsonValue


def mended(text: str) -> str:
    """Return the text with what is no character in any encoding (half a surrogate pair) replaced by U+FFFD."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def mended_value(value: JsonValue) -> JsonValue:
    """Return the value with all its texts mended, keys included."""
    if isinstance(value, str):
        return mended(value)
    if isinstance(value, list):
        return [mended_value(item) for item in value]
    if isinstance(value, dict):
        return {mended(key): mended_value(item) for key, item in value.items()}
    return value


def without_nul(text: str) -> str:
    """Return the text with NUL, which not every database can hold, replaced by U+FFFD."""
    return text.replace("\0", "\ufffd") if "\0" in text else text


def storable(text: str) -> str:
    """Return the text as every database can hold it: mended, and without NUL."""
    return mended(without_nul(text))

"""JSON bodies: read leniently where real senders stray from the standard, and refused with the reason where not."""

import json

import msgspec

from assay.domain.json_value import JsonValue
from assay.domain.text import storable
from assay.errors import InvalidInputError
from assay.ingest.bodies import too_many_values

VALUE_MARKS = (b",", b"[", b"{")


def read_document(body: bytes, expected: str, most_values: int) -> JsonValue:
    """Return the value of a JSON body; raise InvalidInputError, saying what was `expected`, when it is none.

    Lone surrogates become U+FFFD; a bare NaN or Infinity becomes that text. A body that may hold more than
    `most_values` values raises PayloadTooLargeError; commas and brackets inside texts count as though they were some.
    """
    if len(body) > most_values and sum(map(body.count, VALUE_MARKS)) > most_values:
        raise too_many_values(most_values)
    if not body.strip():
        raise InvalidInputError(f"The body is empty; expected {expected}.")
    try:
        return msgspec.json.decode(body)
    except RecursionError as error:
        raise InvalidInputError("The body is nested too deeply to be read.") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        problem = str(error)
    try:
        return _cleaned(json.loads(body, parse_constant=str))
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"The body is not JSON: {problem}.") from error


def kind_of(value: JsonValue) -> str:
    """Name the kind of a JSON value, with its article."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case dict():
            return "an object"


def shown(value: JsonValue) -> str:
    """Show a value in a message: itself, shortened, or its kind where it is an object or a list."""
    return kind_of(value) if isinstance(value, dict | list) else repr(value)[:60]


def _cleaned(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    if isinstance(value, dict):
        return {storable(key): _cleaned(item) for key, item in value.items()}
    return value

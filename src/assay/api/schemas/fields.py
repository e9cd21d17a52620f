"""What the fields of requests and answers have in common: their spelling, their checks, their times."""

from typing import Annotated, Any, ClassVar, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from assay.domain.text import mended
from assay.ingest.moments import read_moment
from assay.interfaces.spans import microseconds_iso

LONGEST_NAME = 200


def shown(value: object) -> str:
    """Show what was found, briefly."""
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "…"


def _share(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise PydanticCustomError("share", "must be a number between 0 and 1; found {found}", {"found": shown(value)})
    return float(value)


def _storable(text: str) -> str:
    if "\0" in text:
        raise PydanticCustomError("text", "holds the character U+0000, which text here cannot have")
    if not text.isascii() and text != mended(text):
        raise PydanticCustomError("text", "holds half of a surrogate pair, which is no character")
    return text


def _moment(value: object) -> int:
    at_ns = read_moment(value) if isinstance(value, str) else None
    if at_ns is None:
        raise PydanticCustomError(
            "moment",
            'must be a time with its zone, like "2026-12-01T10:00:00Z"; found {found}',
            {"found": shown(value)},
        )
    return at_ns


Moment = Annotated[
    int, BeforeValidator(_moment, json_schema_input_type=str), WithJsonSchema({"type": "string", "format": "date-time"})
]
Share = Annotated[float, BeforeValidator(_share), Field(ge=0, le=1)]
Text = Annotated[str, AfterValidator(_storable)]
Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME), AfterValidator(_storable)]
Identifier = Name
Limit = Annotated[int, Field(ge=1, le=200, description="How many at most, 1 to 200.")]
Cursor = Annotated[str | None, Field(max_length=1000, description="`nextCursor` of the page before.")]


def _known_only(model: type[BaseModel], data: object, also: frozenset[str]) -> dict[str, Any] | None:
    """Return the fields of an object, all of which the model knows; None for what is no object."""
    if not isinstance(data, dict):
        return None
    given = cast("dict[str, Any]", data)
    known = [field.alias or name for name, field in model.model_fields.items()]
    unknown = [name for name in given if name not in known and name not in also]
    if unknown:
        raise PydanticCustomError(
            "unknown-field",
            "unknown field {unknown}; allowed are {known}",
            {
                "field": mended(unknown[0][:60]),
                "unknown": ", ".join(shown(name) for name in unknown[:5]),
                "known": ", ".join(known),
            },
        )
    return given


class Request(BaseModel):
    """A JSON object somebody sends: a field we do not know is refused by name, and nothing is converted silently."""

    model_config = ConfigDict(strict=True, extra="forbid", alias_generator=to_camel)
    read_only: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="before")
    @classmethod
    def _demand_known(cls, data: object) -> object:
        """Refuse fields nobody knows; drop what we print ourselves and nobody can set."""
        given = _known_only(cls, data, also=cls.read_only)
        return {name: value for name, value in given.items() if name not in cls.read_only} if given else data


class Query(BaseModel):
    """Query parameters; one we do not know is refused, since it would otherwise silently filter nothing."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel)

    @model_validator(mode="before")
    @classmethod
    def _demand_known(cls, data: object) -> object:
        """Refuse parameters nobody knows."""
        _known_only(cls, data, also=frozenset())
        return data


class Answer(BaseModel):
    """A JSON object we send, in camelCase."""

    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True, serialize_by_alias=True)


def iso(at_ns: int) -> str:
    """Write a time of ours as ISO 8601 in UTC, to the microsecond."""
    return microseconds_iso(at_ns) or ""


__all__ = [
    "LONGEST_NAME",
    "Answer",
    "Cursor",
    "Identifier",
    "JsonValue",
    "Limit",
    "Moment",
    "Name",
    "Query",
    "Request",
    "Share",
    "Text",
    "iso",
    "shown",
]

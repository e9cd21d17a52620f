"""What span events say: exceptions, and messages of the event-based conventions."""

from collections.abc import Iterable

from assay.domain.json_value import JsonObject, JsonValue
from assay.ingest.conventions.attributes import Found, look_up
from assay.ingest.conventions.families import ATTRIBUTE_EVENTS, MESSAGE_EVENTS
from assay.ingest.conventions.family import MessageEvent
from assay.ingest.conventions.readers import content

EXCEPTION = "exception"
MESSAGE_FIELDS = ("tool_calls", "id", "finish_reason")


def read_events(found: Found, events: Iterable[tuple[str, JsonObject]]) -> None:
    """Add what the events say, for fields that the span's attributes left open."""
    spoken: dict[str, list[JsonValue]] = {}
    for name, attributes in events:
        if name in ATTRIBUTE_EVENTS:
            look_up(found, attributes)
        elif (event := MESSAGE_EVENTS.get(name)) is not None:
            spoken.setdefault(event.field, []).append(_message(event, attributes))
    if "input_messages" in spoken:
        found.values.setdefault("input_messages", spoken["input_messages"])
    if "output_messages" in spoken:
        found.values.setdefault("output_messages", spoken["output_messages"])


def _message(event: MessageEvent, attributes: JsonObject) -> JsonValue:
    whole = content(attributes.get("message"))
    if isinstance(whole, dict):
        return {"role": event.role, **whole}
    role = attributes.get("role")
    message: JsonObject = {"role": role if isinstance(role, str) else event.role}
    for key in event.content:
        if key in attributes:
            message["content"] = content(attributes[key])
            break
    for key in MESSAGE_FIELDS:
        if key in attributes:
            message[key] = content(attributes[key])
    return message


def exception_text(events: Iterable[tuple[str, JsonObject]]) -> str | None:
    """Return type and message of the last exception recorded."""
    told: str | None = None
    for name, attributes in events:
        if name == EXCEPTION:
            parts = [attributes.get("exception.type"), attributes.get("exception.message")]
            told = ": ".join(part for part in parts if isinstance(part, str) and part) or told
    return told

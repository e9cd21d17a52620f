"""Chat messages, in the shapes that instrumentations record them."""

from assay.domain.json_value import JsonObject, JsonValue
from assay.ingest.conventions.readers import content

OPENINFERENCE_MESSAGE = "message"
TEXT_PARTS = ("text", "output_text", "input_text")


def messages(value: JsonValue) -> JsonValue:
    """Return a list of messages without the wrapper that OpenInference puts around each."""
    if not isinstance(value, list):
        return value
    return [
        item[OPENINFERENCE_MESSAGE] if isinstance(item, dict) and set(item) == {OPENINFERENCE_MESSAGE} else item
        for item in value
    ]


def as_said(value: JsonValue) -> JsonValue:
    """Return a lone message of nothing but text as that text; anything else as it is."""
    only = value[0] if isinstance(value, list) and len(value) == 1 else None
    if not isinstance(only, dict) or only.get("tool_calls"):
        return value
    said = only.get("parts") if "parts" in only else only.get("content")
    if isinstance(said, str):
        return said
    if not isinstance(said, list) or not said:
        return value
    texts: list[str] = []
    for part in said:
        if not isinstance(part, dict) or part.get("type") not in TEXT_PARTS:
            return value
        words = part.get("content", part.get("text"))
        if not isinstance(words, str):
            return value
        texts.append(words)
    return "\n".join(texts)


def with_instructions(instructions: JsonValue, spoken: JsonValue) -> JsonValue:
    """Return the messages with the system instructions as the first of them."""
    first: JsonObject = {"role": "system"}
    first["parts" if isinstance(instructions, list) else "content"] = instructions
    if isinstance(spoken, list):
        return [first, *spoken]
    return [first] if spoken is None else [first, {"role": "user", "content": spoken}]


def requested_tool_calls(value: JsonValue) -> list[JsonValue]:
    """Return the tool calls that messages ask for, as `{id, name, arguments}`."""
    calls: list[JsonValue] = []
    if not isinstance(value, list):
        return calls
    for message in value:
        if not isinstance(message, dict):
            continue
        parts = message.get("parts")
        if isinstance(parts, list):
            calls += [_call(part) for part in parts if isinstance(part, dict) and part.get("type") == "tool_call"]
        listed = message.get("tool_calls")
        if isinstance(listed, list):
            calls += [_call(call) for call in listed if isinstance(call, dict)]
    return calls


def _call(call: JsonObject) -> JsonValue:
    wrapped = call.get("tool_call")
    if isinstance(wrapped, dict):
        call = wrapped
    function = call.get("function")
    named = function if isinstance(function, dict) else call
    return {"id": call.get("id"), "name": named.get("name"), "arguments": content(named.get("arguments"))}

"""Pydantic AI under Logfire: what it records beside the GenAI conventions."""

from assay.domain.json_value import JsonValue
from assay.ingest.conventions.family import Family
from assay.ingest.conventions.readers import content


def _before_answer(value: JsonValue) -> JsonValue:
    """Return the messages up to the first answer: what the run began with."""
    messages = content(value)
    if not isinstance(messages, list):
        return messages
    roles = [message.get("role") if isinstance(message, dict) else None for message in messages]
    return messages[: roles.index("assistant")] if "assistant" in roles else messages


LOGFIRE = Family(
    name="logfire",
    keys={
        "input_messages": ("pydantic_ai.all_messages", "all_messages_events"),
        "output": ("final_result",),
        "tool_input": ("tool_arguments",),
        "tool_output": ("tool_response",),
        "cost": ("operation.cost",),
    },
    readers={"input_messages": _before_answer},
)

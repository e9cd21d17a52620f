"""OpenLLMetry's own attributes; its model calls use the older keys of the GenAI conventions."""

from assay.domain.json_value import JsonValue
from assay.ingest.conventions.family import Family, Prefix
from assay.ingest.conventions.readers import content, json_content, sub_object


def _entity_input(value: JsonValue) -> JsonValue:
    """Return what the entity was called with, without the recorder's wrapping of arguments."""
    value = sub_object("inputs", json_content(value))
    if isinstance(value, dict) and set(value) == {"args", "kwargs"}:
        if not value["args"]:
            return value["kwargs"]
        if not value["kwargs"]:
            return value["args"]
    return value


def _entity_output(value: JsonValue) -> JsonValue:
    return sub_object("outputs", json_content(value))


TRACELOOP = Family(
    name="traceloop",
    keys={
        "input": ("traceloop.entity.input",),
        "output": ("traceloop.entity.output",),
        "kind": ("traceloop.span.kind",),
        "tool_name": ("traceloop.entity.name",),
        "session_id": ("traceloop.association.properties.session_id",),
    },
    readers={"input": _entity_input, "output": _entity_output},
    prefixes=(Prefix(prefix="traceloop.association.properties.", field="metadata", read=content),),
)

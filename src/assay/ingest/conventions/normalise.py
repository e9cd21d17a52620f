"""A received span in Assay's own terms, whatever its instrumentation called things."""

from assay.domain.json_value import JsonObject, JsonValue
from assay.domain.trace import Span
from assay.ingest.conventions.attributes import Found, look_up
from assay.ingest.conventions.events import exception_text, read_events
from assay.ingest.conventions.families import EXACT, KINDS
from assay.ingest.conventions.family import Field
from assay.ingest.conventions.framework import framework_of
from assay.ingest.conventions.messages import as_said, messages, requested_tool_calls, with_instructions
from assay.ingest.conventions.readers import parsed
from assay.ingest.received import LONGEST_SHARED, ReceivedSpan, cut_text, plausible_time

RESOURCE = "resource"
SERVICE = "service.name"
UNNAMED_SERVICE = "unknown_service"
PLAIN_TEXT = "text/plain"
JSON_TEXT = "application/json"


def normalise(received: ReceivedSpan) -> Span:
    """Return the span with every field that a family of conventions fills.

    `attributes` are those of the span as sent, with those of its resource under `resource`. Texts that hold a JSON
    object or list become its value; a lone message of text becomes that text. Tool calls are those the span
    executed; those it only asks a caller for are in `metadata["requested_tool_calls"]`.
    """
    attributes = received.attributes
    found = Found()
    look_up(found, attributes)
    if received.events:
        read_events(found, received.events)
    model = found.text("model")
    named_kind = found.text("kind")
    kind = KINDS.get(named_kind, named_kind) if named_kind else None
    spoken = messages(found.values.get("output_messages"))
    given = _input(found, attributes, model)
    answer = _output(found, attributes, spoken)
    if received.source.resource:
        attributes.setdefault(RESOURCE, received.source.resource)
    input_tokens = found.count("input_tokens")
    output_tokens = found.count("output_tokens")
    return Span(
        trace_id=received.trace_id,
        span_id=received.span_id,
        parent_span_id=received.parent_span_id,
        name=received.name,
        started_at_ns=received.started_at_ns,
        ended_at_ns=_ended_at_ns(received, found.amount("duration_s")),
        status=received.status,
        error=_error(received, found),
        input=given,
        output=answer,
        model=model,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        total_tokens=_total(found.count("total_tokens"), input_tokens, output_tokens),
        cache_read_tokens=found.count("cache_read_tokens"),
        cache_write_tokens=found.count("cache_write_tokens"),
        cost=found.amount("cost"),
        tool_calls=_executed(received.name, kind, model, found, given, answer),
        metadata=_metadata(found, spoken),
        kind=kind,
        agent=_title(_agent(received, found)),
        framework=framework_of(received.source.scope) or _title(found.text("provider")),
        session_id=_title(found.text("session_id")),
        attributes=attributes,
    )


def _title(text: str | None) -> str | None:
    """Return a text that is shown in listings, cut where it is too long for one."""
    return text and cut_text(text, LONGEST_SHARED)


def _input(found: Found, attributes: JsonObject, model: str | None) -> JsonValue:
    """Return what went in: on a model call the messages it saw, system instructions first."""
    values = found.values
    spoken = messages(values.get("input_messages"))
    instructions = values.get("system_instructions")
    if model and instructions is not None:
        return with_instructions(instructions, spoken)
    if spoken is not None:
        return as_said(spoken)
    if "input" in values:
        return _typed(found, attributes, "input", "input_type", "input.value")
    return values.get("tool_input")


def _output(found: Found, attributes: JsonObject, spoken: JsonValue) -> JsonValue:
    values = found.values
    if spoken is not None:
        return as_said(spoken)
    if "output" in values:
        return _typed(found, attributes, "output", "output_type", "output.value")
    return values.get("tool_output", values.get("documents"))


def _typed(found: Found, attributes: JsonObject, field: Field, type_field: Field, key: str) -> JsonValue:
    """Return a value read by the MIME type that came with it, where one did."""
    mime = found.text(type_field)
    original = attributes.get(key)
    if mime is not None and isinstance(original, str) and found.ranks[field] == EXACT[key].rank:
        if mime == PLAIN_TEXT:
            return original
        if mime == JSON_TEXT:
            return parsed(original)
    return found.values[field]


def _executed(
    name: str, kind: str | None, model: str | None, found: Found, given: JsonValue, answer: JsonValue
) -> list[JsonValue] | None:
    """Return the one tool call that a tool's span records."""
    called = found.text("tool_name")
    values = found.values
    unlabelled = kind is None and model is None and called is not None
    if kind != "tool" and not (unlabelled and ("tool_input" in values or "tool_output" in values)):
        return None
    call: JsonObject = {
        "name": called or name,
        "input": values.get("tool_input", given),
        "output": values.get("tool_output", answer),
    }
    return [call]


def _metadata(found: Found, spoken: JsonValue) -> JsonObject | None:
    metadata = found.values.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else None
    requested = requested_tool_calls(spoken)
    if requested:
        return {**(metadata or {}), "requested_tool_calls": requested}
    return metadata


def _agent(received: ReceivedSpan, found: Found) -> str | None:
    """Return the application: an explicit reference, else the agent that the root names, else the service."""
    application = found.text("application")
    if application:
        return application
    agent = found.text("agent") if received.parent_span_id is None else None
    if agent:
        return agent
    service = received.source.resource.get(SERVICE)
    return service if isinstance(service, str) and service and not service.startswith(UNNAMED_SERVICE) else None


def _error(received: ReceivedSpan, found: Found) -> str | None:
    """Return what failed. An exception on a span that was not set OK counts, even without an error status."""
    if received.status == "OK":
        return None
    if received.status == "ERROR" and received.status_message:
        return received.status_message
    told = exception_text(received.events) if received.events else None
    if told is None and received.status == "ERROR":
        return found.text("error_type") or "error"
    return told


def _ended_at_ns(received: ReceivedSpan, duration_s: float | None) -> int | None:
    """Return the end; where it is missing or before the start, the start plus the recorded duration."""
    started, ended = received.started_at_ns, received.ended_at_ns
    if started is None or (ended is not None and ended >= started):
        return ended
    return None if duration_s is None else plausible_time(started + round(duration_s * 1e9))


def _total(total: int | None, given: int | None, answered: int | None) -> int | None:
    if total is None and (given is not None or answered is not None):
        return (given or 0) + (answered or 0)
    return total

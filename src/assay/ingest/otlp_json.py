"""OTLP in JSON: read leniently, span by span, so that one malformed span costs no other."""

import math
from typing import NoReturn

from assay.domain.json_value import JsonObject, JsonValue
from assay.domain.text import without_nul
from assay.domain.trace import SpanStatus
from assay.errors import InvalidInputError
from assay.ingest.bodies import BodyLimits, demand_spans
from assay.ingest.json_document import kind_of, read_document, shown
from assay.ingest.received import (
    LONGEST_NAME,
    LONGEST_SHARED,
    MAX_DEPTH,
    STATUSES,
    Received,
    ReceivedSpan,
    Source,
    SpanDefect,
    cut_text,
    demand_entries,
    plausible_time,
)

TRACE_ID_DIGITS = 32
SPAN_ID_DIGITS = 16
INT64_LOW = -(2**63)
INT64_HIGH = 2**63 - 1
SPECIAL_DOUBLES = ("NaN", "Infinity", "-Infinity")
STATUS_NAMES: dict[str, SpanStatus] = {
    **{status: status for status in STATUSES},
    **{f"STATUS_CODE_{status}": status for status in STATUSES},
}
SNAKE = {
    "resourceSpans": "resource_spans",
    "scopeSpans": "scope_spans",
    "traceId": "trace_id",
    "spanId": "span_id",
    "parentSpanId": "parent_span_id",
    "startTimeUnixNano": "start_time_unix_nano",
    "endTimeUnixNano": "end_time_unix_nano",
}


def read_json(body: bytes, limits: BodyLimits) -> Received:
    """Return the spans of an OTLP/JSON document in camelCase or snake_case; unknown fields are ignored.

    Raises InvalidInputError when the body is not JSON, not an object, or has no list of resource spans, and
    PayloadTooLargeError for more spans or values than the limits allow.
    """
    document = read_document(body, "a JSON object with resourceSpans", limits.values)
    if not isinstance(document, dict):
        raise InvalidInputError(f"The body is {kind_of(document)}; expected a JSON object with resourceSpans.")
    received = Received()
    groups = _get(document, "resourceSpans")
    if groups is None:
        if document and "resourceSpans" not in document and "resource_spans" not in document:
            found = ", ".join(sorted(document)[:5])
            raise InvalidInputError(f"The body has no resourceSpans; found {found}.", field="resourceSpans")
        return received
    if not isinstance(groups, list):
        raise InvalidInputError(f"resourceSpans is {kind_of(groups)}; expected a list.", field="resourceSpans")
    demand_spans(sum(map(_count, groups)), limits)
    for position, group in enumerate(groups):
        _read_group(group, f"resourceSpans[{position}]", received)
    return received


def _count(group: JsonValue) -> int:
    scopes = _get(group, "scopeSpans") if isinstance(group, dict) else None
    listed = [_get(scope, "spans") for scope in scopes if isinstance(scope, dict)] if isinstance(scopes, list) else []
    return sum(len(spans) for spans in listed if isinstance(spans, list))


def _read_group(group: JsonValue, where: str, received: Received) -> None:
    if not isinstance(group, dict):
        received.reject(where, f"is {kind_of(group)}; expected an object.")
        return
    scopes = _get(group, "scopeSpans")
    if not isinstance(scopes, list):
        if scopes is not None:
            received.reject(f"{where}.scopeSpans", f"is {kind_of(scopes)}; expected a list.")
        return
    resource = _resource(group.get("resource"))
    for position, scope in enumerate(scopes):
        place = f"{where}.scopeSpans[{position}]"
        spans = _get(scope, "spans") if isinstance(scope, dict) else scope
        if not isinstance(scope, dict) or not isinstance(spans, list | None):
            received.reject(place, "expected an object with a list of spans.")
            continue
        named = scope.get("scope")
        name = named.get("name") if isinstance(named, dict) else None
        source = Source(
            resource=resource, scope=cut_text(without_nul(name), LONGEST_SHARED) if isinstance(name, str) else ""
        )
        for at, span in enumerate(spans or []):
            try:
                received.spans.append(_span(span, source))
            except SpanDefect as defect:
                received.reject(f"{place}.spans[{at}]", str(defect))


def _resource(resource: JsonValue) -> JsonObject:
    """Return the resource's attributes; a malformed resource costs its attributes, not the spans."""
    if not isinstance(resource, dict):
        return {}
    try:
        return _attributes(resource.get("attributes"), "resource.attributes", 0)
    except SpanDefect:
        return {}


def _span(span: JsonValue, source: Source) -> ReceivedSpan:
    if not isinstance(span, dict):
        raise SpanDefect(f"is {kind_of(span)}; expected an object.")
    name = span.get("name")
    if not isinstance(name, str | None):
        raise SpanDefect(f"name is {kind_of(name)}; expected text.")
    status, message = _status(span.get("status"))
    return ReceivedSpan(
        _identifier(_get(span, "traceId"), "traceId", TRACE_ID_DIGITS),
        _identifier(_get(span, "spanId"), "spanId", SPAN_ID_DIGITS),
        _parent(_get(span, "parentSpanId")),
        cut_text(without_nul(name or ""), LONGEST_NAME),
        _time(_get(span, "startTimeUnixNano")),
        _time(_get(span, "endTimeUnixNano")),
        status,
        message,
        _attributes(span.get("attributes"), "attributes", 0),
        _events(span.get("events")),
        source,
    )


def _get(fields: JsonObject, name: str) -> JsonValue:
    value = fields.get(name)
    return fields.get(SNAKE[name]) if value is None and name in SNAKE else value


def _identifier(value: JsonValue, name: str, digits: int) -> str:
    if isinstance(value, str) and len(value) == digits and _is_hex(value) and value.strip("0"):
        return value.lower()
    raise SpanDefect(f"{name} is {shown(value)}; expected {digits} hex digits that are not all zero.")


def _parent(value: JsonValue) -> str | None:
    if value is None or (isinstance(value, str) and not value.strip("0")):
        return None
    if isinstance(value, str) and len(value) == SPAN_ID_DIGITS and _is_hex(value):
        return value.lower()
    raise SpanDefect(f"parentSpanId is {shown(value)}; expected {SPAN_ID_DIGITS} hex digits, or none.")


def _is_hex(text: str) -> bool:
    try:
        return len(bytes.fromhex(text)) * 2 == len(text)
    except ValueError:
        return False


def _time(value: JsonValue) -> int | None:
    if isinstance(value, str):
        value = int(value) if value.isdecimal() and value.isascii() and len(value) <= len(str(INT64_HIGH)) else None
    elif isinstance(value, float) and value.is_integer():
        value = int(value)
    return plausible_time(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _status(value: JsonValue) -> tuple[SpanStatus, str]:
    if not isinstance(value, dict):
        return "UNSET", ""
    code = value.get("code")
    message = value.get("message")
    named: SpanStatus = "UNSET"
    if isinstance(code, str):
        named = STATUS_NAMES.get(code.upper(), "UNSET")
    elif isinstance(code, int) and not isinstance(code, bool) and code in (0, 1, 2):
        named = STATUSES[code]
    return named, without_nul(message) if isinstance(message, str) else ""


def _events(value: JsonValue) -> list[tuple[str, JsonObject]]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise SpanDefect(f"events is {kind_of(value)}; expected a list.")
    demand_entries(len(value), "events")
    events: list[tuple[str, JsonObject]] = []
    for position, event in enumerate(value):
        if not isinstance(event, dict):
            raise SpanDefect(f"events[{position}] is {kind_of(event)}; expected an object.")
        name = event.get("name")
        attributes = _attributes(event.get("attributes"), f"events[{position}].attributes", 0)
        events.append((without_nul(name) if isinstance(name, str) else "", attributes))
    return events


def _attributes(pairs: JsonValue, where: str, depth: int) -> JsonObject:
    if pairs is None:
        return {}
    if not isinstance(pairs, list):
        raise SpanDefect(f"{where} is {kind_of(pairs)}; expected a list of key and value.")
    if depth == 0:
        demand_entries(len(pairs), where)
    attributes: JsonObject = {}
    for pair in pairs:
        key = pair.get("key", "") if isinstance(pair, dict) else None
        if not isinstance(pair, dict) or not isinstance(key, str):
            raise SpanDefect(f"{where} holds {shown(pair)}; expected an object with a key and a value.")
        attributes[without_nul(key)] = _value(pair.get("value"), key, depth)
    return attributes


def _value(value: JsonValue, where: str, depth: int) -> JsonValue:
    """Return the plain value of an AnyValue; an empty one, or one of a kind we do not know, is None."""
    if depth > MAX_DEPTH:
        raise SpanDefect(f"attribute {where[:100]!r} is nested deeper than {MAX_DEPTH} levels.")
    if value is None:
        return None
    if not isinstance(value, dict):
        raise SpanDefect(f"attribute {where[:100]!r} is {shown(value)}; expected an object such as stringValue.")
    for kind, inner in value.items():
        match kind:
            case "stringValue" | "string_value":
                return without_nul(inner) if isinstance(inner, str) else _mistyped(where, kind, inner)
            case "intValue" | "int_value":
                return _integer(inner, where)
            case "doubleValue" | "double_value":
                return _double(inner, where)
            case "boolValue" | "bool_value":
                return inner if isinstance(inner, bool) else _mistyped(where, kind, inner)
            case "bytesValue" | "bytes_value":
                return without_nul(inner) if isinstance(inner, str) else _mistyped(where, kind, inner)
            case "arrayValue" | "array_value":
                items = inner.get("values") if isinstance(inner, dict) else inner
                if items is not None and not isinstance(items, list):
                    return _mistyped(where, kind, inner)
                return [_value(item, where, depth + 1) for item in items or []]
            case "kvlistValue" | "kvlist_value":
                pairs = inner.get("values") if isinstance(inner, dict) else inner
                return _attributes(pairs, where, depth + 1)
            case _:
                pass
    return None


def _mistyped(where: str, kind: str, found: JsonValue) -> NoReturn:
    raise SpanDefect(f"attribute {where[:100]!r}: {kind} is {shown(found)}, which is not of that kind.")


def _integer(value: JsonValue, where: str) -> JsonValue:
    """Return an int64; a larger one stays text, since few readers of JSON can hold it."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value if INT64_LOW <= value <= INT64_HIGH else str(value)[:100]
    if isinstance(value, float) and value.is_integer():
        return int(value) if INT64_LOW <= value < INT64_HIGH else str(value)
    if isinstance(value, str):
        digits = value.removeprefix("-")
        if digits.isdecimal() and digits.isascii():
            small = len(digits) < len(str(INT64_HIGH)) or (
                len(digits) == len(str(INT64_HIGH)) and INT64_LOW <= int(value) <= INT64_HIGH
            )
            return int(value) if small else value
    return _mistyped(where, "intValue", value)


def _double(value: JsonValue, where: str) -> JsonValue:
    if isinstance(value, str):
        if value in SPECIAL_DOUBLES:
            return value
        try:
            value = float(value)
        except ValueError:
            return _mistyped(where, "doubleValue", value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf if value > 0 else -math.inf
        return number if math.isfinite(number) else _special(number)
    return _mistyped(where, "doubleValue", value)


def _special(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    return "Infinity" if number > 0 else "-Infinity"

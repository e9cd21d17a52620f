"""OTLP/JSON bodies made of plain values, and what is read of them."""

import json
from typing import Any

from assay.domain.trace import Span
from assay.ingest.otlp import BodyLimits, Decoded, decode_traces

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
SPAN_ID = "00f067aa0ba902b7"
STARTED_NS = 1_781_000_000_000_000_000
LIMITS = BodyLimits()


def any_value(value: Any) -> dict[str, Any]:
    """Return a plain value as OTLP's AnyValue."""
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case str():
            return {"stringValue": value}
        case list():
            return {"arrayValue": {"values": [any_value(item) for item in value]}}  # pyright: ignore[reportUnknownVariableType]
        case dict():
            return {"kvlistValue": {"values": pairs(value)}}  # pyright: ignore[reportUnknownArgumentType]
        case _:
            return {}


def pairs(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": any_value(value)} for key, value in attributes.items()]


def otlp_span(attributes: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """Return a span with these attributes; `fields` are OTLP's own and replace the usual ones."""
    return {
        "traceId": TRACE_ID,
        "spanId": SPAN_ID,
        "name": "s",
        "startTimeUnixNano": str(STARTED_NS),
        "endTimeUnixNano": str(STARTED_NS + 1_500_000_000),
        "attributes": pairs(attributes or {}),
        **fields,
    }


def otlp_body(*spans: Any, scope: str = "", resource: dict[str, Any] | None = None) -> bytes:
    return json.dumps(
        {
            "resourceSpans": [
                {
                    "resource": {"attributes": pairs(resource or {})},
                    "scopeSpans": [{"scope": {"name": scope}, "spans": list(spans)}],
                }
            ]
        }
    ).encode()


def decode(body: bytes) -> Decoded:
    return decode_traces(body, "application/json", None, LIMITS)


def read_span(span: dict[str, Any], *, scope: str = "", resource: dict[str, Any] | None = None) -> Span:
    """Return the one span of a body that holds it alone."""
    decoded = decode(otlp_body(span, scope=scope, resource=resource))
    assert decoded.message == ""
    (read,) = decoded.spans
    return read


def read_attributes(attributes: dict[str, Any], **fields: Any) -> Span:
    return read_span(otlp_span(attributes, **fields))

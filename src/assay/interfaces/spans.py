"""Spans as authors read them: their order, their fields, and how times are written."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from assay.domain.json_value import JsonObject
from assay.domain.trace import Span

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_NS = 253_402_300_799_999_999_999


def in_reading_order(spans: Sequence[Span]) -> list[Span]:
    """Return spans that no trace was assembled of, as one would be: root first, then by start time.

    Those without a time come last, in the order given. The root is the earliest span without a parent, else the
    earliest whose parent is not among them, else the earliest.
    """
    ids = {span.span_id for span in spans}
    by_start = sorted(spans, key=lambda span: (span.started_at_ns is None, span.started_at_ns or 0))
    parentless = (span for span in by_start if span.parent_span_id is None)
    orphaned = (span for span in by_start if span.parent_span_id not in ids or span.parent_span_id == span.span_id)
    root = next(parentless, next(orphaned, next(iter(by_start), None)))
    return [span for span in by_start if span is root] + [span for span in by_start if span is not root]


def span_record(span: Span) -> JsonObject:
    """Return a span with the fields of the `handler` interface; what is not known is None, never left out."""
    return {
        "span_id": span.span_id,
        "parent_span_id": span.parent_span_id,
        "name": span.name,
        "type": span.type,
        "input": span.input,
        "output": span.output,
        "error": span.error,
        "model": span.model,
        "latency_ms": latency_ms(span),
        "input_tokens": span.input_tokens,
        "output_tokens": span.output_tokens,
        "tool_calls": span.tool_calls,
        "metadata": span.metadata,
        "started_at": milliseconds_iso(span.started_at_ns),
    }


def latency_ms(span: Span) -> int | float | None:
    """Return the duration in milliseconds, as a whole number where it is one."""
    latency = span.latency_ms
    return int(latency) if latency is not None and latency.is_integer() else latency


def milliseconds_iso(at_ns: int | None) -> str | None:
    """Write a time as ISO 8601 in UTC with milliseconds; None when unknown or beyond the year 9999."""
    return _iso(at_ns, "milliseconds")


def microseconds_iso(at_ns: int | None) -> str | None:
    """Write a time as ISO 8601 in UTC with microseconds; None when unknown or beyond the year 9999."""
    return _iso(at_ns, "microseconds")


def _iso(at_ns: int | None, timespec: str) -> str | None:
    if at_ns is None or not 0 <= at_ns <= LAST_NS:
        return None
    moment = EPOCH + timedelta(microseconds=at_ns // 1000)
    return moment.isoformat(timespec=timespec).replace("+00:00", "Z")

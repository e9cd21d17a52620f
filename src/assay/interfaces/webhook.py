"""The external interface: what an endpoint is sent, and what it answers."""

from collections.abc import Iterable, Sequence

from assay.domain.check import Metrics, Reading, Verdict
from assay.domain.evaluator import Revision
from assay.domain.json_value import JsonObject, JsonValue
from assay.domain.metrics import DEEPEST
from assay.domain.subject import Subject, Testcase
from assay.domain.trace import Span, Totals
from assay.interfaces.shapes import described, errored
from assay.interfaces.spans import in_reading_order, latency_ms, milliseconds_iso, span_record

SCHEMA_VERSION = 2
LONGEST_REASON = 4000
LARGEST_SCORE = 1.7976931348623157e308
TOO_DEEP = f"(nested more than {DEEPEST} levels deep, left out)"


def payload(revision: Revision, subject: Subject) -> JsonObject:
    """Return the request body. Absent values are null, never left out.

    The three ids are null over a case that is no stored trace, and for an evaluator not saved yet (an empty id).
    """
    saved = not isinstance(subject, Testcase) and revision.evaluator_id != ""
    spans = in_reading_order(subject.spans) if isinstance(subject, Testcase) else subject.spans
    return {
        "schemaVersion": SCHEMA_VERSION,
        "evaluatorId": revision.evaluator_id if saved else None,
        "evaluatorName": revision.evaluator_name,
        "agentId": subject.agent_id if saved and not isinstance(subject, Testcase) else None,
        "traceId": subject.trace_id if saved and not isinstance(subject, Testcase) else None,
        "trace": trace_record(subject),
        "spans": [span_record(span) for span in spans],
    }


def read(revision: Revision, value: JsonValue) -> Reading:
    """Read an endpoint's answer: only `matches`, a real boolean, decides; it fails when it equals `raise_when`.

    A numeric `score` (on any scale) and a `reason` in text are recorded; everything else is kept as metadata. What is
    too long or too deep to be kept is cut, and what is of another type is kept as metadata; a note says so.
    """
    if not isinstance(value, dict):
        return _malformed(f"The endpoint answered with {described(value, 'javascript')}")
    if "matches" not in value:
        return _malformed('The endpoint\'s answer has no "matches"')
    matches = value["matches"]
    if not isinstance(matches, bool):
        return _malformed(f'The endpoint\'s "matches" is {described(matches, "javascript")}, not true or false')
    rest = {key: inner for key, inner in value.items() if key != "matches"}
    metrics: Metrics = {"matches": matches}
    notes: list[str] = []
    score = rest.pop("score", None)
    if isinstance(score, int | float) and not isinstance(score, bool) and abs(score) <= LARGEST_SCORE:
        metrics["score"] = score
    elif score is not None:
        rest["score"] = score
        notes.append(f"The score is {described(score, 'javascript')}, not a number of 64 bits; kept as metadata.")
    reason = rest.pop("reason", None)
    text = _cut(reason) if isinstance(reason, str) else None
    if isinstance(reason, str) and len(reason) > LONGEST_REASON:
        notes.append(f"The reason has {len(reason)} characters; the first {LONGEST_REASON} were kept.")
    elif reason is not None and text is None:
        rest["reason"] = reason
        notes.append(f"The reason is {described(reason, 'javascript')}, not text; kept as metadata.")
    return Reading(
        status="scored",
        metrics=metrics,
        reason=text,
        metadata={key: TOO_DEEP if _is_deep(inner) else inner for key, inner in rest.items()} or None,
        verdict=Verdict(failed=matches == revision.raise_when, reason=text),
        notes=tuple(notes),
    )


def _cut(reason: str) -> str:
    if len(reason) <= LONGEST_REASON:
        return reason
    return f"{reason[:LONGEST_REASON]}… ({len(reason)} characters in all)"


def _is_deep(value: JsonValue) -> bool:
    """Tell whether a value is nested more than 64 levels deep."""
    level = [value]
    for _ in range(DEEPEST):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return False
    return True


def _inside(value: JsonValue) -> Iterable[JsonValue]:
    if isinstance(value, list):
        return value
    return value.values() if isinstance(value, dict) else ()


def _malformed(found: str) -> Reading:
    return errored(
        "malformed", f'{found}; it must be an object like {{"matches": true, "reason": "optional", "score": 0.5}}.'
    )


def trace_record(subject: Subject) -> JsonObject:
    """Return what an endpoint is told of the trace itself, beside its spans."""
    if isinstance(subject, Testcase):
        return _case(subject, in_reading_order(subject.spans))
    root = subject.root
    return {
        "input": root.input,
        "output": root.output,
        "error": subject.error,
        "toolCalls": subject.tool_calls,
        "name": root.name,
        "model": subject.model,
        "framework": subject.framework,
        "sessionId": subject.session_id,
        "spanId": root.span_id,
        "latencyMs": latency_ms(root),
        **_tokens(subject.totals),
        "metadata": subject.metadata,
        "startedAt": milliseconds_iso(root.started_at_ns),
        "createdAt": milliseconds_iso(subject.created_at_ns),
    }


def _case(case: Testcase, spans: Sequence[Span]) -> JsonObject:
    """Write a case as though it were a trace, from the spans its author gave, if any."""
    root = spans[0] if spans else None
    return {
        "input": case.inputs,
        "output": case.outputs,
        "error": root.error if root else None,
        "toolCalls": [call for span in spans for call in span.tool_calls or []],
        "name": root.name if root else None,
        "model": next((span.model for span in spans if span.model), None),
        "framework": root.framework if root else None,
        "sessionId": root.session_id if root else None,
        "spanId": root.span_id if root else None,
        "latencyMs": latency_ms(root) if root else None,
        **_tokens(_case_totals(spans)),
        "metadata": case.metadata,
        "startedAt": milliseconds_iso(root.started_at_ns) if root else None,
        "createdAt": milliseconds_iso(root.started_at_ns) if root else None,
    }


def _tokens(totals: Totals) -> JsonObject:
    return {
        "inputTokens": totals.input_tokens,
        "outputTokens": totals.output_tokens,
        "cacheReadTokens": totals.cache_read_tokens,
        "cacheWriteTokens": totals.cache_write_tokens,
    }


def _case_totals(spans: Sequence[Span]) -> Totals:
    """Sum over the spans that made the model calls, so that a parent's repetition of them is not counted again."""
    calls = [span for span in spans if span.type == "llm"]
    return Totals(
        input_tokens=_sum([span.input_tokens for span in calls]),
        output_tokens=_sum([span.output_tokens for span in calls]),
        cache_read_tokens=_sum([span.cache_read_tokens for span in calls]),
        cache_write_tokens=_sum([span.cache_write_tokens for span in calls]),
    )


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None

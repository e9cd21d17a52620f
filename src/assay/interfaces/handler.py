"""The `handler` interface: `handler(input, output, expected, metadata, trace)` returning a score, or null to skip."""

from assay.domain.check import CheckError, Reading, Verdict
from assay.domain.evaluator import Revision
from assay.domain.json_value import JsonObject, JsonValue
from assay.domain.metrics import flatten
from assay.domain.subject import Subject, Testcase
from assay.interfaces.shapes import described, errored, score_of
from assay.interfaces.spans import in_reading_order, span_record

ALLOWED = 'a score from 0 to 1, {"score": number} with an optional metadata and name, or null to skip'


def arguments(subject: Subject) -> tuple[JsonValue, ...]:
    """Return input, output, expected (None for a trace), metadata, and the records that `trace.get_spans` serves."""
    if isinstance(subject, Testcase):
        records: list[JsonValue] = [span_record(span) for span in in_reading_order(subject.spans)]
        return subject.inputs, subject.outputs, subject.expected, subject.metadata, records
    records = [span_record(span) for span in subject.spans]
    return subject.root.input, subject.root.output, None, subject.metadata, records


def read(revision: Revision, value: JsonValue) -> Reading:
    """Read what `handler` returned; a score below the threshold fails, an equal one does not.

    Keys beside score, metadata and name become further metrics, so that nothing an author returns is lost.
    """
    match value:
        case None:
            return Reading(status="skipped")
        case dict():
            return _read_object(revision, value)
        case bool() | str() | list():
            return _refused(f"handler returned {described(value, revision.language)}, which is not a score")
        case int() | float():
            return _read_object(revision, {"score": value})


def _read_object(revision: Revision, value: JsonObject) -> Reading:
    if "score" not in value:
        keys = ", ".join(f'"{key}"' for key in list(value)[:20]) or "no keys"
        return _refused(f'handler returned {described(value, revision.language)} without a "score" (it has {keys})')
    score = value["score"]
    if isinstance(score, bool) or not isinstance(score, int | float):
        return _refused(f'The "score" is {described(score, revision.language)}, not a number')
    number = score_of(score, 'The "score"')
    if isinstance(number, Reading):
        return number
    name, metadata = value.get("name"), value.get("metadata")
    if not isinstance(name, str | None):
        return _refused(f'The "name" beside the score is {described(name, revision.language)}, not text')
    if not isinstance(metadata, dict | None):
        return _refused(f'The "metadata" beside the score is {described(metadata, revision.language)}, not an object')
    further = {key: inner for key, inner in value.items() if key not in ("score", "name", "metadata")}
    metrics = flatten({"score": number} | further)
    if isinstance(metrics, CheckError):
        return Reading(status="errored", error=metrics)
    reason = metrics.get("reason")
    text = reason if isinstance(reason, str) else None
    return Reading(
        status="scored",
        metrics=metrics,
        name=name,
        reason=text,
        metadata=metadata,
        verdict=Verdict(failed=number < revision.threshold, reason=text),
    )


def _refused(found: str) -> Reading:
    return errored("unsupported-return-type", f"{found}; allowed are {ALLOWED}.")

"""The `evaluate` interface: `evaluate(inputs, outputs, trace)` returning a dict of metrics, a number or a bool."""

from assay.domain.check import CheckError, Metrics, Reading, Verdict
from assay.domain.evaluator import Revision
from assay.domain.json_value import JsonValue
from assay.domain.metrics import flatten
from assay.domain.subject import Subject, Testcase
from assay.interfaces.shapes import described, errored, score_of
from assay.interfaces.trace_view import trace_view

ALLOWED = "a dict of metrics, a number from 0 to 1, or a bool"


def arguments(subject: Subject) -> tuple[JsonValue, ...]:
    """Return inputs, outputs and trace: a case's own, or the root span's as they were recorded."""
    if isinstance(subject, Testcase):
        return subject.inputs, subject.outputs, subject.trace
    return subject.root.input, subject.root.output, trace_view(subject)


def read(revision: Revision, value: JsonValue) -> Reading:
    """Read what `evaluate` returned.

    A bool is `{"success": v}`, a number `{"score": v, "success": v >= threshold}`, a dict its own metrics.
    The check fails when `success` is False; with no `success` (or a null one), when `score` is below the threshold.
    A `success` that is not a bool is a metric and no verdict.
    """
    match value:
        case bool():
            return _scored(revision, {"success": value})
        case int() | float():
            score = score_of(value, "The score returned")
            if isinstance(score, Reading):
                return score
            return _scored(revision, {"score": score, "success": score >= revision.threshold})
        case dict():
            metrics = flatten(value)
            if isinstance(metrics, CheckError):
                return Reading(status="errored", error=metrics)
            return _scored(revision, metrics)
        case None:
            found = described(value, revision.language)
            return errored("none-returned", f"evaluate returned {found}; it must return {ALLOWED}.")
        case str() | list():
            found = described(value, revision.language)
            return errored("unsupported-return-type", f"evaluate returned {found}; it must return {ALLOWED}.")


def _scored(revision: Revision, metrics: Metrics) -> Reading:
    reason = metrics.get("reason")
    text = reason if isinstance(reason, str) else None
    failed = _failed(revision, metrics)
    verdict = None if failed is None else Verdict(failed=failed, reason=text)
    return Reading(status="scored", metrics=metrics, reason=text, verdict=verdict)


def _failed(revision: Revision, metrics: Metrics) -> bool | None:
    success, score = metrics.get("success"), metrics.get("score")
    if isinstance(success, bool):
        return not success
    if success is None and isinstance(score, int | float) and not isinstance(score, bool):
        return score < revision.threshold
    return None

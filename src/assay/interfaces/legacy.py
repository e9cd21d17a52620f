"""The two older interfaces: `evaluate` with three or four parameters, returning a single score."""

from assay.domain.check import CheckError, Reading, Verdict
from assay.domain.evaluator import Revision
from assay.domain.json_value import JsonValue
from assay.domain.subject import Subject, Testcase
from assay.interfaces.shapes import described, errored, score_of

ALLOWED = "a number from 0 to 1"


def app_params_arguments(revision: Revision, subject: Subject) -> tuple[JsonValue, ...] | CheckError:
    """Return app_params, inputs, output and the ground truth, which is the column `correct_answer_key` names."""
    if isinstance(subject, Testcase):
        params, inputs, output = subject.app_params, subject.inputs, subject.outputs
    else:
        params, inputs, output = {}, subject.root.input, subject.root.output
    key = revision.correct_answer_key
    if not isinstance(inputs, dict):
        found = described(inputs, revision.language)
        return _missing(f'The ground truth is read from the column "{key}", but the inputs are {found}, not a dict.')
    if key not in inputs:
        columns = ", ".join(f'"{column}"' for column in inputs) or "none"
        return _missing(
            f'The ground-truth column "{key}" is missing from the inputs; the columns there are: {columns}.'
        )
    return params, inputs, output, inputs[key]


def read(revision: Revision, value: JsonValue) -> Reading:
    """Read a single score. A bool counts as 1 or 0 and numeric text as its number, so that old evaluators go on."""
    number = _number(value)
    if number is None:
        return _refused(revision, value)
    score = score_of(number, "The score returned")
    if isinstance(score, Reading):
        return score
    passed = score >= revision.threshold
    return Reading(status="scored", metrics={"score": score, "success": passed}, verdict=Verdict(failed=not passed))


def _number(value: JsonValue) -> float | None:
    if isinstance(value, int | float):
        return value
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return None
    return None


def _refused(revision: Revision, value: JsonValue) -> Reading:
    message = f"evaluate returned {described(value, revision.language)}; this older interface allows only {ALLOWED}."
    if value is None:
        return errored("none-returned", message)
    if isinstance(value, dict):
        message += " To return several metrics, make a new evaluator with the interface `evaluate` and copy the code."
    return errored("unsupported-return-type", message)


def _missing(message: str) -> CheckError:
    return CheckError(kind="missing-input", message=message)

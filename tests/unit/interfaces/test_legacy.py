"""The older interfaces: one score."""

from dataclasses import replace

import pytest

from assay.domain.check import CheckError
from assay.domain.json_value import JsonValue
from assay.domain.subject import Testcase as Row
from assay.interfaces import legacy
from assay.testing import a_revision, a_span, a_trace

REVISION = a_revision(interface="evaluate-float")


@pytest.mark.parametrize(
    ("value", "score", "success"),
    [
        (True, 1.0, True),
        (False, 0.0, False),
        (0.5, 0.5, True),
        ("0.25", 0.25, False),
        (" 1 ", 1.0, True),
        (0, 0.0, False),
    ],
)
def test_a_bool_counts_as_a_number_and_numeric_text_as_its_number(
    value: JsonValue, score: float, success: bool
) -> None:
    reading = legacy.read(REVISION, value)
    assert reading.metrics == {"score": score, "success": success}
    assert type(reading.metrics["score"]) is float
    assert reading.verdict is not None
    assert reading.verdict.failed is not success


@pytest.mark.parametrize(
    ("value", "kind", "told"),
    [
        (None, "none-returned", "None"),
        ({"score": 1.0}, "unsupported-return-type", "make a new evaluator"),
        ([1.0], "unsupported-return-type", "list"),
        ("good", "unsupported-return-type", "str good"),
        ("nan", "non-finite", "nan"),
        ("inf", "non-finite", "inf"),
        (float("nan"), "non-finite", "nan"),
        (7, "score-out-of-range", "7"),
    ],
)
def test_anything_else_is_errored(value: JsonValue, kind: str, told: str) -> None:
    reading = legacy.read(REVISION, value)
    assert reading.error is not None
    assert reading.error.kind == kind
    assert told in reading.error.message


def test_the_four_parameters_are_params_inputs_output_and_the_truth() -> None:
    revision = replace(a_revision(interface="evaluate-app-params"), correct_answer_key="gold")
    row = Row(inputs={"q": "?", "gold": "b"}, outputs="a", app_params={"temperature": 1})
    assert legacy.app_params_arguments(revision, row) == ({"temperature": 1}, {"q": "?", "gold": "b"}, "a", "b")
    trace = a_trace(a_span("root", input={"gold": None}))
    assert legacy.app_params_arguments(revision, trace) == ({}, {"gold": None}, "hi", None)


@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        ({"q": "?", "a": 1}, '"correct_answer" is missing from the inputs; the columns there are: "q", "a"'),
        ({}, "the columns there are: none"),
        ("text", "the inputs are str text, not a dict"),
    ],
)
def test_a_missing_truth_names_its_column_and_those_there_are(inputs: JsonValue, told: str) -> None:
    error = legacy.app_params_arguments(a_revision(interface="evaluate-app-params"), Row(inputs=inputs))
    assert isinstance(error, CheckError)
    assert error.kind == "missing-input"
    assert told in error.message

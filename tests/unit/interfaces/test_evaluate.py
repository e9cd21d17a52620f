"""What `evaluate` is given, and what its answers mean."""

from typing import Any

import pytest

from assay.domain.check import Reading
from assay.domain.json_value import JsonValue
from assay.domain.subject import Testcase as Row
from assay.interfaces import evaluate
from assay.testing import a_revision, a_trace


def read(value: JsonValue, threshold: float = 0.5) -> Reading:
    return evaluate.read(a_revision(threshold=threshold), value)


def failed(reading: Reading) -> bool | None:
    return None if reading.verdict is None else reading.verdict.failed


def test_a_trace_gives_its_roots_input_and_output_and_itself() -> None:
    inputs, outputs, trace = evaluate.arguments(a_trace())
    assert (inputs, outputs) == ("hello", "hi")
    assert isinstance(trace, dict)
    assert list(trace) == ["spans"]


def test_a_row_gives_its_own_and_no_trace_when_it_has_none() -> None:
    assert evaluate.arguments(Row(inputs={"gold": "b"}, outputs=[1])) == ({"gold": "b"}, [1], None)


@pytest.mark.parametrize(
    ("value", "threshold", "metrics", "fails"),
    [
        (True, 0.5, {"success": True}, False),
        (False, 0.5, {"success": False}, True),
        (1, 0.5, {"score": 1.0, "success": True}, False),
        (0.5, 0.5, {"score": 0.5, "success": True}, False),
        (0.49, 0.5, {"score": 0.49, "success": False}, True),
        (0, 0, {"score": 0.0, "success": True}, False),
        (1.0000001, 1, {"score": 1.0, "success": True}, False),
        (-0.0000001, 0, {"score": 0.0, "success": True}, False),
        ({"success": True, "score": 0.1}, 0.5, {"success": True, "score": 0.1}, False),
        ({"success": False, "score": 0.9}, 0.5, {"success": False, "score": 0.9}, True),
        ({"score": 0.4}, 0.5, {"score": 0.4}, True),
        ({"score": 0.5}, 0.5, {"score": 0.5}, False),
        ({"success": None, "score": 0.4}, 0.5, {"success": None, "score": 0.4}, True),
        ({"score": None}, 0.5, {"score": None}, None),
        ({"score": True}, 0.5, {"score": True}, None),
        ({"success": "yes", "score": 0.1}, 0.5, {"success": "yes", "score": 0.1}, None),
        ({"coverage": 0.1}, 0.5, {"coverage": 0.1}, None),
        ({}, 0.5, {}, None),
        ({"a": {"b": 1}}, 0.5, {"a.b": 1}, None),
    ],
)
def test_an_answer_becomes_metrics_and_a_verdict(
    value: JsonValue, threshold: float, metrics: dict[str, Any], fails: bool | None
) -> None:
    reading = read(value, threshold)
    assert (reading.status, reading.metrics, failed(reading)) == ("scored", metrics, fails)
    assert [type(metric) for metric in reading.metrics.values()] == [type(metric) for metric in metrics.values()]


def test_a_reason_in_text_goes_with_the_verdict() -> None:
    reading = read({"success": False, "reason": "rude"})
    assert reading.reason == "rude"
    assert reading.verdict is not None
    assert reading.verdict.reason == "rude"
    assert read({"success": False, "reason": 5}).reason is None


@pytest.mark.parametrize(
    ("value", "kind", "told"),
    [
        (None, "none-returned", "evaluate returned None"),
        ("0.9", "unsupported-return-type", "evaluate returned str 0.9"),
        ([0.9], "unsupported-return-type", "evaluate returned list"),
        (7, "score-out-of-range", "is 7"),
        (-0.01, "score-out-of-range", "is -0.01"),
        (10**400, "score-out-of-range", "an integer of 1329 bits"),
        (float("nan"), "non-finite", "is nan"),
        (float("inf"), "non-finite", "is inf"),
        ({"a": {"b": 1}, "a.b": 2}, "metric-name-collision", '"a.b"'),
        ({"a": float("nan")}, "non-finite", '"a" is nan'),
    ],
)
def test_an_answer_that_means_nothing_is_errored_and_says_what_it_was(value: JsonValue, kind: str, told: str) -> None:
    reading = read(value)
    assert (reading.status, reading.metrics, reading.verdict) == ("errored", {}, None)
    assert reading.error is not None
    assert reading.error.kind == kind
    assert told in reading.error.message


def test_values_are_named_in_the_authors_language() -> None:
    reading = evaluate.read(a_revision(language="javascript"), None)
    assert reading.error is not None
    assert "evaluate returned null" in reading.error.message

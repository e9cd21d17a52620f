"""What an endpoint is sent, key by key, and what its answers mean."""

from dataclasses import replace
from typing import Any

import pytest

from assay.domain.evaluator import Revision
from assay.domain.json_value import JsonObject, JsonValue
from assay.domain.subject import Subject
from assay.domain.subject import Testcase as Row
from assay.interfaces import webhook
from assay.testing import a_revision, a_span, a_trace

TRACE_KEYS = [
    "input",
    "output",
    "error",
    "toolCalls",
    "name",
    "model",
    "framework",
    "sessionId",
    "spanId",
    "latencyMs",
    "inputTokens",
    "outputTokens",
    "cacheReadTokens",
    "cacheWriteTokens",
    "metadata",
    "startedAt",
    "createdAt",
]


def external(*, raise_when: bool = True, evaluator_id: str = "evl_1") -> Revision:
    return replace(
        a_revision(evaluator_id=evaluator_id), kind="external", interface=None, language=None, raise_when=raise_when
    )


def sent(subject: Subject, revision: Revision | None = None) -> Any:
    return webhook.payload(revision or external(), subject)


def test_the_keys_are_those_of_the_contract_in_its_order() -> None:
    body = sent(a_trace())
    assert list(body) == [
        "schemaVersion",
        "evaluatorId",
        "evaluatorName",
        "agentId",
        "traceId",
        "trace",
        "spans",
    ]
    assert list(body["trace"]) == TRACE_KEYS
    assert list(sent(Row())["trace"]) == TRACE_KEYS


def test_a_trace_is_sent_whole() -> None:
    body = sent(a_trace(a_span("root", output={"n": 3}), a_span("llm", parent="root", started_ms=5, model="m-1")))
    assert (body["schemaVersion"], body["evaluatorId"], body["evaluatorName"]) == (2, "evl_1", "check")
    assert (body["agentId"], body["traceId"]) == ("agt_support", "a" * 32)
    assert (body["trace"]["input"], body["trace"]["output"], body["trace"]["model"]) == ("hello", {"n": 3}, "m-1")
    assert (body["trace"]["spanId"], body["trace"]["latencyMs"]) == ("root", 100)
    assert body["trace"]["startedAt"] == "2025-06-15T15:06:40.000Z"
    assert [span["type"] for span in body["spans"]] == ["span", "llm"]


def test_what_is_absent_is_null_and_never_left_out() -> None:
    body = sent(Row(inputs="q", outputs="a"))
    assert (body["evaluatorId"], body["agentId"], body["traceId"]) == (None, None, None)
    absent = {key: value for key, value in body["trace"].items() if value is None}
    assert len(absent) == len(TRACE_KEYS) - len(("input", "output", "toolCalls", "metadata"))
    assert body["spans"] == []


def test_the_ids_are_null_for_an_evaluator_not_saved_yet() -> None:
    body = sent(a_trace(), external(evaluator_id=""))
    assert (body["evaluatorId"], body["agentId"], body["traceId"]) == (None, None, None)


def test_a_rows_spans_sum_up_without_a_parents_repetition() -> None:
    call = replace(a_span("llm", parent="root", model="m-1"), input_tokens=7, output_tokens=2)
    root = replace(a_span("root"), input_tokens=7, output_tokens=2)
    trace = sent(Row(spans=(call, root)))["trace"]
    assert (trace["inputTokens"], trace["outputTokens"], trace["model"]) == (7, 2, "m-1")


@pytest.mark.parametrize(
    ("matches", "raise_when", "fails"),
    [(True, True, True), (False, True, False), (True, False, False), (False, False, True)],
)
def test_a_hit_is_an_answer_that_equals_raise_when(matches: bool, raise_when: bool, fails: bool) -> None:
    reading = webhook.read(external(raise_when=raise_when), {"matches": matches, "reason": "rude", "score": 7.5})
    assert reading.verdict is not None
    assert (reading.verdict.failed, reading.verdict.reason) == (fails, "rude")
    assert reading.metrics == {"matches": matches, "score": 7.5}
    assert reading.metadata is None


def test_whatever_else_came_is_kept_as_metadata() -> None:
    reading = webhook.read(external(), {"matches": False, "reason": {"code": 5}, "score": "high", "extra": [1]})
    assert reading.metrics == {"matches": False}
    assert reading.metadata == {"reason": {"code": 5}, "score": "high", "extra": [1]}


def test_a_reason_that_is_too_long_is_cut_and_says_so() -> None:
    reading = webhook.read(external(), {"matches": True, "reason": "x" * 500_000})
    assert reading.verdict is not None
    assert reading.verdict.reason == reading.reason == "x" * 4000 + "… (500000 characters in all)"


def test_metadata_that_is_nested_too_deep_is_left_out_and_says_so() -> None:
    deep: JsonValue = []
    for _ in range(64):
        deep = [deep]
    kept: JsonObject = {"flat": [[{"a": [1]}]], "wide": list("w" * 100_000)}
    reading = webhook.read(external(), {"matches": True, "deep": deep, **kept})
    assert reading.verdict is not None
    assert reading.metadata == {"deep": "(nested more than 64 levels deep, left out)", **kept}


def test_a_score_beyond_every_number_is_metadata() -> None:
    reading = webhook.read(external(), {"matches": True, "score": 10**400})
    assert (reading.metrics, reading.metadata) == ({"matches": True}, {"score": 10**400})


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, "answered with null"),
        ([True], "answered with array"),
        (True, "answered with boolean"),
        ({}, 'has no "matches"'),
        ({"matches": "true"}, '"matches" is string true'),
        ({"matches": 1}, '"matches" is number 1'),
        ({"matches": None}, '"matches" is null'),
    ],
)
def test_only_a_real_boolean_counts(value: JsonValue, told: str) -> None:
    reading = webhook.read(external(), value)
    assert reading.verdict is None
    assert reading.error is not None
    assert reading.error.kind == "malformed"
    assert told in reading.error.message

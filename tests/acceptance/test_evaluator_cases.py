"""The acceptance cases of evaluators in every language: from the source to the check, through the real sandbox."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from assay.domain.check import Check
from assay.domain.evaluator import Evaluator, Interface, Revision
from assay.domain.failure_window import FailureWindow
from assay.domain.outcome import Limits
from assay.domain.sampling import Run, decide
from assay.domain.signal import Raise, fold
from assay.domain.subject import Subject
from assay.domain.subject import Testcase as Row
from assay.domain.trace import Trace
from assay.engine import Engine
from assay.ingest.assembly import assemble
from assay.ingest.otlp import BodyLimits, decode_traces
from assay.ingest.plain import decode_plain
from assay.ports import Runner
from assay.runners.restricted.runner import RestrictedRunner
from assay.runners.sandbox.runner import SandboxRunner
from assay.testing import FixedClock, a_revision
from support.cases import Case, allowed, built, cases_of, name_of
from support.records import an_evaluator
from support.runners import module_runner

CLOCK = FixedClock()
IMPATIENT = Limits(wall_s=2)
FINER_KINDS = {("timeout", "cpu-exceeded")}
"""What the cases name and what a check says: of code that computes without end, that it was out of CPU time."""
INTERFACES: dict[str, Interface] = {
    "dict": "evaluate",
    "float3": "evaluate-float",
    "float4": "evaluate-app-params",
}
SECOND_SCORER = """
async def handler(input, output, expected, metadata, trace):
    spans = await trace.get_spans()
    return {"score": 1.0, "metadata": {"sees": spans[0]["output"]}}
"""

pytestmark = pytest.mark.asyncio(loop_scope="module")


def cases_for(area: str, *, runner: str | None = None, sampled: bool = False) -> list[Case]:
    """Return the cases of this runner (None: the default); those that draw a sample apart."""
    return [
        case
        for case in cases_of(area)
        if case["given"].get("runner") == runner and ("sample_rate" in case["given"]) == sampled
    ]


runner = module_runner(SandboxRunner.start)


restricted = module_runner(partial(RestrictedRunner.start, workers=1))


@pytest.mark.parametrize("case", cases_for("code-evaluator", runner="restricted"), ids=name_of)
async def test_evaluate_restricted(case: Case, restricted: RestrictedRunner) -> None:
    given = case["given"]
    revision = a_revision(given["script"], interface=INTERFACES[given["interface"]])
    checks = await checks_of(restricted, case, revision, evaluate_subjects(given))
    assert_one_of(allowed(case), lambda expected: assert_evaluated(expected, checks))


@pytest.mark.parametrize("case", cases_for("code-evaluator"), ids=name_of)
async def test_evaluate(case: Case, runner: SandboxRunner) -> None:
    given = case["given"]
    revision = a_revision(
        given["script"],
        language=given["language"],
        interface=INTERFACES[given["interface"]],
        threshold=given.get("threshold", 0.5),
    )
    checks = await checks_of(runner, case, revision, evaluate_subjects(given))
    assert_one_of(allowed(case), lambda expected: assert_evaluated(expected, checks))


@pytest.mark.parametrize("case", cases_for("code-scorer"), ids=name_of)
async def test_handler(case: Case, runner: SandboxRunner) -> None:
    given = case["given"]
    revision = a_revision(
        given["script"], language=given["language"], interface="handler", threshold=given["alert_below"]
    )
    trace = scored_trace(given)
    (check,) = await checks_of(runner, case, revision, [trace])
    assert_one_of(allowed(case), lambda expected: assert_handled(expected, check))
    if "then" in case["expect"]:
        second = a_revision(SECOND_SCORER, interface="handler", evaluator_id="evl_2")
        (seen,) = await checks_of(runner, case, second, [trace])
        assert seen.reading.metadata == {"sees": case["expect"]["then"]["second_scorer_sees"]}


@pytest.mark.parametrize("case", cases_for("code-scorer", sampled=True), ids=name_of)
async def test_a_sample_is_as_large_as_its_rate_and_the_same_at_every_look(case: Case) -> None:
    given = case["given"]
    evaluator = Evaluator(
        id="evl_1",
        project_id="default",
        name="check",
        sample_rate=given["sample_rate"],
        created_at_ns=0,
        updated_at_ns=0,
        revision=a_revision(given["script"], interface="handler"),
    )
    picked = [number for number in range(given["traces"]) if decide(evaluator, None, f"{number:032x}") == Run()]
    again = [number for number in range(given["traces"]) if decide(evaluator, None, f"{number:032x}") == Run()]
    fewest, most = case["expect"]["checks_between"]
    assert fewest <= len(picked) <= most
    assert picked == again


async def checks_of(runner: Runner, case: Case, revision: Revision, subjects: Sequence[Subject]) -> list[Check]:
    """Return a check a subject; only a case about time has less of it than the default."""
    limits = IMPATIENT if case["fault"] == "timeout" else Limits()
    checks = await Engine({case["given"]["language"]: runner}, CLOCK, limits).evaluate(revision, subjects)
    assert len(checks) == len(subjects)
    assert all(isinstance(check, Check) for check in checks), checks
    return [check for check in checks if isinstance(check, Check)]


def evaluate_subjects(given: Case) -> list[Subject]:
    if "otlp_spans" in given:
        return [otlp_trace(given["otlp_spans"])]
    if given.get("mode") == "online":
        return [online_trace(given["trace"])]
    return [
        Row(inputs=built(row["inputs"]), outputs=built(row["outputs"]), trace=built(given["trace"]))
        for row in given.get("rows", [given])
    ]


def otlp_trace(spans: Sequence[Case]) -> Trace:
    """Return the trace of spans that arrive in this order; `start_ms` counts from any moment."""
    sent = [
        {
            "traceId": "a" * 32,
            "spanId": span["spanId"],
            "parentSpanId": span["parentSpanId"] or "",
            "name": span["name"],
            "startTimeUnixNano": str(CLOCK.now_ns() + span["start_ms"] * 1_000_000),
            "endTimeUnixNano": str(CLOCK.now_ns() + 10**9),
        }
        for span in spans
    ]
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": sent}]}]}).encode()
    return assembled(decode_traces(body, "application/json", None, BodyLimits()).spans)


def online_trace(view: Case) -> Trace:
    """Return the stored trace that a case shows as its evaluator would see it."""
    spans = [
        {
            "span_id": span_id,
            "name": span["name"],
            "started_at": span["start_time"],
            "ended_at": span["end_time"],
            "input": span["attributes"]["ag"]["data"]["inputs"],
            "output": span["attributes"]["ag"]["data"]["outputs"],
            "attributes": span["attributes"],
        }
        for span_id, span in view["spans"].items()
    ]
    return plain_trace({"spans": spans})


def scored_trace(given: Case) -> Trace:
    root, *rest = given["spans"]
    root = {**root, "input": built(given["input"]), "output": built(given["output"])}
    return plain_trace({"metadata": given["metadata"], "spans": [root, *rest]})


def plain_trace(document: Case) -> Trace:
    body = json.dumps(document).encode()
    return assembled(decode_plain(body, "application/json", None, BodyLimits(), now_ns=CLOCK.now_ns()).spans)


def assembled(spans: Sequence[Any]) -> Trace:
    return assemble("default", spans, revision=1, created_at_ns=CLOCK.now_ns(), agent_id=None, agent=None)


def assert_one_of(options: Sequence[Case], assertion: Callable[[Case], None]) -> None:
    *others, last = options
    for option in others:
        with suppress(AssertionError):
            return assertion(option)
    return assertion(last)


def assert_evaluated(expected: Case, checks: Sequence[Check]) -> None:
    match expected["outcome"]:
        case "ok":
            assert_scored(expected, checks[0])
        case "error":
            assert_errored(expected, checks[0])
        case "rows":
            assert_rows(expected, checks)
        case outcome:
            pytest.fail(f"nothing checks the outcome {outcome}")


def assert_handled(expected: Case, check: Check) -> None:
    decision, _ = fold(None, FailureWindow(), check, evaluator=an_evaluator(), now_ns=CLOCK.now_ns())
    assert isinstance(decision, Raise) == expected.get("signal", False)
    reading = check.reading
    match expected["outcome"]:
        case "scored":
            assert reading.error is None
            assert reading.metrics["score"] == expected["score"]
            assert reading.name == expected.get("name", reading.name)
            assert reading.metadata == expected.get("event_metadata", reading.metadata)
        case "skipped":
            assert (reading.status, reading.metrics) == ("skipped", {})
        case "errored-check":
            assert_errored(expected, check)
        case outcome:
            pytest.fail(f"nothing checks the outcome {outcome}")


def assert_scored(expected: Case, check: Check) -> None:
    reading = check.reading
    assert reading.error is None, reading.error
    wanted = expected["metrics"]
    found = {name: value for name, value in reading.metrics.items() if name in wanted or "note" not in expected}
    assert typed(found) == typed(wanted)


def assert_errored(expected: Case, check: Check) -> None:
    reading = check.reading
    assert reading.status == "errored"
    assert (reading.metrics, reading.verdict) == ({}, None)
    assert reading.error is not None
    kind = expected.get("error_kind", reading.error.kind)
    assert reading.error.kind == kind or (kind, reading.error.kind) in FINER_KINDS
    told = f"{reading.error.message} line {reading.error.line}"
    for mention in (*expected.get("message_mentions", []), *expected.get("event_mentions", [])):
        assert mention in told


def assert_rows(expected: Case, checks: Sequence[Check]) -> None:
    assert len(checks) == len(expected["metrics"])
    for wanted, check in zip(expected["metrics"], checks, strict=True):
        if "error_kind" in wanted:
            assert_errored(wanted, check)
        else:
            assert_scored({"metrics": wanted}, check)
    if "summary" in expected:
        statuses = [check.reading.status for check in checks]
        found = {"rows": len(checks), "scored": statuses.count("scored"), "errors": statuses.count("errored")}
        assert found == expected["summary"]


def typed(metrics: dict[str, Any]) -> dict[str, tuple[bool, Any]]:
    """Tell True from 1, which Python does not."""
    return {name: (isinstance(value, bool), value) for name, value in metrics.items()}

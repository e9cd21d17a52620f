"""The acceptance cases of OTLP ingest through the HTTP application and its store: what is answered, and then shown."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from support.api import EVALUATORS, Api, running_api
from support.cases import Case, allowed, body_of, cases_of, name_of, requests_of, whole_of
from support.otlp_expectations import assert_ingested, seen_over_http

CASES = cases_of("otlp-ingest")
SETTLE_S = 2.0
COUNTS_SPANS = """
async def handler(input, output, expected, metadata, trace):
    spans = await trace.get_spans()
    return {"score": 1.0, "metadata": {"input": input, "spans": [span["span_id"] for span in spans]}}
"""


@pytest.fixture
async def api(tmp_path: Path) -> AsyncGenerator[Api]:
    async with running_api(f"sqlite:///{tmp_path / 'assay.db'}") as running:
        yield running


async def send(api: Api, request: Case) -> int:
    answer = await api.http.request(
        request["method"], request["path"], content=body_of(request), headers=request["headers"]
    )
    assert answer.headers["content-type"].startswith("application/json")
    assert "rejectedSpans" not in answer.text or int(answer.json()["partialSuccess"]["rejectedSpans"]) > 0
    return answer.status_code


async def stored(api: Api) -> list[dict[str, Any]]:
    listed = await api.call("GET", "/api/v1/traces")
    shown: list[dict[str, Any]] = []
    for line in listed["traces"]:
        answer = await api.http.get(f"/api/v1/traces/{line['id']}")
        shown.append(seen_over_http(json.loads(answer.text, parse_constant=no_json)))
    return shown


def no_json(name: str) -> NoReturn:
    pytest.fail(f"the answer holds {name}, which is no JSON")


@pytest.mark.parametrize("case", CASES, ids=name_of)
async def test_a_request_is_answered_and_its_trace_shown_as_the_case_expects(case: Case, api: Api) -> None:
    (expected,) = allowed(case)
    statuses = [await send(api, request) for request in requests_of(case)]
    match expected["outcome"]:
        case "ingested" | "after-both":
            assert set(statuses) == {expected.get("http_status", 200)}
            assert_ingested(expected, await stored(api), whole_of(expected))
        case "rejected":
            assert statuses[0] in expected["http_status"]
            assert await stored(api) == []
        case "each":
            assert statuses == expected["http_statuses"]
        case outcome:
            raise AssertionError(f"nothing checks the outcome {outcome}")


async def test_a_child_that_comes_before_its_parent_is_checked_with_it_and_never_alone(tmp_path: Path) -> None:
    (case,) = [case for case in CASES if case["expect"]["outcome"] == "after-both"]
    async with running_api(f"sqlite:///{tmp_path / 'assay.db'}", settle_s=SETTLE_S) as api:
        made = await api.create(script=COUNTS_SPANS)
        for request in requests_of(case):
            assert await send(api, request) == 200
        await api.settled()
        events = (await api.call("GET", f"{EVALUATORS}/{made['id']}/events"))["events"]
    wanted = case["expect"]["trace"]
    assert [event["metadata"] for event in events] == [{"input": wanted["input"], "spans": wanted["span_order"]}]

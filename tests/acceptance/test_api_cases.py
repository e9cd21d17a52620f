"""The acceptance cases of the API, by id, against the real server process."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.cases import Case, cases_of, name_of, requests_of
from support.server import Server, wait_for

CASES = cases_of("api")
HISTORY = [case for case in CASES if "scorer_script" in case["given"]]
EXCHANGES = [case for case in CASES if case not in HISTORY]
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("api")) as running:
        yield running


@pytest.mark.parametrize("case", EXCHANGES, ids=name_of)
def test_requests_are_answered_as_expected(server: Server, case: Case) -> None:
    expected, made = case["expect"], ""
    for position, request in enumerate(requests_of(case)):
        content = request["raw_body"] if "raw_body" in request else json.dumps(request.get("body"))
        answer = server.client.request(
            request["method"],
            request["path"].replace("{id}", made),
            content=None if request["method"] in ("GET", "DELETE") else content,
            headers=JSON,
        )
        allowed = expected["statuses"][position]
        assert answer.status_code in (allowed if isinstance(allowed, list) else [allowed]), answer.text
        for mention in expected.get("error_mentions", []):
            assert mention in answer.text
        if position == 0 and answer.status_code == 201:
            made = answer.json()["id"]
        if str(position) in expected.get("after", {}):
            demand(answer.json(), dict(expected["after"][str(position)]))


def demand(body: dict[str, Any], expected: dict[str, Any]) -> None:
    for mention in expected.pop("error_mentions", []):
        assert mention in json.dumps(body["error"])
    assert {name: body[name] for name in expected} == expected


@pytest.mark.parametrize("case", HISTORY, ids=name_of)
def test_history_lists_what_was_checked(server: Server, case: Case) -> None:
    given = case["given"]
    evaluator_id = server.create_evaluator(script=given["scorer_script"], language=given["language"])
    for number, output in enumerate(given["traces_outputs"], start=1):
        trace = {"agent": "desk", "spans": [{"name": "answer", "input": "q", "output": output}]}
        assert server.client.post("/api/v1/traces", json=trace).status_code == 201
        wait_for(lambda number=number: len(server.events(evaluator_id, status="all")) == number, "the check")
    (request,) = given["requests"]
    answer = server.client.request(request["method"], request["path"].replace("{id}", evaluator_id))
    assert answer.status_code == case["expect"]["statuses"][0]
    found = [
        {"error": True, "score": None}
        if event["error"]
        else {"score": event["metrics"]["score"], "signal": event["failed"]}
        for event in answer.json()["events"]
    ]
    assert found == case["expect"]["events"]
    (signal,) = server.get("/api/v1/signals", evaluatorId=evaluator_id)["signals"]
    assert signal["count"] == sum(event.get("signal") is True for event in found)

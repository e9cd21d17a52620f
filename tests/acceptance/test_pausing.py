"""Budgets and pauses through the API of a real server: what history, signals, metrics and dry runs say."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from support.server import Server, wait_for

CRASHES = """
import os
def evaluate(inputs, outputs, trace):
    print("about to go, says", outputs)
    os._exit(7)
"""
HANGS = """
import time
def evaluate(inputs, outputs, trace):
    print("one")
    print("two")
    time.sleep(60)
"""
FINE = "def evaluate(inputs, outputs, trace):\n    return True\n"
TRACES = 40


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("pausing")) as running:
        yield running


def send(server: Server, count: int, agent: str) -> None:
    traces = [
        {"agent": agent, "spans": [{"name": "answer", "input": "q", "output": f"answer {number}"}]}
        for number in range(count)
    ]
    answer = server.client.post("/api/v1/traces", json={"traces": traces})
    assert answer.status_code == 201, answer.text


def kinds(events: list[dict[str, Any]]) -> Counter[str]:
    return Counter(event["error"]["kind"] if event["error"] else event["status"] for event in events)


def test_an_evaluator_that_keeps_crashing_is_paused_with_a_signal_and_no_other_is_touched(server: Server) -> None:
    crashing = server.create_evaluator(name="crashing", script=CRASHES, severity="high")
    fine = server.create_evaluator(name="fine", script=FINE)
    send(server, TRACES, "desk")

    wait_for(lambda: len(server.events(crashing)) == len(server.events(fine)) == TRACES, "all checks", 60)
    history = server.events(crashing)
    assert kinds(history) == {"script-crashed": 5, "evaluator-paused": TRACES - 5}
    assert kinds(server.events(fine)) == {"scored": TRACES}

    crashed = [event for event in history if event["error"]["kind"] == "script-crashed"]
    for event in crashed:
        said = f"the last line it printed: {event['logs'].strip()}"
        assert event["error"]["message"] == f"the process ended itself with status 7 before the code returned; {said}"
    paused = next(event for event in history if event["error"]["kind"] == "evaluator-paused")
    for told in ("5 of its checks in a row", "ended itself with status 7", "It is tried again"):
        assert told in paused["error"]["message"]
    assert (paused["failed"], paused["durationMs"], paused["logs"]) == (False, 0, "")

    (signal,) = server.get("/api/v1/signals", evaluatorId=crashing)["signals"]
    assert (signal["severity"], signal["count"], signal["status"]) == ("high", 1, "open")
    (evidence,) = signal["evidence"]
    assert evidence["reason"].startswith("The evaluator itself is failing, and is paused until 20")
    assert [event["id"] for event in history if event["failed"]] == [evidence["checkId"]]
    assert server.get("/api/v1/signals", evaluatorId=fine)["signals"] == []
    assert "assay_evaluators_paused 1.0" in server.client.get("/metrics").text

    tried = server.client.post("/agent-monitoring/custom-evaluators/dry-run", json={"id": crashing}).json()
    assert tried["check"]["error"]["kind"] == "script-crashed"

    changed = server.client.patch(f"/agent-monitoring/custom-evaluators/{crashing}", json={"script": FINE})
    assert changed.status_code == 200, changed.text
    send(server, 3, "desk")
    wait_for(lambda: kinds(server.events(crashing))["scored"] == 3, "the new revision's checks")


def test_a_budget_of_the_evaluators_own_is_held_and_named(server: Server) -> None:
    hanging = server.create_evaluator(name="hanging", script=HANGS, wallSeconds=0.3)
    send(server, 1, "clerk")
    (event,) = wait_for(lambda: server.events(hanging), "the check")
    assert event["error"]["kind"] == "timeout"
    message = event["error"]["message"]
    assert message.startswith("the evaluation ran longer than 0.3 s: it was stopped after ")
    assert message.endswith("of CPU time used; the last line it printed: two")
    assert event["logs"] == "one\ntwo\n"
    assert server.get("/api/v1/signals", evaluatorId=hanging)["signals"] == []
    body = {"id": hanging, "wallSeconds": 0.2}
    tried = server.client.post("/agent-monitoring/custom-evaluators/dry-run", json=body).json()
    assert tried["error"].startswith("the evaluation ran longer than 0.2 s: ")

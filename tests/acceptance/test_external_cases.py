"""The acceptance cases of external scorers: from the trace over a real socket to the check and its signal."""

import asyncio
import json
import socket
import time
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assay.domain.check import Check
from assay.domain.evaluator import Revision
from assay.domain.failure_window import FailureWindow
from assay.domain.outcome import Limits
from assay.domain.signal import Nothing, Raise, fold
from assay.domain.trace import Trace, agent_id_of
from assay.engine import Engine
from assay.guarded_http.address_guard import AddressGuard
from assay.ingest.assembly import assemble
from assay.ingest.otlp import BodyLimits
from assay.ingest.plain import decode_plain
from assay.runners.webhook.runner import WebhookRunner
from assay.testing import FixedClock, a_trace, returning
from support.cases import Case, allowed, built, cases_of, name_of
from support.endpoint import LOOPBACK, Behaviour, Endpoint, Request, answering, external, in_turn, silent
from support.notifications import VAULT
from support.records import an_evaluator
from support.server import Server, wait_for

CLOCK = FixedClock()
PROJECT = "default"
CASES = cases_of("external-scorer")
MEBIBYTE = 1024 * 1024
ANSWERED = [case for case in CASES if case["expect"]["outcome"] != "request"]
SENT = [case for case in CASES if case["expect"]["outcome"] == "request"]


@pytest.mark.parametrize("case", ANSWERED, ids=name_of)
async def test_what_an_endpoint_answers(case: Case) -> None:
    given = case["given"]
    scorer = given["scorer"]
    async with Endpoint(behaviour_of(given["endpoint"] or {})) as endpoint:
        revision = external(scorer.get("url", endpoint.url), raise_when=scorer["raise_when"])
        tracemalloc.start()
        started = time.monotonic()
        check, neighbour = await checks_of(revision, a_trace())
        took_s, (_, most_held) = time.monotonic() - started, tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert neighbour.reading.status == "scored"
    assert_one_of(allowed(case), check, scorer)
    assert took_s < case["expect"].get("within_seconds", 10)
    if "memory" in case["expect"]:
        assert most_held < 32 * MEBIBYTE


@pytest.mark.parametrize("case", SENT, ids=name_of)
async def test_what_an_endpoint_is_sent(case: Case) -> None:
    expected = case["expect"]
    async with Endpoint(answering()) as endpoint:
        check, _ = await checks_of(external(endpoint.url), stored_trace(case["given"]))
    assert check.reading.error is None
    (request,) = endpoint.requests
    assert request.line.split()[0] == expected["method"]
    assert request.body.decode("utf-8")
    body = request.json
    for path, value in expected.get("json_equals", {}).items():
        assert at(body, path) == value, path
    for path, value in expected.get("json_not_equals", {}).items():
        assert at(body, path) != value, path
    for path in expected.get("keys_present", []):
        at(body, path)


async def checks_of(revision: Revision, trace: Trace) -> list[Check]:
    """Return the check of the endpoint, and that of another evaluator which waited beside it."""
    webhook = WebhookRunner(AddressGuard(LOOPBACK), VAULT)
    other = replace(revision, evaluator_id="evl_2", kind="code", language="python", interface="evaluate")
    engine = Engine({"external": webhook, "python": returning(True)}, CLOCK, Limits(wall_s=2))
    try:
        return list(await asyncio.gather(*(check_of(engine, each, trace) for each in (revision, other))))
    finally:
        await webhook.close()


async def check_of(engine: Engine, revision: Revision, trace: Trace) -> Check:
    """Deliver as often as the queue would."""
    for _ in range(3):
        (result,) = await engine.evaluate(revision, [trace])
        if isinstance(result, Check):
            return result
    raise AssertionError("no check after three deliveries")


def behaviour_of(endpoint: Case) -> Behaviour:
    if endpoint.get("never_answers"):
        return silent
    if "body_bytes" in endpoint:
        return pouring(endpoint["body_bytes"])
    first = answering(
        built(endpoint.get("body", "")).encode(), status=endpoint.get("status", 200), **headers_of(endpoint)
    )
    return in_turn(first, behaviour_of(endpoint["then"])) if "then" in endpoint else first


def headers_of(endpoint: Case) -> dict[str, str]:
    return endpoint.get("headers", {})


def pouring(size: int) -> Behaviour:
    async def behave(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode())
        for _ in range(size // MEBIBYTE):
            writer.write(b" " * MEBIBYTE)
            await writer.drain()

    return behave


def stored_trace(given: Case) -> Trace:
    """Return the trace of one span that a case describes, as it would be stored."""
    about = dict(given["trace"])
    document = {
        "agent": given.get("agent_name"),
        "session_id": about.pop("session_id", None),
        "metadata": about.pop("metadata", None),
        "spans": [about],
    }
    spans = decode_plain(
        json.dumps(document).encode(), "application/json", None, BodyLimits(), now_ns=CLOCK.now_ns()
    ).spans
    agent = given.get("agent_name")
    agent_id = agent_id_of(PROJECT, agent) if agent else None
    return assemble(PROJECT, spans, revision=1, created_at_ns=CLOCK.now_ns(), agent_id=agent_id, agent=agent)


def assert_one_of(options: Sequence[Case], check: Check, scorer: Case) -> None:
    failures: list[str] = []
    for expected in options:
        try:
            return assert_outcome(expected, check, scorer)
        except AssertionError as failure:
            failures.append(str(failure))
    pytest.fail("\n".join(failures))


def assert_outcome(expected: Case, check: Check, scorer: Case) -> None:
    decision, _ = fold(
        None,
        FailureWindow(),
        check,
        evaluator=an_evaluator(severity=scorer.get("severity", "medium")),
        now_ns=CLOCK.now_ns(),
    )
    reading = check.reading
    if expected["outcome"] == "skipped-with-error":
        assert isinstance(decision, Nothing)
        assert (reading.status, reading.metrics, reading.verdict) == ("errored", {}, None)
        assert reading.error is not None
        for mention in expected.get("error_mentions", []):
            assert mention in reading.error.message
        return
    assert expected["outcome"] == "checked"
    assert reading.error is None, reading.error
    assert reading.metrics["matches"] is expected["matches"]
    assert reading.metrics.get("score") == expected.get("score", reading.metrics.get("score"))
    assert isinstance(decision, Raise) == expected["signal"]
    if isinstance(decision, Raise):
        assert decision.signal.severity == scorer["severity"]
        for mention in expected.get("signal_mentions", []):
            assert mention in (decision.signal.evidence[0].reason or "")


def at(value: Any, path: str) -> Any:
    """Return what is at a dotted path; a number is a place in a list."""
    for key in path.split("."):
        value = value[int(key) if key.isdigit() else key]
    return value


def test_an_endpoint_that_hangs_delays_neither_ingest_nor_another_evaluator(tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as hanging,
        Server(tmp_path, ASSAY_EXTERNAL_ALLOW='["127.0.0.0/8"]', ASSAY_WALL_S="2") as server,
    ):
        url = f"http://127.0.0.1:{hanging.getsockname()[1]}/score?token=s3cret"
        created = server.client.post(
            "/agent-monitoring/custom-evaluators",
            json={"kind": "external", "name": "hangs", "url": url, "sampleRate": 1},
        )
        assert created.status_code == 201, created.text
        other_id = server.create_evaluator(name="other", script="def evaluate(i, o, t):\n    return True\n")
        for number in range(20):
            started = time.monotonic()
            answer = server.client.post("/api/v1/traces", json={"spans": [{"name": "s", "input": number}]})
            assert answer.is_success, answer.text
            assert time.monotonic() - started < 3
        wait_for(lambda: len(server.events(other_id)) == 20, "the other evaluator's checks")
        events = wait_for(lambda: server.events(created.json()["id"]), "a check of the endpoint")
        assert {(event["status"], event["error"]["kind"]) for event in events} == {("errored", "timeout")}
        assert server.get("/api/v1/signals")["signals"] == []
        assert "s3cret" not in json.dumps(events) + server.log

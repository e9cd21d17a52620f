"""Dry runs: over the sample, a stored trace, or the caller's own data; nothing stays."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import pytest

from assay.api.dry_run import Turns
from assay.domain.evaluator import Revision
from assay.domain.outcome import Call, Limits, Outcome
from assay.engine import Engine
from assay.errors import OverloadedError
from assay.guarded_http.address_guard import AddressGuard
from assay.runners.webhook.runner import WebhookRunner
from support.api import EVALUATORS, SCRIPT, Api, SystemClock, key, running_api
from support.endpoint import LOOPBACK, Behaviour, Endpoint, answering, sending
from support.in_process import InProcessRunner
from support.notifications import VAULT

PATH = f"{EVALUATORS}/dry-run"
SPANS = """
async def handler(input, output, expected, metadata, trace):
    spans = await trace.get_spans()
    return {"score": 0.4, "name": input, "metadata": {"types": [span["type"] for span in spans]}, "reason": output}
"""
ARGUMENTS = """
def evaluate(inputs, outputs, trace):
    print("looking")
    return {"score": 1, "n": len(trace["spans"]) if trace else 0, "inputs": inputs, "outputs": outputs}
"""


def code(script: str, **fields: Any) -> dict[str, Any]:
    return {"kind": "code", "language": "python", "script": script, **fields}


async def test_the_default_sample_is_a_root_and_a_model_call(api: Api) -> None:
    answer = await api.call("POST", PATH, json=code(SPANS))
    assert answer["ok"] is True
    assert answer["response"] == {"matches": True, "score": 0.4, "reason": answer["check"]["reason"]}
    assert answer["check"]["metadata"] == {"types": ["span", "llm"]}
    assert answer["check"]["status"] == "scored"
    assert answer["check"]["runner"] == "in-process"
    assert "error" not in answer
    answer = await api.call("POST", PATH, json=code(ARGUMENTS))
    assert answer["check"]["metrics"]["n"] == 2
    assert isinstance(answer["check"]["metrics"]["inputs.correct_answer"], str)
    assert answer["logs"] == answer["check"]["logs"] == "looking\n"


async def test_older_interfaces_find_a_ground_truth_in_the_sample(api: Api) -> None:
    script = "def evaluate(app_params, inputs, output, correct_answer):\n    return output == correct_answer\n"
    answer = await api.call("POST", PATH, json=code(script))
    assert answer["check"]["metrics"] == {"score": 1.0, "success": True}


async def test_the_callers_own_sample_is_used_as_it_is(api: Api) -> None:
    sample: dict[str, Any] = {"inputs": {"q": [1]}, "outputs": {"a": None}, "trace": {"spans": {"x": {}}}}
    metrics = (await api.call("POST", PATH, json=code(ARGUMENTS, sample=sample)))["check"]["metrics"]
    assert metrics == {"score": 1, "n": 1, "inputs.q": [1], "outputs.a": None}
    tool: dict[str, Any] = {"span_id": "b", "parent_span_id": "a", "tool_calls": [{}]}
    spans: list[dict[str, Any]] = [{"span_id": "a", "model": "m"}, tool]
    sample = {"input": "in", "output": "out", "expected": "e", "metadata": {"k": 1}, "spans": spans}
    check = (await api.call("POST", PATH, json=code(SPANS, sample=sample)))["check"]
    assert (check["name"], check["reason"], check["metadata"]) == ("in", "out", {"types": ["llm", "tool"]})
    metrics = (await api.call("POST", PATH, json=code(ARGUMENTS, sample=sample)))["check"]["metrics"]
    assert (metrics["n"], metrics["inputs"]) == (2, "in")


async def test_a_stored_trace_can_be_tried(api: Api) -> None:
    trace_id = await api.send("0.25")
    answer = await api.call("POST", PATH, json=code(SCRIPT, traceId=trace_id, alertBelow=0.2))
    assert answer["response"] == {"matches": False, "score": 0.25, "reason": None}
    problem = await api.call("POST", PATH, 404, json=code(SCRIPT, traceId="none"))
    assert problem["code"] == "not-found"


async def test_a_stored_evaluator_can_be_tried_with_changes(api: Api) -> None:
    made = await api.create()
    for word in ("id", "_id", "evaluatorId"):
        answer = await api.call("POST", PATH, json={word: made["id"], "sample": {"output": "0.6"}})
        assert answer["response"]["matches"] is False
    answer = await api.call("POST", PATH, json={"id": made["id"], "alertBelow": 0.7, "sample": {"output": "0.6"}})
    assert answer["response"]["matches"] is True
    assert (await api.call("GET", f"{EVALUATORS}/{made['id']}"))["alertBelow"] == 0.5
    await api.call("POST", PATH, 404, json={"id": "evl_none"})


async def test_an_endpoint_is_told_no_ids(api: Api) -> None:
    trace_id = await api.send("x")
    made = await api.create(name="saved", kind="external", language=None, script=None, url="https://a.example/?t=1")
    for body in ({"url": "https://a.example"}, {"id": made["id"]}, {"id": made["id"], "traceId": trace_id}):
        answer = await api.call("POST", PATH, json=body)
        assert answer["response"] == {"matches": True, "score": None, "reason": "found"}
    for received in api.endpoint.received:
        assert [received[name] for name in ("evaluatorId", "agentId", "traceId")] == [None, None, None]
    assert [received["evaluatorName"] for received in api.endpoint.received] == ["dry run", "saved", "saved"]
    assert [len(received["spans"]) for received in api.endpoint.received] == [2, 2, 1]


async def test_a_failing_script_is_an_answer_with_the_authors_line(api: Api) -> None:
    script = "def handler(*_):\n    print('so far')\n    raise KeyError('abc')\n"
    answer = await api.call("POST", PATH, json=code(script))
    assert answer["ok"] is False
    assert "KeyError" in answer["error"]
    assert answer["check"]["status"] == "errored"
    assert answer["check"]["error"]["line"] == 3
    assert answer["logs"] == "so far\n"
    assert "response" not in answer


async def test_a_source_that_could_not_be_saved_is_an_answer_too(api: Api) -> None:
    answer = await api.call("POST", PATH, json=code("def handler(:\n"))
    assert (answer["ok"], answer["check"]["error"]["kind"]) == (False, "invalid-source")
    assert answer["check"]["error"]["line"] == 1


async def test_skipping_is_ok_and_says_so(api: Api) -> None:
    answer = await api.call("POST", PATH, json=code(SCRIPT, sample={"output": "skip"}))
    assert (answer["ok"], answer["check"]["status"]) == (True, "skipped")
    assert answer["response"] == {"matches": False, "score": None, "reason": None}


async def test_nothing_of_a_dry_run_stays(api: Api) -> None:
    await api.call("POST", PATH, json=code(SCRIPT, sample={"output": "0"}))
    for path, name in ((EVALUATORS, "evaluators"), ("/api/v1/traces", "traces"), ("/api/v1/signals", "signals")):
        assert (await api.call("GET", path))[name] == []
    assert await api.queue.depth() == 0


async def test_a_question_that_makes_no_sense_is_refused(api: Api) -> None:
    for body, field in (
        (code(SCRIPT, sample={}, traceId="x"), "traceId"),
        (code(SCRIPT, sample={"input": 1, "inputs": 2}), "sample.inputs"),
        (code(SCRIPT, sample={"question": 1}), "sample.question"),
        (code(SCRIPT, sample={"spans": [{"colour": 1}]}), "sample.spans[0].colour"),
        (code(SCRIPT, sample={"input": 10**30}), "sample"),
        (code(SCRIPT, language="javascript"), "language"),
        ({"kind": "code", "language": "python"}, "script"),
        ({}, "url"),
    ):
        problem = await api.call("POST", PATH, 400, json=body)
        assert problem["field"] == field, problem
    for number in ("NaN", "[1e999]"):
        text = '{"url": "https://a.example", "sample": {"input": ' + number + "}}"
        problem = await api.call("POST", PATH, 400, content=text, headers={"content-type": "application/json"})
        assert problem["field"] == "sample"
    deep = '{"url": "https://a.example", "sample": {"input": ' + "[" * 100_000 + "]" * 100_000 + "}}"
    await api.call("POST", PATH, 413, content=deep, headers={"content-type": "application/json"})
    for depth in (100, 500, 900, 5000):
        deep = '{"url": "https://a.example", "sample": {"input": ' + "[" * depth + "]" * depth + "}}"
        await api.call("POST", PATH, 400, content=deep, headers={"content-type": "application/json"})


async def test_so_many_dry_runs_at_once_and_no_more(api: Api) -> None:
    slow = "import asyncio\nasync def handler(*_):\n    await asyncio.sleep(0.2)\n    return 1\n"
    answers = await asyncio.gather(*(api.http.post(PATH, json=code(slow)) for _ in range(24)))
    by_status = [answer.status_code for answer in answers]
    assert by_status.count(200) == 20
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert refused.json()["code"] == "overloaded"
    assert int(refused.headers["retry-after"]) > 0


HANGING = "import asyncio\nasync def handler(*_):\n    await asyncio.sleep(600)\n"


async def test_dry_runs_that_hang_take_no_turn_of_another_project(api: Api) -> None:
    hanging = [
        asyncio.create_task(api.http.post(PATH, json=code(HANGING), headers={"x-api-key": key("member", "other")}))
        for _ in range(30)
    ]
    refused = [await found for _, found in zip(range(10), asyncio.as_completed(hanging), strict=False)]
    assert {answer.status_code for answer in refused} == {429}
    assert (await api.call("POST", PATH, json=code("def handler(*_):\n    return 1\n")))["ok"] is True
    for task in hanging:
        task.cancel()
    await asyncio.gather(*hanging, return_exceptions=True)


async def test_no_project_fills_the_turns_of_all() -> None:
    turns = Turns(at_once=1)
    inside: list[asyncio.Task[None]] = []

    async def enter(project_id: str) -> None:
        async with turns.turn(project_id):
            await asyncio.sleep(600)

    async def refused(project_id: str, count: int) -> int:
        tasks = [asyncio.create_task(enter(project_id)) for _ in range(count)]
        inside.extend(tasks)
        await asyncio.sleep(0)
        return sum(task.done() and isinstance(task.exception(), OverloadedError) for task in tasks)

    found = [await refused(f"greedy {number}", 10) for number in range(12)]
    assert found == sorted(found)
    assert found[0] == 5
    assert all(some < 10 for some in found[:8])
    for task in inside:
        task.cancel()
    await asyncio.gather(*inside, return_exceptions=True)
    assert await refused("late", 5) == 0
    inside[-1].cancel()


async def test_a_dry_run_ends_when_its_client_goes_away(api: Api) -> None:
    ended = asyncio.Event()

    class Endless(InProcessRunner):
        async def execute(self, revision: Revision, calls: Sequence[Call], limits: Limits) -> list[Outcome]:
            try:
                await asyncio.sleep(600)
            finally:
                ended.set()
            return []

    object.__setattr__(api.app.state.services, "engine", Engine({"python": Endless()}, SystemClock(), Limits()))
    body = json.dumps(code(HANGING)).encode()
    messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    messages.put_nowait({"type": "http.request", "body": body, "more_body": False})
    headers = [(b"x-api-key", key("member").encode()), (b"content-type", b"application/json")]
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "path": PATH,
        "raw_path": PATH.encode(), "root_path": "", "scheme": "http", "query_string": b"", "headers": headers,
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2),
    }  # fmt: skip
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    serving = asyncio.create_task(api.app(scope, messages.get, send))
    await asyncio.sleep(0.3)
    assert not serving.done(), sent
    messages.put_nowait({"type": "http.disconnect"})
    await asyncio.wait_for(ended.wait(), 20)
    await asyncio.wait_for(serving, 20)
    assert sent == []


@pytest.fixture
async def calling(tmp_path: Path) -> AsyncGenerator[Api]:
    """Run it with a client that calls real endpoints."""
    webhook = WebhookRunner(AddressGuard(LOOPBACK), VAULT)
    async with running_api(f"sqlite:///{tmp_path / 'calling.db'}", external=webhook) as running:
        yield running
    await webhook.close()


@pytest.mark.parametrize(("matches", "raise_when"), [(True, True), (True, False), (False, True), (False, False)])
async def test_an_endpoints_answer_is_shown_in_full_with_what_it_would_have_led_to(
    calling: Api, matches: bool, raise_when: bool
) -> None:
    said = json.dumps({"matches": matches, "reason": "grüße", "score": 7.5, "more": [1]}).encode()
    behaviour = answering(said, content_type="text/x-odd", set_cookie="session=c00kie", x_request_id="req-1")
    async with Endpoint(behaviour) as endpoint:
        answer = await calling.call("POST", PATH, json={"url": f"{endpoint.url}?t=s3cret", "raiseWhen": raise_when})
    assert answer["ok"] is True
    assert answer["wouldRaise"] is (matches == raise_when)
    assert answer["response"] == {"matches": matches, "score": 7.5, "reason": "grüße"}
    http = answer["http"]
    assert (http["version"], http["status"], http["body"]) == ("HTTP/1.1", 200, said.decode())
    assert http["headers"] == {"content-type": "text/x-odd", "content-length": str(len(said)), "x-request-id": "req-1"}
    assert 0 < http["headersMs"] <= http["durationMs"]
    assert "c00kie" not in str(answer)
    assert "s3cret" not in str(answer)
    (request,) = endpoint.requests
    assert request.json["schemaVersion"] == 2
    assert [request.json[name] for name in ("evaluatorId", "agentId", "traceId")] == [None, None, None]
    assert [span["type"] for span in request.json["spans"]] == ["span", "llm"]


@pytest.mark.parametrize(
    ("behaviour", "kind", "status", "body"),
    [
        (answering(b"stack trace\n", status=500), "http_status", 500, "stack trace\n"),
        (answering(b"who?", status=401, www_authenticate="Bearer"), "http_status", 401, "who?"),
        (answering(b"gone there", status=302, location="/x"), "redirect", 302, "gone there"),
        (answering(b'{"matches": 1}'), "malformed", 200, '{"matches": 1}'),
        (answering(b"\xff<html>"), "not_json", 200, "\ufffd<html>"),
        (sending(b'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"mat', closing=True), "connection", 200, '{"mat'),
    ],
    ids=["500", "401", "redirect", "malformed", "not json", "cut off"],
)
async def test_an_answer_that_does_not_count_is_shown_as_well(
    calling: Api, behaviour: Behaviour, kind: str, status: int, body: str
) -> None:
    async with Endpoint(behaviour) as endpoint:
        answer = await calling.call("POST", PATH, json={"url": endpoint.url})
    assert (answer["ok"], answer["check"]["error"]["kind"]) == (False, kind)
    assert answer["error"] == answer["check"]["error"]["message"]
    assert (answer["http"]["status"], answer["http"]["body"]) == (status, body)
    assert {"response", "wouldRaise"}.isdisjoint(answer)


async def test_an_answer_that_is_too_large_is_shown_up_to_the_limit(calling: Api) -> None:
    async with Endpoint(answering(b" " * 3_000_000)) as endpoint:
        answer = await calling.call("POST", PATH, json={"url": endpoint.url})
    assert answer["check"]["error"]["kind"] == "too_large"
    assert answer["http"]["headers"]["content-length"] == "3000000"
    assert len(answer["http"]["body"]) == 1024 * 1024


async def test_where_nothing_was_answered_there_is_nothing_to_show(calling: Api) -> None:
    async with Endpoint(sending(b"", closing=True)) as endpoint:
        for url, kind in ((endpoint.url, "connection"), ("http://10.0.0.1/", "blocked_address")):
            answer = await calling.call("POST", PATH, json={"url": url})
            assert answer["check"]["error"]["kind"] == kind
            assert "http" not in answer


async def test_what_was_put_aside_of_an_answer_is_told_in_the_logs_and_the_rest_counts(calling: Api) -> None:
    said = json.dumps({"matches": True, "reason": ["no text"], "score": "high"}).encode()
    async with Endpoint(answering(said)) as endpoint:
        answer = await calling.call("POST", PATH, json={"url": endpoint.url})
        assert answer["check"]["metadata"] == {"score": "high", "reason": ["no text"]}
    async with Endpoint(answering(json.dumps({"matches": True, "reason": "x" * 5000}).encode())) as endpoint:
        long = await calling.call("POST", PATH, json={"url": endpoint.url})
    assert (answer["ok"], answer["wouldRaise"], long["ok"]) == (True, True, True)
    assert answer["logs"].splitlines() == [
        "The score is string high, not a number of 64 bits; kept as metadata.",
        "The reason is array, not text; kept as metadata.",
    ]
    assert long["logs"] == "The reason has 5000 characters; the first 4000 were kept.\n"

"""Attacks through what is sent to be stored, and through what evaluators make of it: the server answers and goes on."""

import gzip
import json
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from support.api import EVALUATORS, Api, running_api
from support.otlp_bodies import otlp_body, otlp_span
from support.server import Server

JSON = {"content-type": "application/json"}


@pytest.fixture
async def api(tmp_path: Path) -> AsyncGenerator[Api]:
    async with running_api(f"sqlite:///{tmp_path / 'assay.db'}") as running:
        yield running


@pytest.mark.parametrize("field", ["latency_ms", "cost", "started_at", "input_tokens"])
@pytest.mark.parametrize("number", ["1e303", "1e400", "9" * 400, "-1e303", "NaN"])
async def test_a_number_beyond_reason_is_refused_by_name(api: Api, field: str, number: str) -> None:
    body = f'{{"spans":[{{"{field}":{number}}}]}}'
    problem = await api.call("POST", "/api/v1/traces", 400, content=body, headers=JSON)
    assert field in problem["detail"]


@pytest.mark.parametrize(
    "name",
    [
        "ag.metrics.duration.cumulative",
        "ag.metrics.unit.duration.total",
        "ag.metrics.unit.costs.total",
        "ag.metrics.unit.tokens.total",
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.cost",
        "llm.token_count.prompt",
        "llm.cost.total",
    ],
)
@pytest.mark.parametrize("number", [1e303, 1e308, 2**63 - 1, "9" * 400, "1e400", [1e303]])
async def test_a_figure_beyond_reason_in_otlp_is_stored_and_shown(api: Api, name: str, number: Any) -> None:
    spans = [
        otlp_span({name: number}, spanId=f"{at:016x}", parentSpanId=f"{at - 1:016x}", endTimeUnixNano=None)
        for at in range(1, 4)
    ]
    await api.call("POST", "/v1/traces", content=otlp_body(*spans), headers=JSON)
    assert len((await api.call("GET", f"/api/v1/traces/{spans[0]['traceId']}"))["spans"]) == 3


HOSTILE_RESULTS = {
    "a long name over many metrics": '{"A" * 200_000: {"k%d" % i: 1 for i in range(990)}}',
    "many long names": '{"A" * 190 + str(i): 1 for i in range(990)}',
    "an integer of a thousand digits": '{"n": 10 ** 1000}',
    "a list nested to the limit": '{"l": %s}' % ("[" * 62 + "]" * 62),
    "a hundred thousand numbers": '{"l": [1] * 100_000}',
    "text of control characters": '{"t": "".join(map(chr, range(32)))}',
}


@pytest.mark.parametrize("what", HOSTILE_RESULTS)
async def test_what_a_check_made_of_a_hostile_result_is_small_and_shown(api: Api, what: str) -> None:
    script = f"def evaluate(inputs, outputs, trace):\n    return {HOSTILE_RESULTS[what]}"
    evaluator = await api.create(script=script)
    trace_id = await api.send("1")
    await api.settled()
    answer = await api.http.get(f"{EVALUATORS}/{evaluator['id']}/events")
    assert answer.status_code == 200
    assert len(answer.content) < 1_000_000
    (event,) = answer.json()["events"]
    if "name" in what:
        assert event["error"]["kind"] == "metric-name-too-long"
    assert (await api.http.get(f"/api/v1/traces/{trace_id}")).status_code == 200


async def test_spans_beyond_what_a_trace_may_have_are_rejected_and_told(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.store.traces.MOST_SPANS", 3)
    spans = [otlp_span(spanId=f"{number:016x}") for number in range(1, 5)]
    await api.call("POST", "/v1/traces", content=otlp_body(*spans[:3]), headers=JSON)
    elsewhere = otlp_span(traceId="ab" * 16)
    answer = await api.call("POST", "/v1/traces", content=otlp_body(spans[3], elsewhere, {}), headers=JSON)
    assert answer["partialSuccess"]["rejectedSpans"] == "2"
    assert "at most 3 are kept of one trace" in answer["partialSuccess"]["errorMessage"]
    assert len((await api.call("GET", f"/api/v1/traces/{'ab' * 16}"))["spans"]) == 1
    problem = await api.call("POST", "/api/v1/traces", 400, json={"id": "p", "spans": [{}] * 4})
    assert problem["field"] == "trace_id"
    assert "0 spans and 4 more came" in problem["detail"]


async def test_a_bomb_of_spans_is_refused_with_the_number_allowed(api: Api) -> None:
    body = gzip.compress(b'{"trace_id":"z","spans":[' + b"{}," * 100_000 + b"{}]}")
    headers = {**JSON, "content-encoding": "gzip"}
    problem = await api.call("POST", "/api/v1/traces", 413, content=body, headers=headers)
    assert "holds 100001 spans; at most 10000 are allowed" in problem["detail"]
    spans = b'{"resourceSpans":[{"scopeSpans":[{"spans":[' + b"{}," * 100_000 + b"{}]}]}]}"
    refusal = await api.call("POST", "/v1/traces", 413, content=gzip.compress(spans), headers=headers)
    assert "holds 100001 spans" in refusal["message"]


def nested_text(levels: int) -> str:
    return '{"a":[' * (levels // 2) + "1" + "]}" * (levels // 2)


async def test_values_as_deep_as_they_may_be_are_stored_checked_and_shown(api: Api) -> None:
    deep: Any = "x"
    for _ in range(60):
        deep = [deep]
    call = {"tool_calls": [{"function": {"name": "f", "arguments": nested_text(64)}}]}
    spans = [
        otlp_span(
            {
                "gen_ai.request.model": "m",
                "gen_ai.output.messages": json.dumps([{"role": "assistant", **call}]),
                "ag." + "a." * 100: nested_text(64),
                "gen_ai.prompt." + "0." * 100 + "content": nested_text(64),
                "metadata": nested_text(64),
                "mine": deep,
                "ag.data.inputs": "@ag.type=json:" + nested_text(64),
            }
        )
    ]
    scripts = {
        "evaluate": "def evaluate(inputs, outputs, trace):\n    return True",
        "handler": "def handler(input, output, expected, metadata, trace):\n    return 1",
    }
    evaluators = [await api.create(script=script) for script in scripts.values()]
    answer = await api.call("POST", "/v1/traces", content=otlp_body(*spans), headers=JSON)
    assert answer == {}
    await api.settled()
    for evaluator in evaluators:
        (event,) = (await api.call("GET", f"{EVALUATORS}/{evaluator['id']}/events"))["events"]
        assert event["status"] == "scored"
    whole = await api.call("GET", f"/api/v1/traces/{spans[0]['traceId']}")
    assert whole["spans"][0]["attributes"]["mine"] == deep


@pytest.mark.parametrize(
    "cursor", ["WzkyMjMzNzIwMzY4NTQ3NzU4MDgsIDFd", "WzEwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAsIngiXQ"]
)
async def test_a_forged_cursor_is_the_callers_error(api: Api, cursor: str) -> None:
    evaluator = await api.create()
    for path in ("/api/v1/traces", "/api/v1/signals", f"{EVALUATORS}/{evaluator['id']}/events"):
        problem = await api.call("GET", path, 400, params={"cursor": cursor})
        assert problem["field"] == "cursor"


def in_field(number: int, data: bytes) -> bytes:
    """Return protobuf bytes as a field of the message around them."""
    size, head = len(data), bytearray([number << 3 | 2])
    while size > 0x7F:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*head, size]) + data


def test_a_server_under_bombs_answers_everybody_else(tmp_path: Path) -> None:
    spans = b'{"trace_id":"z","spans":[' + b"{}," * 699_999 + b"{}]}"
    values = b'{"resourceSpans":[{"x":[' + b"{}," * 20_000_000 + b"{}]}]}"
    messages = in_field(1, in_field(2, b"\x12\x00" * 10_000_000))
    bombs = [
        ("/api/v1/traces", JSON, gzip.compress(spans), 413),
        ("/v1/traces", JSON, gzip.compress(values, 1), 413),
        ("/v1/traces", {"content-type": "application/x-protobuf"}, gzip.compress(messages, 1), 413),
        ("/v1/traces", JSON, gzip.compress(b"") * 157_286, 400),
    ]
    with Server(tmp_path) as server, ThreadPoolExecutor(4) as senders:

        def send(path: str, headers: dict[str, str], body: bytes) -> int:
            return server.client.post(path, content=body, headers={**headers, "content-encoding": "gzip"}).status_code

        under_way = [senders.submit(send, path, headers, body) for path, headers, body, _ in bombs * 2]
        answered = 0
        while not all(bomb.done() for bomb in under_way):
            assert server.client.get("/healthz", timeout=5).status_code == 200
            answered += 1
        assert [bomb.result() for bomb in under_way] == [status for *_, status in bombs * 2]
        assert answered > len(bombs)
        sent = server.client.post("/api/v1/traces", json={"id": "after", "spans": [{"latency_ms": 1}]})
        assert sent.status_code == 201

"""OTLP over HTTP: what is answered, in which encoding, and when it is stored."""

import gzip
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from assay.errors import OverloadedError
from assay.live.pipeline import LivePipeline
from support.api import Api, client, key

PATHS = ("/v1/traces", "/api/v1/otel/v1/traces")
PROTOBUF = "application/x-protobuf"
JSON = "application/json"
TRACE_ID = "5b8efff798038103d269b633813fc60c"
INVALID_ARGUMENT = 3


def span(**fields: Any) -> dict[str, Any]:
    return {"traceId": TRACE_ID, "spanId": "eee19b7ec3c1b174", "name": "answer", **fields}


def as_json(*spans: dict[str, Any]) -> bytes:
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()


def as_protobuf(trace_id: str = TRACE_ID) -> bytes:
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    spans.add(trace_id=bytes.fromhex(trace_id), span_id=b"12345678", name="answer")
    return request.SerializeToString()


def rpc_status(body: bytes) -> tuple[int, str]:
    """Read the two fields of a google.rpc.Status, for messages of less than 128 bytes or of less than 16 KiB."""
    assert body[0] == 0x08
    assert body[2] == 0x12
    start = 4 if body[3] < 0x80 else 5
    return body[1], body[start:].decode()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("encoding", ["identity", "gzip"])
@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        pytest.param(PROTOBUF, as_protobuf(), id="protobuf"),
        pytest.param(f"{JSON}; charset=utf-8", as_json(span()), id="json"),
    ],
)
async def test_spans_are_stored_before_200_leaves(
    api: Api, path: str, encoding: str, content_type: str, body: bytes
) -> None:
    content = gzip.compress(body) if encoding == "gzip" else body
    headers = {"content-type": content_type, "content-encoding": encoding}
    answer = await api.http.post(path, content=content, headers=headers)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == content_type.partition(";")[0]
    assert answer.content == (b"" if content_type == PROTOBUF else b"{}")
    assert (await api.call("GET", f"/api/v1/traces/{TRACE_ID}"))["spans"][0]["name"] == "answer"


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        pytest.param(b"\xff\xff", {}, 400, id="no-protobuf"),
        pytest.param(b"no gzip", {"content-encoding": "gzip"}, 400, id="no-gzip"),
        pytest.param(gzip.compress(as_protobuf())[:-9], {"content-encoding": "gzip"}, 400, id="cut-short"),
        pytest.param(b"\0" * 200_001, {}, 413, id="too-large"),
        pytest.param(gzip.compress(b"\0" * 400_001), {"content-encoding": "gzip"}, 413, id="inflates-too-far"),
        pytest.param(as_protobuf(), {"content-encoding": "br"}, 415, id="another-encoding"),
        pytest.param(as_protobuf(), {"x-api-key": "nobody's"}, 401, id="unknown-key"),
    ],
)
async def test_a_refusal_is_a_status_in_the_encoding_of_the_request(
    api: Api, content: bytes, headers: dict[str, str], status: int
) -> None:
    answer = await api.http.post("/v1/traces", content=content, headers={"content-type": PROTOBUF, **headers})
    assert (answer.status_code, answer.headers["content-type"]) == (status, PROTOBUF)
    code, message = rpc_status(answer.content)
    assert code == (16 if status == 401 else INVALID_ARGUMENT)
    assert message.endswith(".")
    assert (await api.call("GET", "/api/v1/traces"))["traces"] == []


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b"{not json", {"content-type": JSON}, 400),
        (b"[]", {"content-type": JSON}, 400),
        (as_json(span()), {"content-type": "text/plain"}, 415),
        (as_json(span()), {"content-type": ""}, 415),
    ],
)
async def test_senders_of_json_and_of_anything_else_are_answered_in_json(
    api: Api, content: bytes, headers: dict[str, str], status: int
) -> None:
    answer = await api.http.post("/v1/traces", content=content, headers=headers)
    assert (answer.status_code, answer.headers["content-type"]) == (status, JSON)
    assert answer.json()["code"] == INVALID_ARGUMENT


async def test_an_ingest_key_is_enough_and_no_other_route_answers_it(api: Api) -> None:
    async with client(api.app, key("ingest")) as http:
        answer = await http.post("/v1/traces", content=as_protobuf(), headers={"content-type": PROTOBUF})
        assert answer.status_code == 200
        assert (await http.get(f"/api/v1/traces/{TRACE_ID}")).status_code == 403


async def test_a_span_that_cannot_be_read_is_left_out_alone_and_told(api: Api) -> None:
    body = as_json(span(), span(spanId="short", name="second"))
    answer = await api.http.post("/v1/traces", content=body, headers={"content-type": JSON})
    assert answer.status_code == 200
    partial = answer.json()["partialSuccess"]
    assert partial["rejectedSpans"] == "1"
    assert "spans[1]" in partial["errorMessage"]
    assert len((await api.call("GET", f"/api/v1/traces/{TRACE_ID}"))["spans"]) == 1

    answer = await api.http.post("/v1/traces", content=as_protobuf("00" * 16), headers={"content-type": PROTOBUF})
    read = ExportTraceServiceResponse.FromString(answer.content)
    assert (answer.status_code, read.partial_success.rejected_spans) == (200, 1)


async def test_a_body_that_never_ends_is_refused_at_the_limit(api: Api) -> None:
    async def endless() -> AsyncGenerator[bytes]:
        while True:
            yield b"\0" * 65_536

    headers = {"content-type": PROTOBUF}
    answer = await api.http.post("/v1/traces", content=endless(), headers=headers)
    assert answer.status_code == 413
    answer = await api.http.post("/api/v1/traces", content=endless(), headers={"content-type": JSON})
    assert (answer.status_code, answer.json()["code"]) == (413, "payload-too-large")


async def test_overload_is_429_with_a_time_to_come_back(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(*_: object) -> int:
        raise OverloadedError("Too much waits; send this again in 5 s.", retry_after_s=5)

    monkeypatch.setattr(LivePipeline, "accept", full)
    answer = await api.http.post("/v1/traces", content=as_json(span()), headers={"content-type": JSON})
    assert (answer.status_code, answer.headers["retry-after"], answer.json()["code"]) == (429, "5", 8)
    trace = {"spans": [{"name": "a"}]}
    answer = await api.http.post("/api/v1/traces", json=trace)
    assert (answer.status_code, answer.headers["retry-after"], answer.json()["code"]) == (429, "5", "overloaded")


async def test_a_failure_of_ours_tells_nothing_of_itself(
    api: Api, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def broken(*_: object) -> int:
        raise RuntimeError("password=hunter2")

    monkeypatch.setattr(LivePipeline, "accept", broken)
    for path, code in (("/v1/traces", 13), ("/api/v1/traces", "internal")):
        body = as_json(span()) if path == "/v1/traces" else b'{"spans": [{"name": "a"}]}'
        headers = {"content-type": JSON, "x-request-id": "asked-7"}
        answer = await api.http.post(path, content=body, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (500, code)
        assert "hunter2" not in answer.text
        assert answer.headers["x-request-id"] == "asked-7"
    logged = capsys.readouterr().out
    assert "RuntimeError" in logged
    assert "asked-7" in logged
    assert "hunter2" not in logged

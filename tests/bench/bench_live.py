"""Ingest and the live path through the real server process: durable spans/s, and the time from accepted to recorded.

Prints what was measured beside its limit: one bare commit at a time on this disk, and the settle time taken off.
"""

import asyncio
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

import httpx2
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

sys.path.insert(0, str(Path(__file__).parent.parent))
from support.server import ADMIN_KEY, Server

SPANS_A_REQUEST = 100
INGEST_S = 8.0
CONNECTIONS = 8
TRACES_A_SECOND = 200
LIVE_S = 15.0
SETTLE_S = 0.5
SCRIPT = """
def evaluate(inputs, outputs, trace):
    return {"success": "sorry" not in outputs, "spans": len(trace["spans"])}
"""
HANGING = """
import time

def evaluate(inputs, outputs, trace):
    while True:
        time.sleep(1)
"""


def body(spans: int, spans_a_trace: int) -> tuple[bytes, list[str]]:
    """Return a protobuf request of realistic spans, and its trace ids."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.append(KeyValue(key="service.name", value=AnyValue(string_value="desk")))
    scope = resource.scope_spans.add()
    trace_ids: list[str] = []
    now = time.time_ns()
    parent = b""
    for number in range(spans):
        if number % spans_a_trace == 0:
            trace_ids.append(f"{random.getrandbits(128):032x}")
            parent = b""
        span = scope.spans.add(
            trace_id=bytes.fromhex(trace_ids[-1]),
            span_id=random.randbytes(8),
            parent_span_id=parent,
            name="chat m-1" if parent else "answer",
            start_time_unix_nano=now,
            end_time_unix_nano=now + 900_000_000,
        )
        parent = parent or span.span_id
        texts = {
            "gen_ai.request.model": "m-1",
            "gen_ai.operation.name": "chat",
            "input.value": "where is my parcel? " * 5,
            "output.value": "it is on its way " * 8,
            "session.id": "s-1",
        }
        for key, text in texts.items():
            span.attributes.append(KeyValue(key=key, value=AnyValue(string_value=text)))
        for key, count in {"gen_ai.usage.input_tokens": 220, "gen_ai.usage.output_tokens": 64}.items():
            span.attributes.append(KeyValue(key=key, value=AnyValue(int_value=count)))
    return request.SerializeToString(), trace_ids


def client(server: Server) -> httpx2.AsyncClient:
    """Return a client that sends protobuf."""
    headers = {"x-api-key": ADMIN_KEY, "content-type": "application/x-protobuf"}
    return httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=30)


async def ingest(server: Server) -> float:
    """Return accepted spans per second over several connections."""
    bodies = [body(SPANS_A_REQUEST, 4)[0] for _ in range(int(INGEST_S) * 200)]
    accepted = 0
    deadline = time.perf_counter() + INGEST_S

    async def send() -> None:
        nonlocal accepted
        async with client(server) as http:
            while bodies and time.perf_counter() < deadline:
                answer = await http.post("/v1/traces", content=bodies.pop())
                answer.raise_for_status()
                accepted += SPANS_A_REQUEST

    started = time.perf_counter()
    await asyncio.gather(*(send() for _ in range(CONNECTIONS)))
    return accepted / (time.perf_counter() - started)


async def live(server: Server) -> dict[str, int]:
    """Send traces at a steady rate; return when each was answered, in nanoseconds since the epoch."""
    answered: dict[str, int] = {}

    async def send(http: httpx2.AsyncClient) -> None:
        content, (trace_id,) = body(4, 4)
        answer = await http.post("/v1/traces", content=content)
        answer.raise_for_status()
        answered[trace_id] = time.time_ns()

    async with client(server) as http, asyncio.TaskGroup() as group:
        started = time.perf_counter()
        for number in range(int(TRACES_A_SECOND * LIVE_S)):
            await asyncio.sleep(max(0.0, started + number / TRACES_A_SECOND - time.perf_counter()))
            group.create_task(send(http))
    return answered


def latencies_ms(server: Server, evaluator_id: str, answered: dict[str, int]) -> list[float]:
    """Return accepted-to-recorded times without the settle time, once every trace has its check."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        recorded = {event["traceId"]: event["recordedAtNs"] for event in server.events(evaluator_id)}
        if answered.keys() <= recorded.keys():
            return [(recorded[trace_id] - at) / 1e6 - SETTLE_S * 1000 for trace_id, at in answered.items()]
        time.sleep(0.5)
    raise TimeoutError("checks are missing")


def show(what: str, times: list[float]) -> None:
    """Print the median and the 99th percentile."""
    quantiles = statistics.quantiles(times, n=100)
    print(f"{what:<58} p50 {quantiles[49]:8.1f} ms   p99 {quantiles[98]:8.1f} ms   ({len(times)} checks)")


def main() -> None:
    """Run both measurements, each on a disk that has nothing left to write of the one before."""
    with tempfile.TemporaryDirectory() as folder, Server(Path(folder), ASSAY_SETTLE_S=str(SETTLE_S)) as server:
        evaluator_id = server.create_evaluator(script=SCRIPT)
        answered = asyncio.run(live(server))
        show(f"accepted to recorded at {TRACES_A_SECOND} traces/s", latencies_ms(server, evaluator_id, answered))
        hanging = server.create_evaluator(name="hangs", script=HANGING, sampleRate=1)
        os.sync()
        answered = asyncio.run(live(server))
        show("the same beside an evaluator that always hangs", latencies_ms(server, evaluator_id, answered))
        server.client.delete(f"/agent-monitoring/custom-evaluators/{hanging}")
    os.sync()
    with tempfile.TemporaryDirectory() as folder, Server(Path(folder), ASSAY_SETTLE_S=str(SETTLE_S)) as server:
        print(f"{'durable ingest, 100 spans a request, 8 connections':<58} {asyncio.run(ingest(server)):8.0f} spans/s")


if __name__ == "__main__":
    main()

"""The server is killed at random moments under load; what it answered 200 for is neither lost nor doubled."""

import random
import sqlite3
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2
import pytest

from support.server import ADMIN_KEY, Server, wait_for

KILLS = 20
SCRIPT = """
def evaluate(inputs, outputs, trace):
    return {"success": outputs != "bad", "n": len(trace["spans"])}
"""


class Load:
    """Sends two-span traces until stopped, and remembers those that were answered 200."""

    def __init__(self, url: str, seed: int) -> None:
        self.accepted: dict[str, str] = {}
        self._url = url
        self._random = random.Random(seed)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        with httpx2.Client(base_url=self._url, headers={"x-api-key": ADMIN_KEY}, timeout=5) as client:
            while not self._stopping.is_set():
                trace_id = f"{self._random.getrandbits(128):032x}"
                output = self._random.choice(["good", "bad"])
                try:
                    answer = client.post("/v1/traces", json=trace(trace_id, output))
                except httpx2.TransportError:
                    time.sleep(0.02)
                    continue
                if answer.is_success:
                    self.accepted[trace_id] = output


def trace(trace_id: str, output: str) -> dict[str, Any]:
    now = time.time_ns()
    root = {
        "traceId": trace_id,
        "spanId": "00000000000000a1",
        "name": "root",
        "startTimeUnixNano": str(now),
        "endTimeUnixNano": str(now + 1_000_000),
        "attributes": [{"key": "output.value", "value": {"stringValue": output}}],
    }
    child = {**root, "spanId": "00000000000000a2", "parentSpanId": "00000000000000a1", "name": "child"}
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "desk"}}]}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": [child, root]}]}]}


@pytest.mark.timeout(300)
def test_every_accepted_trace_is_checked_exactly_once_though_the_server_is_killed_twenty_times(tmp_path: Path) -> None:
    moments = random.Random(20)
    with Server(tmp_path, ASSAY_SETTLE_S="0.1", ASSAY_LEASE_S="2") as server:
        evaluator_id = server.create_evaluator(script=SCRIPT)
        with Load(server.url, seed=1) as first, Load(server.url, seed=2) as second:
            for _ in range(KILLS):
                time.sleep(moments.uniform(0.05, 0.8))
                server.kill()
                server.start()
            time.sleep(0.5)
        accepted = {**first.accepted, **second.accepted}
        assert len(accepted) > 200

        wait_for(lambda: metric(server, "assay_queue_depth") == 0, "the queue to drain", 120)
        events = server.events(evaluator_id, status="all")
        per_trace = Counter(event["traceId"] for event in events)
        assert [trace_id for trace_id, count in per_trace.items() if count != 1] == []
        assert [trace_id for trace_id in accepted if trace_id not in per_trace] == []
        for trace_id in accepted:
            assert len(server.get(f"/api/v1/traces/{trace_id}")["spans"]) == 2
        assert all(event["metrics"]["n"] == 2 for event in events)

        failed = [event for event in events if event["metrics"]["success"] is False]
        (signal,) = server.get("/api/v1/signals", evaluatorId=evaluator_id)["signals"]
        assert signal["count"] == len(failed)
        assert server.stop() == 0

    with sqlite3.connect(tmp_path / "assay.db") as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def metric(server: Server, name: str) -> float:
    for line in server.client.get("/metrics").text.splitlines():
        if line.startswith(name + " "):
            return float(line.split()[1])
    raise AssertionError(f"no metric {name}")

"""Two servers share a PostgreSQL database; one is killed, and the other finishes what it held."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest

from support.server import Server, wait_for

TRACES = 80
SLOW = """
import time

def evaluate(inputs, outputs, trace):
    time.sleep(0.02)
    return {"success": outputs != "bad"}
"""


@pytest.fixture
def servers(tmp_path: Path, postgres_url: str) -> Iterator[list[Server]]:
    with ExitStack() as stack:
        started: list[Server] = []
        for name in ("first", "second"):
            (tmp_path / name).mkdir()
            started.append(
                stack.enter_context(
                    Server(tmp_path / name, ASSAY_DATABASE_URL=postgres_url, ASSAY_LEASE_S="2", ASSAY_SETTLE_S="0.1")
                )
            )
        yield started


def send(server: Server, number: int) -> str:
    output = "bad" if number % 4 == 0 else "good"
    trace: dict[str, Any] = {"agent": "desk", "traceId": f"t{number}", "spans": [{"name": "a", "output": output}]}
    answer = server.client.post("/api/v1/traces", json=trace)
    assert answer.status_code in (httpx2.codes.OK, httpx2.codes.CREATED, httpx2.codes.ACCEPTED), answer.text
    return f"t{number}"


def test_what_a_killed_server_held_is_checked_once_by_the_other(servers: list[Server]) -> None:
    first, second = servers
    evaluator_id = first.create_evaluator(script=SLOW)

    accepted = [send(servers[number % 2], number) for number in range(TRACES)]
    wait_for(lambda: first.events(evaluator_id), "the first checks")
    second.kill()

    wait_for(lambda: len(first.events(evaluator_id)) >= TRACES, "every trace to be checked", 60)
    assert Counter(event["traceId"] for event in first.events(evaluator_id)) == Counter(accepted)
    (signal,) = first.get("/api/v1/signals", evaluatorId=evaluator_id)["signals"]
    assert signal["count"] == TRACES // 4

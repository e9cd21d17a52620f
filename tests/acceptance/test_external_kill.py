"""The server is killed while an endpoint is being called; every check it owes is recorded once."""

import asyncio
from collections import Counter
from pathlib import Path

from support.endpoint import Endpoint, Request, answering
from support.server import Server, wait_for

TRACES = 40
KILLS = 2


async def test_pending_calls_survive_kills_and_each_check_is_recorded_once_under_one_key(tmp_path: Path) -> None:
    tried: Counter[int] = Counter()

    async def fail_at_times(request: Request, writer: asyncio.StreamWriter) -> None:
        number = request.json["trace"]["input"]
        tried[number] += 1
        await asyncio.sleep(0.05)
        fails = number % 4 == 0 and tried[number] == 1
        await answering(b'{"matches": false}', status=503 if fails else 200)(request, writer)

    def run() -> list[str]:
        server = Server(tmp_path, ASSAY_EXTERNAL_ALLOW='["127.0.0.0/8"]', ASSAY_LEASE_S="1")
        with server:
            created = server.client.post(
                "/agent-monitoring/custom-evaluators",
                json={"kind": "external", "name": "slow", "url": endpoint.url, "sampleRate": 1},
            )
            for number in range(TRACES):
                trace = {"trace_id": f"t{number}", "spans": [{"name": "s", "input": number}]}
                assert server.client.post("/api/v1/traces", json=trace).is_success
            for number in range(1, KILLS + 1):
                wait_for(lambda most=number: len(endpoint.requests) > 12 * most, "calls under way")
                server.kill()
                server.start()
            evaluator_id = created.json()["id"]
            wait_for(lambda: len(server.events(evaluator_id)) >= TRACES, "every check", 60)
            return [f"{event['traceId']} {event['status']}" for event in server.events(evaluator_id)]

    async with Endpoint(fail_at_times) as endpoint:
        recorded = await asyncio.to_thread(run)
        keys = {(request.json["traceId"], request.headers["idempotency-key"]) for request in endpoint.requests}
    assert sorted(recorded) == sorted(f"t{number} scored" for number in range(TRACES))
    assert len(keys) == len({key for _, key in keys}) == TRACES

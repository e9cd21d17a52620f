"""A real server tells people of signals, over networks that fail and across its own death."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from standardwebhooks import Webhook

from support.endpoint import Endpoint, Request, answering, in_turn
from support.server import Server, wait_for

AGENTS = 30
KILLS = 2
FAILING = "def evaluate(inputs, outputs, trace):\n    return False\n"
ALLOWING_LOOPBACK = '["127.0.0.0/8"]'


def create_channel(server: Server, url: str, **fields: Any) -> dict[str, Any]:
    answer = server.client.post("/api/v1/channels", json={"name": "on call", "url": url, **fields})
    assert answer.status_code == 201, answer.text
    return answer.json()


def fail_for(server: Server, *agents: str) -> None:
    for agent in agents:
        trace = {"trace_id": f"trace-of-{agent}", "agent": agent, "spans": [{"name": "s", "output": "no"}]}
        assert server.client.post("/api/v1/traces", json=trace).is_success


async def with_server(folder: Path, steps: Callable[[Server], Any], **settings: str) -> Any:
    def run() -> Any:
        with Server(folder, ASSAY_EXTERNAL_ALLOW=ALLOWING_LOOPBACK, **settings) as server:
            return steps(server)

    return await asyncio.to_thread(run)


async def test_a_failing_check_reaches_a_signed_webhook_and_a_channel_of_apprise(tmp_path: Path) -> None:
    async with Endpoint(answering()) as signed, Endpoint(answering()) as plain:

        def steps(server: Server) -> str:
            made = create_channel(server, f"webhook:http://127.0.0.1:{signed.port}/hook")
            create_channel(server, f"json://127.0.0.1:{plain.port}/hook", minSeverity="high")
            create_channel(server, f"json://127.0.0.1:{plain.port}/never", minSeverity="critical")
            server.create_evaluator(name="polite", severity="high", script=FAILING)
            fail_for(server, "shop")
            wait_for(lambda: signed.requests and plain.requests, "both messages")
            return made["secret"]

        secret = await with_server(tmp_path, steps)
    (request,) = signed.requests
    document = Webhook(secret).verify(request.body, request.headers)
    (event,) = document["data"]["events"]
    assert (event["event"], event["agent"]["name"], event["signal"]["severity"]) == ("raised", "shop", "high")
    (message,) = plain.requests
    assert message.line.startswith("POST /hook ")
    assert message.json["title"] == "[high] polite fails on shop"


async def test_each_notification_survives_kills_and_arrives_under_one_id(tmp_path: Path) -> None:
    events: dict[str, set[str]] = defaultdict(set)
    attempts: dict[str, int] = defaultdict(int)

    async def answer_slowly_and_fail_at_times(request: Request, writer: asyncio.StreamWriter) -> None:
        name = request.headers["webhook-id"]
        attempts[name] += 1
        await asyncio.sleep(0.05)
        if attempts[name] == 1 and len(attempts) % 7 == 0:
            await answering(status=503)(request, writer)
            return
        events[name].update(event["id"] for event in request.json["data"]["events"])
        await answering()(request, writer)

    def steps(server: Server) -> dict[str, Any]:
        made = create_channel(server, f"webhook:http://127.0.0.1:{endpoint.port}/hook")
        server.create_evaluator(script=FAILING)
        fail_for(server, *(f"agent {number}" for number in range(AGENTS)))
        for number in range(1, KILLS + 1):
            wait_for(lambda most=number: len(endpoint.requests) > 7 * most, "deliveries under way")
            server.kill()
            server.start()
        path = f"/api/v1/channels/{made['id']}/deliveries"

        def all_told() -> Any:
            log = server.get(path, limit=200)
            told = {line["notificationId"] for line in log["deliveries"] if line["outcome"] == "told"}
            return log if len(told) >= AGENTS and log["owed"] == 0 else None

        return wait_for(all_told, "every notification told", 90)

    async with Endpoint(answer_slowly_and_fail_at_times) as endpoint:
        log = await with_server(tmp_path, steps, ASSAY_LEASE_S="1")
    told = {line["notificationId"] for line in log["deliveries"] if line["outcome"] == "told"}
    assert set(events) == told
    assert len(told) == AGENTS
    assert [len(of_one) for of_one in events.values()] == [1] * AGENTS
    assert len(set[str]().union(*events.values())) == AGENTS


async def test_a_digest_survives_a_kill_and_is_one_message(tmp_path: Path) -> None:
    async with Endpoint(answering()) as endpoint:

        def steps(server: Server) -> None:
            made = create_channel(server, f"webhook:http://127.0.0.1:{endpoint.port}/hook", digestSeconds=15)
            server.create_evaluator(script=FAILING)
            fail_for(server, "a", "b", "c")
            wait_for(lambda: len(server.get("/api/v1/signals")["signals"]) == 3, "three signals")
            assert server.get(f"/api/v1/channels/{made['id']}/deliveries")["owed"] == 1
            server.kill()
            server.start()
            wait_for(lambda: endpoint.requests, "the digest", 60)

        await with_server(tmp_path, steps, ASSAY_LEASE_S="1")
    (request,) = endpoint.requests
    assert sorted(event["agent"]["name"] for event in request.json["data"]["events"]) == ["a", "b", "c"]


async def test_a_channel_that_fails_is_marked_says_so_and_recovers_without_telling_secrets(tmp_path: Path) -> None:
    async with Endpoint(in_turn(answering(status=500, Retry_After="1"), answering())) as endpoint:

        def steps(server: Server) -> str:
            made = create_channel(server, f"webhook:http://127.0.0.1:{endpoint.port}/t0ken-in-path?key=s3cret-key")
            path = f"/api/v1/channels/{made['id']}"
            server.create_evaluator(script=FAILING)
            fail_for(server, "shop")
            failing = wait_for(lambda: (found := server.get(path))["status"]["state"] == "failing" and found, "marked")
            assert "answered 500" in failing["status"]["lastError"]
            recovered = wait_for(lambda: (found := server.get(path))["status"]["state"] == "ok" and found, "recovered")
            said = str([made["url"], failing, recovered, server.get(f"{path}/deliveries"), server.log])
            assert made["secret"] not in said
            metrics = server.client.get("/metrics").text
            assert 'assay_notifications_total{outcome="failed"} 1.0' in metrics
            assert 'assay_notifications_total{outcome="told"} 1.0' in metrics
            server.stop()
            stored = b"".join(file.read_bytes() for file in tmp_path.glob("assay.db*"))
            for secret in ("t0ken-in-path", "s3cret-key", made["secret"]):
                assert secret.encode() not in stored
            return said

        said = await with_server(tmp_path, steps)
    assert "t0ken" not in said
    assert "s3cret" not in said
    assert len({request.headers["webhook-id"] for request in endpoint.requests}) == 1


async def test_a_key_that_was_replaced_can_go_after_one_start(tmp_path: Path) -> None:
    old, new = "old-" * 8, "new-" * 8

    def made(server: Server) -> str:
        return create_channel(server, f"webhook:http://127.0.0.1:{endpoint.port}/hook")["id"]

    def tested(server: Server) -> bool:
        return server.client.post(f"/api/v1/channels/{channel_id}/test").json()["ok"]

    async with Endpoint(answering()) as endpoint:
        channel_id = await with_server(tmp_path, made, ASSAY_SECRET_KEY=old)
        assert not await with_server(tmp_path, tested, ASSAY_SECRET_KEY=new)
        both = {"ASSAY_SECRET_KEY": new, "ASSAY_OLD_SECRET_KEYS": f'["{old}"]'}
        assert await with_server(tmp_path, tested, **both)
        assert await with_server(tmp_path, tested, ASSAY_SECRET_KEY=new)

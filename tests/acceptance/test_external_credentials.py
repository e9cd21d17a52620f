"""Credentials of external scorers on a real server: over a change of its key, and nowhere in its log or its files."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from standardwebhooks import Webhook

from support.endpoint import Endpoint, answering
from support.server import Server, wait_for

FIRST, SECOND = "old-" * 8, "new-" * 8
SIGNING = "whsec_" + "c2VjcmV0" * 5
SECRETS = {"headers": {"X-Api-Key": "header-secret"}, "bearerToken": "bearer-secret", "signingSecrets": [SIGNING]}
EVALUATORS = "/agent-monitoring/custom-evaluators"
Found = TypeVar("Found")


def bytes_of(folder: Path, pattern: str) -> bytes:
    return b"".join(file.read_bytes() for file in folder.glob(pattern))


async def with_server(folder: Path, steps: Callable[[Server], Found], **settings: str) -> Found:
    def run() -> Found:
        with Server(folder, ASSAY_EXTERNAL_ALLOW='["127.0.0.0/8"]', ASSAY_LOG_LEVEL="debug", **settings) as server:
            found = steps(server)
            server.stop()
            return found

    return await asyncio.to_thread(run)


async def test_a_key_that_was_replaced_can_go_after_one_start_and_a_lost_one_is_an_error(tmp_path: Path) -> None:
    def made(server: Server) -> str:
        body = {
            "kind": "external",
            "name": "signed",
            "url": f"{endpoint.url}?t=query-secret",
            "sampleRate": 1,
            **SECRETS,
        }
        answer = server.client.post(EVALUATORS, json=body)
        assert answer.status_code == 201, answer.text
        return answer.json()["id"]

    def checked(trace_id: str) -> Callable[[Server], dict[str, Any]]:
        def steps(server: Server) -> dict[str, Any]:
            trace = {"trace_id": trace_id, "spans": [{"name": "s"}]}
            assert server.client.post("/api/v1/traces", json=trace).is_success

            def event() -> dict[str, Any] | None:
                return next((found for found in server.events(evaluator_id) if found["traceId"] == trace_id), None)

            return wait_for(event, "the check")

        return steps

    async with Endpoint(answering(b'{"matches": false}')) as endpoint:
        evaluator_id = await with_server(tmp_path, made, ASSAY_SECRET_KEY=FIRST)
        lost = await with_server(tmp_path, checked("t1"), ASSAY_SECRET_KEY=SECOND)
        assert (lost["status"], lost["error"]["kind"]) == ("errored", "credentials")
        assert "ASSAY_OLD_SECRET_KEYS" in lost["error"]["message"]
        assert endpoint.connections == 0
        log = (tmp_path / "server.log").read_text()
        assert "credentials-unreadable" in log
        assert evaluator_id in log
        both = {"ASSAY_SECRET_KEY": SECOND, "ASSAY_OLD_SECRET_KEYS": f'["{FIRST}"]'}
        for number, settings in enumerate((both, {"ASSAY_SECRET_KEY": SECOND}), 2):
            event = await with_server(tmp_path, checked(f"t{number}"), **settings)
            assert event["status"] == "scored", event
            request = endpoint.requests[-1]
            assert request.headers["x-api-key"] == "header-secret"
            assert request.headers["authorization"] == "Bearer bearer-secret"
            assert Webhook(SIGNING).verify(request.body, request.headers)["traceId"] == f"t{number}"
    kept, said = bytes_of(tmp_path, "assay.db*"), bytes_of(tmp_path, "server.log")
    assert evaluator_id.encode() in kept
    for secret in ("header-secret", "bearer-secret", SIGNING[6:], FIRST, SECOND):
        assert secret.encode() not in kept
        assert secret.encode() not in said
    assert b"query-secret" not in said


async def test_without_a_key_in_the_settings_one_is_made_in_the_data_folder_for_the_user_alone(tmp_path: Path) -> None:
    def made(server: Server) -> str:
        answer = server.client.post(EVALUATORS, json={"name": "n", "url": endpoint.url, "sampleRate": 1, **SECRETS})
        return answer.json()["id"]

    def tried(server: Server) -> dict[str, Any]:
        return server.client.post(f"{EVALUATORS}/dry-run", json={"id": evaluator_id}).json()

    async with Endpoint(answering()) as endpoint:
        evaluator_id = await with_server(tmp_path, made)
        assert (tmp_path / "secret.key").stat().st_mode & 0o777 == 0o600
        assert (await with_server(tmp_path, tried))["ok"]
        assert endpoint.requests[-1].headers["authorization"] == "Bearer bearer-secret"
        (tmp_path / "secret.key").unlink()
        assert "ASSAY_SECRET_KEY" in (await with_server(tmp_path, tried))["error"]
        assert len(endpoint.requests) == 1

"""Who may do what: every route against every role."""

from typing import Any

import pytest

from support.api import EVALUATORS, Api, client, key

OPEN = {("get", "/healthz"), ("get", "/readyz"), ("get", "/metrics")}
SENDING = {("post", "/v1/traces"), ("post", "/api/v1/otel/v1/traces"), ("post", "/api/v1/traces")}
HIDDEN = {("get", "/api/v1/agent-monitoring/custom-evaluators"), ("post", "/api/v1/agent-monitoring/custom-evaluators")}


def routes(api: Api) -> set[tuple[str, str]]:
    paths: dict[str, dict[str, Any]] = api.app.openapi()["paths"]
    return {(method, path) for path, methods in paths.items() for method in methods} | HIDDEN


async def statuses(api: Api, key_text: str | None) -> dict[tuple[str, str], int]:
    # A stream would last.
    api.app.state.streams.end()
    async with client(api.app, key_text) as http:
        return {
            (method, path): (await http.request(method, path.replace("{id}", "none"))).status_code
            for method, path in sorted(routes(api))
        }


async def test_without_a_key_only_health_and_figures_are_open(api: Api) -> None:
    found = await statuses(api, None)
    assert {route for route, status in found.items() if status != 401} == OPEN


async def test_an_ingest_key_can_only_send_traces(api: Api) -> None:
    found = await statuses(api, key("ingest"))
    assert {route for route, status in found.items() if status != 403} == OPEN | SENDING


@pytest.mark.parametrize("role", ["member", "admin"])
async def test_members_and_admins_may_use_every_route(api: Api, role: Any) -> None:
    found = await statuses(api, key(role))
    assert {route for route, status in found.items() if status in (401, 403)} == set()


async def test_a_key_may_come_as_a_bearer_token(api: Api) -> None:
    async with client(api.app, None) as http:
        for authorization, status in (
            (f"Bearer {key('member')}", 200),
            (f"bearer  {key('member')}", 200),
            ("Bearer", 401),
            ("Bearer nobody's", 401),
            (f"Basic {key('member')}", 401),
        ):
            answer = await http.get("/api/v1/agents", headers={"authorization": authorization})
            assert answer.status_code == status, authorization


async def test_an_unknown_key_is_told_how_to_get_one_and_not_repeated(api: Api) -> None:
    async with client(api.app, "assay_stolen-secret") as http:
        answer = await http.get("/api/v1/agents")
    assert (answer.status_code, answer.json()["code"]) == (401, "not-authenticated")
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert "stolen" not in answer.text


async def test_the_key_is_asked_for_before_the_body_is_looked_at(api: Api) -> None:
    async with client(api.app, key("ingest")) as http:
        answer = await http.post(EVALUATORS, content="{not json", headers={"content-type": "application/json"})
    assert answer.status_code == 403


async def test_projects_see_nothing_of_each_other(api: Api) -> None:
    evaluator = await api.create()
    trace_id = await api.send("0.1")
    await api.settled()
    (signal,) = (await api.call("GET", "/api/v1/signals"))["signals"]
    async with client(api.app, key("admin", "other")) as http:
        for path, name in (
            (EVALUATORS, "evaluators"),
            ("/api/v1/traces", "traces"),
            ("/api/v1/signals", "signals"),
            ("/api/v1/agents", "agents"),
        ):
            assert (await http.get(path)).json()[name] == []
        for method, path in (
            ("GET", f"{EVALUATORS}/{evaluator['id']}"),
            ("PUT", f"{EVALUATORS}/{evaluator['id']}"),
            ("DELETE", f"{EVALUATORS}/{evaluator['id']}"),
            ("GET", f"{EVALUATORS}/{evaluator['id']}/events"),
            ("GET", f"{EVALUATORS}/{evaluator['id']}/revisions"),
            ("GET", f"/api/v1/traces/{trace_id}"),
            ("GET", f"/api/v1/signals/{signal['id']}"),
            ("PATCH", f"/api/v1/signals/{signal['id']}"),
        ):
            body = {"status": "archived"} if "signals" in path else {}
            answer = await http.request(method, path, json=body if method in ("PUT", "PATCH") else None)
            assert answer.status_code == 404, (method, path)
        answer = await http.post(f"{EVALUATORS}/dry-run", json={"id": evaluator["id"]})
        assert answer.status_code == 404

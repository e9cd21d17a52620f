"""What all answers share: problem details, request ids, health, and documentation without a third party."""

import re

import pytest

from support.api import EVALUATORS, Api, client

REQUIRED = {"type", "title", "status", "detail", "code", "requestId"}


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "not-found"),
        ("PUT", "/healthz", 405, "method-not-allowed"),
        ("GET", f"{EVALUATORS}/none", 404, "not-found"),
        ("POST", EVALUATORS, 400, "invalid-input"),
        ("GET", "/api/v1/signals?limit=0", 400, "invalid-input"),
    ],
)
async def test_every_error_is_a_problem_document(api: Api, method: str, path: str, status: int, code: str) -> None:
    answer = await api.http.request(method, path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert set(problem) >= REQUIRED
    assert (problem["status"], problem["code"], problem["type"]) == (status, code, f"urn:assay:problem:{code}")
    assert problem["requestId"] == answer.headers["x-request-id"]


async def test_several_mistakes_are_told_at_once(api: Api) -> None:
    body = {"name": "x", "sampleRate": 2, "severity": "urgent", "enabled": 1}
    problem = await api.call("POST", EVALUATORS, 400, json=body)
    assert {error["field"] for error in problem["errors"]} == {"sampleRate", "severity", "enabled"}


@pytest.mark.parametrize(
    "body",
    ["{not json", "[]", "", "null", "7", '"text"', '{"a": 1e9999999', pytest.param("[" * 5000, id="deep"), "\xff"],
)
async def test_bodies_that_are_no_json_object_are_400(api: Api, body: str) -> None:
    for headers in ({"content-type": "application/json"}, {}):
        problem = await api.call("POST", EVALUATORS, 400, content=body.encode("latin-1"), headers=headers)
        assert problem["code"] == "invalid-input"


async def test_another_content_type_is_told_which_to_send(api: Api) -> None:
    headers = {"content-type": "application/x-www-form-urlencoded"}
    problem = await api.call("POST", EVALUATORS, 415, content='{"name": "x"}', headers=headers)
    assert problem["code"] == "unsupported-media-type"
    assert "application/json" in problem["detail"]


async def test_a_request_id_is_kept_where_it_is_fit_for_a_log(api: Api) -> None:
    for given, kept in (("job-7.a_b", True), ("two words", False), ("x" * 65, False), ("{evil}", False)):
        answer = await api.http.get("/healthz", headers={"x-request-id": given})
        assert (answer.headers["x-request-id"] == given) is kept
        assert re.fullmatch(r"[\w.:-]{1,64}", answer.headers["x-request-id"])


async def test_the_access_log_has_neither_query_nor_key(api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    async with client(api.app, "assay_secret-key") as http:
        await http.get("/api/v1/signals?cursor=secret-cursor%0Aforged")
    logged = capsys.readouterr().out
    assert "/api/v1/signals" in logged
    assert "401" in logged
    assert "secret" not in logged


async def test_health_and_figures(api: Api) -> None:
    assert (await api.http.get("/healthz")).json() == {"status": "ok"}
    assert (await api.http.get("/readyz")).json() == {"status": "ok"}
    await api.create()
    await api.send("0.1")
    await api.settled()
    text = (await api.http.get("/metrics")).text
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert lines["assay_queue_depth"] == "0.0"
    assert lines['assay_checks_recorded_total{status="scored"}'] == "1.0"
    assert lines["assay_signals_raised_total"] == "1.0"


async def test_a_server_that_cannot_work_says_why_it_is_not_ready(api: Api) -> None:
    async def unready() -> str:
        return "The sandbox does not answer."

    object.__setattr__(api.app.state.services, "unready", unready)
    answer = await api.http.get("/readyz")
    assert answer.status_code == 503
    assert "sandbox" in answer.json()["detail"]


async def test_the_documentation_comes_from_here_alone(api: Api) -> None:
    async with client(api.app, None) as http:
        page = await http.get("/docs")
        assert page.status_code == 200
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "//" not in page.text.replace("<!doctype", "")
        for asset in re.findall(r'(?:src|href)="([^":]+)"', page.text):
            answer = await http.get(f"/{asset}")
            assert answer.status_code == 200
            assert answer.headers["content-type"].startswith(("text/javascript", "text/css"))
        document = (await http.get("/openapi.json")).json()
    assert f"{EVALUATORS}/{{id}}/events" in document["paths"]
    assert "HTTPValidationError" not in str(document)


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        (EVALUATORS, r'{"name": "\ud800", "url": "https://a.example"}', 400),
        (EVALUATORS, r'{"name": "x", "url": "https://a.example/\ud800"}', 400),
        (EVALUATORS, r'{"name": "x", "url": "https://a.example", "\ud800": 1}', 400),
        (EVALUATORS, r'{"name": "x", "kind": "code", "language": "python", "script": "\ud800"}', 400),
        (f"{EVALUATORS}/dry-run", r'{"kind": "code", "language": "python", "script": "\ud800"}', 400),
        (f"{EVALUATORS}/dry-run", r'{"url": "https://a.example", "sample": {"input": {"\ud800": "\udfff"}}}', 200),
    ],
)
async def test_half_a_surrogate_pair_is_never_a_failure_of_ours(api: Api, path: str, body: str, status: int) -> None:
    headers = {"content-type": "application/json"}
    await api.call("POST", path, status, content=body, headers=headers)


async def test_what_an_evaluator_makes_of_text_is_shown_mended(api: Api) -> None:
    script = 'def handler(*_):\n    print("\\ud800")\n    return {"score": 1, "name": "a\\udfff"}\n'
    body = {"kind": "code", "language": "python", "script": script}
    answer = await api.call("POST", f"{EVALUATORS}/dry-run", json=body)
    assert (answer["check"]["name"], answer["check"]["logs"]) == (
        "a\N{REPLACEMENT CHARACTER}",
        "\N{REPLACEMENT CHARACTER}\n",
    )

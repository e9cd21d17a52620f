"""Evaluators over HTTP: what can be saved, what changes, and what makes a revision."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from assay.api.services import Services
from assay.domain.outcome import Limits
from assay.testing import a_revision
from support.api import EVALUATORS, SCRIPT, Api, key, running_api
from support.records import add_evaluators, an_evaluator

HOOK = {"kind": "external", "language": None, "script": None, "url": "https://a.example"}
PREFIXES = (EVALUATORS, "/api/v1/custom-evaluators", "/api/v1/agent-monitoring/custom-evaluators")


async def test_an_evaluator_lives_from_post_to_delete_on_either_database(database_url: str) -> None:
    async with running_api(database_url) as api:
        made = await api.create(name="n", alertBelow=0.25, sampleRate=0.25)
        path = f"{EVALUATORS}/{made['id']}"
        assert made["interface"] == "handler"
        assert made["id"] == made["_id"]
        changed = await api.call("PUT", path, json={"enabled": False})
        assert changed == {**made, "enabled": False, "updatedAt": changed["updatedAt"]}
        assert (await api.call("GET", EVALUATORS))["evaluators"] == [changed]
        await api.call("DELETE", path, 204)
        for method in ("GET", "PUT", "PATCH", "DELETE"):
            problem = await api.call(method, path, 404, **({"json": {}} if method in ("PUT", "PATCH") else {}))
            assert problem["code"] == "not-found"
        for under in ("events", "revisions"):
            await api.call("GET", f"{path}/{under}", 404)
        await api.call("GET", f"{EVALUATORS}/%00", 404)


@pytest.mark.parametrize("prefix", PREFIXES)
async def test_evaluators_are_found_under_each_prefix(api: Api, prefix: str) -> None:
    made = await api.create()
    assert await api.call("GET", f"{prefix}/{made['id']}") == made
    answer = await api.http.post(prefix, json={"name": "x", "url": "https://example.org/check"})
    assert answer.headers["location"] == f"{prefix}/{answer.json()['id']}"


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"wallSeconds": 1, "cpuSeconds": 0.5, "memoryMb": 128},
        {"kind": "external", "language": None, "script": None, "url": "https://example.org/hook?token=secret"},
    ],
)
async def test_what_get_returns_put_accepts_and_changes_nothing(api: Api, fields: dict[str, Any]) -> None:
    made = await api.create(**fields)
    path = f"{EVALUATORS}/{made['id']}"
    again = await api.call("PUT", path, json=await api.call("GET", path))
    assert again == {**made, "updatedAt": again["updatedAt"]}
    async with api.store.snapshot() as snapshot:
        stored = await snapshot.evaluator("default", made["id"])
    assert stored is not None
    assert stored.revision.url == fields.get("url")


async def test_the_query_of_a_url_is_masked_wherever_it_is_shown(api: Api) -> None:
    made = await api.create(kind="external", language=None, script=None, url="https://example.org/hook?token=secret")
    path = f"{EVALUATORS}/{made['id']}"
    assert made["url"] == "https://example.org/hook?…"
    for answer in (await api.http.get(path), await api.http.get(EVALUATORS), await api.http.get(f"{path}/revisions")):
        assert "secret" not in answer.text


@pytest.mark.parametrize(
    ("change", "makes_one"),
    [
        ({"script": SCRIPT + "\n"}, True),
        ({"alertBelow": 0.7}, True),
        ({"threshold": 0}, True),
        ({"wallSeconds": 2.5}, True),
        ({"cpuSeconds": 0.1, "memoryMb": 64}, True),
        ({"interface": "handler"}, False),
        ({"interface": "handler", "script": SCRIPT + "\n"}, True),
        ({"script": SCRIPT}, False),
        ({"alertBelow": 0.5}, False),
        ({"name": "another"}, False),
        ({"sampleRate": 0}, False),
        ({"enabled": False, "severity": "critical"}, False),
    ],
)
async def test_only_a_change_of_content_makes_a_revision(api: Api, change: dict[str, Any], makes_one: bool) -> None:
    made = await api.create()
    changed = await api.call("PATCH", f"{EVALUATORS}/{made['id']}", json=change)
    assert changed["revision"] == (2 if makes_one else 1)
    assert {name: changed[name] for name in change} == change
    revisions = (await api.call("GET", f"{EVALUATORS}/{made['id']}/revisions"))["revisions"]
    assert [revision["revision"] for revision in revisions] == ([2, 1] if makes_one else [1])
    assert revisions[-1]["script"] == SCRIPT


async def test_a_change_of_url_or_of_what_raises_makes_a_revision(api: Api) -> None:
    made = await api.create(kind="external", language=None, script=None, url="https://example.org/a?token=1")
    path = f"{EVALUATORS}/{made['id']}"
    assert (await api.call("PUT", path, json={"url": "https://example.org/a?token=2"}))["revision"] == 2
    inverted = await api.call("PUT", path, json={"invertMatch": True})
    assert (inverted["revision"], inverted["raiseWhen"]) == (3, False)


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"alertBelow": 0.2, "threshold": 0.2}, 201),
        ({"alertBelow": 0.2, "threshold": 0.3}, 400),
        ({"alertBelow": 0.5, "threshold": 0.6}, 400),
        ({**HOOK, "raiseWhen": False, "invertMatch": True}, 201),
        ({**HOOK, "raiseWhen": False, "invertMatch": False}, 400),
        ({**HOOK, "raiseWhen": True, "invertMatch": True}, 400),
        ({**HOOK, "invertMatch": True}, 201),
    ],
)
async def test_synonyms_may_agree_and_not_contradict(api: Api, fields: dict[str, Any], status: int) -> None:
    body = {"name": "x", "kind": "code", "language": "python", "script": SCRIPT, **fields}
    await api.call("POST", EVALUATORS, status, json=body)


async def test_a_budget_given_up_is_the_operators_ceiling_again(api: Api) -> None:
    made = await api.create(wallSeconds=2, memoryMb=64)
    path = f"{EVALUATORS}/{made['id']}"
    assert (made["wallSeconds"], made["memoryMb"], made.get("cpuSeconds")) == (2, 64, None)
    freed = await api.call("PATCH", path, json={"wallSeconds": None})
    assert (freed["revision"], freed.get("wallSeconds"), freed["memoryMb"]) == (2, None, 64)
    newest, _ = (await api.call("GET", f"{path}/revisions"))["revisions"]
    assert (newest.get("wallSeconds"), newest["memoryMb"]) == (None, 64)
    hook = await api.call("POST", EVALUATORS, 201, json={**EXTERNAL, "wallSeconds": None})
    assert "wallSeconds" not in hook


async def test_what_get_returns_put_accepts_though_the_ceiling_was_lowered(api: Api) -> None:
    made = await api.create(wallSeconds=2, memoryMb=128)
    path = f"{EVALUATORS}/{made['id']}"
    services: Services = api.app.state.services
    api.app.state.services = replace(services, limits=Limits(wall_s=1, memory_bytes=64 * 1024 * 1024))
    again = await api.call("PUT", path, json=await api.call("GET", path))
    assert (again["revision"], again["wallSeconds"], again["memoryMb"]) == (1, 2, 128)
    problem = await api.call("PUT", path, 400, json={"wallSeconds": 1.5})
    assert (problem["field"], "0.1 to 1 s" in problem["detail"]) == ("wallSeconds", True)


async def test_changing_one_synonym_of_what_get_returned_is_enough(api: Api) -> None:
    made = await api.create(alertBelow=0.3)
    changed = await api.call("PUT", f"{EVALUATORS}/{made['id']}", json={**made, "alertBelow": 0.8})
    assert (changed["alertBelow"], changed["threshold"]) == (0.8, 0.8)


CODE = {"name": "x", "kind": "code", "language": "python", "script": SCRIPT}
EXTERNAL = {"name": "x", "url": "https://example.org/check"}
REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({**CODE, "colour": 1}, "colour", "allowed are"),
    ({**CODE, "name": ""}, "name", "1 character"),
    ({"kind": "code", "language": "python", "script": SCRIPT}, "name", "required"),
    ({**CODE, "severity": "urgent"}, "severity", "'critical'"),
    ({**CODE, "enabled": "yes"}, "enabled", "boolean"),
    ({**CODE, "sampleRate": 1.01}, "sampleRate", "0 and 1"),
    ({**CODE, "sampleRate": True}, "sampleRate", "0 and 1"),
    ({**CODE, "alertBelow": -0.1}, "alertBelow", "0 and 1"),
    ({**CODE, "agentIds": ["agt_none"]}, "agentIds", "agt_none"),
    ({**CODE, "agentIds": "agt_none"}, "agentIds", "list"),
    ({**CODE, "scopeMode": "selected"}, "agentIds", "nothing would ever be checked"),
    ({**CODE, "interface": "main"}, "interface", "'evaluate-float'"),
    ({**CODE, "interface": "evaluate"}, "script", "handler"),
    ({**CODE, "script": ""}, "script", "evaluate or handler"),
    ({**CODE, "script": "x = 1"}, "script", "neither"),
    ({**CODE, "wallSeconds": 8.1}, "wallSeconds", "is 8.1; allowed are 0.1 to 8 s"),
    ({**CODE, "wallSeconds": 0}, "wallSeconds", "is 0.0; allowed are 0.1 to 8 s"),
    ({**CODE, "wallSeconds": True}, "wallSeconds", "valid number"),
    ({**CODE, "cpuSeconds": -1}, "cpuSeconds", "0.1 to 8 s"),
    ({**CODE, "cpuSeconds": 10**400}, "cpuSeconds", "number"),
    ({**CODE, "memoryMb": 257}, "memoryMb", "is 257; allowed are 64 to 256 MiB"),
    ({**CODE, "memoryMb": 63}, "memoryMb", "64 to 256 MiB"),
    ({**CODE, "memoryMb": 10**400}, "memoryMb", "64 to 256 MiB"),
    ({**CODE, "memoryMb": 64.5}, "memoryMb", "integer"),
    ({**CODE, "url": "https://example.org"}, "url", "external"),
    ({**EXTERNAL, "script": SCRIPT}, "script", "code"),
    ({**EXTERNAL, "wallSeconds": 2}, "wallSeconds", "code"),
    ({**EXTERNAL, "memoryMb": 64}, "memoryMb", "code"),
    ({"name": "x"}, "url", "url"),
    ({**EXTERNAL, "url": "ftp://example.org"}, "url", "http and https"),
    ({**EXTERNAL, "url": "example.org/check"}, "url", "http and https"),
    ({**EXTERNAL, "url": "https://"}, "url", "host"),
    ({**EXTERNAL, "url": "https://example.org:99999"}, "url", "ort"),
    ({**EXTERNAL, "url": "https://user:word@example.org"}, "url", "credentials"),
    ({**EXTERNAL, "url": "https://exa mple.org"}, "url", "spaces"),
    ({**EXTERNAL, "name": "a\0b"}, "name", "U+0000"),
]


@pytest.mark.parametrize(("body", "field", "mentions"), REFUSED)
async def test_what_makes_no_sense_is_refused_with_the_field_and_what_is_allowed(
    api: Api, body: dict[str, Any], field: str, mentions: str
) -> None:
    problem = await api.call("POST", EVALUATORS, 400, json=body)
    assert (problem["code"], problem["field"]) == ("invalid-input", field)
    assert mentions in problem["detail"]
    assert (await api.call("GET", EVALUATORS))["evaluators"] == []


async def test_a_syntax_error_names_its_line(api: Api) -> None:
    problem = await api.call("POST", EVALUATORS, 400, json={**CODE, "script": "def handler(:\n    pass\n"})
    assert (problem["field"], problem["line"]) == ("script", 1)
    made = await api.create()
    problem = await api.call(
        "PUT", f"{EVALUATORS}/{made['id']}", 400, json={"script": "async def handler():\n    return )\n"}
    )
    assert problem["line"] == 2


@pytest.mark.parametrize("path", [EVALUATORS, f"{EVALUATORS}/dry-run"])
async def test_code_that_cannot_run_here_is_refused_with_the_runner_and_what_it_runs(api: Api, path: str) -> None:
    body = {**CODE, "language": "typescript", "script": "export async function handler() { return 1 }"}
    problem = await api.call("POST", path, 400, json=body)
    assert problem["field"] == "language"
    assert problem["detail"] == "This server cannot run typescript: its code runner, in-process, runs python."


async def test_checks_of_code_from_the_time_of_another_runner_are_errored_and_say_so(api: Api) -> None:
    revision = a_revision("function evaluate() { return 1 }", language="javascript", evaluator_id="evl_old")
    await add_evaluators(api.store, an_evaluator("evl_old", revision=revision))
    trace_id = await api.send("1")
    await api.settled()
    [event] = (await api.call("GET", f"{EVALUATORS}/evl_old/events"))["events"]
    assert (event["traceId"], event["status"], event["runner"]) == (trace_id, "errored", "none")
    assert event["error"]["kind"] == "language-not-run"
    assert "cannot run javascript: its code runner, in-process, runs python" in event["error"]["message"]
    assert (await api.call("GET", "/api/v1/signals"))["signals"] == []
    path = f"{EVALUATORS}/evl_old"
    assert (await api.call("PATCH", path, json={"enabled": False}))["enabled"] is False
    problem = await api.call("PATCH", path, 400, json={"script": "const evaluate = () => 1"})
    assert problem["field"] == "language"


FOUR = "def evaluate(app_params, inputs, output, correct_answer):\n    return output == correct_answer\n"
THREE = "def evaluate(inputs, outputs, trace):\n    return 1.0\n"


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.parametrize("change", [{"interface": "evaluate"}, {"interface": "evaluate", "script": THREE}])
async def test_the_interface_of_an_evaluator_is_kept_and_duplicate_is_named(
    api: Api, method: str, change: dict[str, Any]
) -> None:
    made = await api.create(interface="evaluate-float", script=THREE)
    path = f"{EVALUATORS}/{made['id']}"
    problem = await api.call(method, path, 400, json=change)
    assert problem["field"] == "interface"
    assert "is evaluate-float" in problem["detail"]
    assert "found evaluate." in problem["detail"]
    assert "/duplicate" in problem["detail"]
    tried = await api.call("POST", f"{EVALUATORS}/dry-run", 400, json={**change, "id": made["id"]})
    assert tried["field"] == "interface"
    for same in ({"interface": "evaluate-float"}, {"interface": None}):
        assert (await api.call(method, path, json=same))["interface"] == "evaluate-float"
    assert await api.call("GET", path) == {**made, "updatedAt": (await api.call("GET", path))["updatedAt"]}


@pytest.mark.parametrize(
    ("interface", "script", "changed", "mentions"),
    [
        ("evaluate", THREE, FOUR, "evaluate needs 4 arguments, but the interface evaluate gives it 3"),
        ("evaluate-float", THREE, SCRIPT, "calls evaluate, which the source does not define"),
        ("evaluate-app-params", FOUR, THREE, "evaluate takes 3 arguments, but the interface evaluate-app-params"),
        ("handler", SCRIPT, THREE, "calls handler, which the source does not define"),
    ],
)
async def test_code_that_no_longer_fits_its_interface_is_refused_and_never_read_as_another(
    api: Api, interface: str, script: str, changed: str, mentions: str
) -> None:
    made = await api.create(interface=interface, script=script)
    problem = await api.call("PATCH", f"{EVALUATORS}/{made['id']}", 400, json={"script": changed})
    assert problem["field"] == "script"
    assert mentions in problem["detail"]


async def test_a_change_of_code_keeps_the_stored_interface(api: Api) -> None:
    made = await api.create(interface="evaluate-float", script=THREE)
    changed = await api.call("PATCH", f"{EVALUATORS}/{made['id']}", json={"script": THREE + "\n"})
    assert (changed["revision"], changed["interface"]) == (2, "evaluate-float")


@pytest.mark.parametrize("prefix", PREFIXES)
async def test_a_legacy_evaluator_is_copied_to_a_new_one_with_another_interface_in_one_call(
    api: Api, prefix: str
) -> None:
    await api.send("1")
    (agent,) = (await api.call("GET", "/api/v1/agents"))["agents"]
    settings = {"alertBelow": 0.25, "severity": "high", "sampleRate": 0.75, "correctAnswerKey": "gold"}
    made = await api.create(interface="evaluate-float", script=THREE, agentIds=[agent["id"]], name="old", **settings)
    await api.call("PATCH", f"{EVALUATORS}/{made['id']}", json={"alertBelow": 0.5})
    await api.call("PATCH", f"{EVALUATORS}/{made['id']}", json={"alertBelow": 0.25})
    answer = await api.http.post(f"{prefix}/{made['id']}/duplicate", json={"interface": "evaluate", "name": "new"})
    assert answer.status_code == 201, answer.text
    copy = answer.json()
    assert answer.headers["location"] == f"{prefix}/{copy['id']}"
    own = ("id", "_id", "revisionId", "createdAt", "updatedAt")
    assert all(copy[name] != made[name] for name in own)
    changed = {"name": "new", "interface": "evaluate", "enabled": False, "revision": 1}
    assert copy == {**made, **{name: copy[name] for name in own}, **changed}
    assert await api.call("GET", f"{prefix}/{copy['id']}") == copy
    revisions = (await api.call("GET", f"{prefix}/{copy['id']}/revisions"))["revisions"]
    assert [(revision["revision"], revision["name"]) for revision in revisions] == [(1, "new")]
    assert (await api.call("GET", f"{prefix}/{made['id']}"))["interface"] == "evaluate-float"


async def test_a_copy_without_wishes_is_the_same_but_for_its_name_and_disabled(api: Api) -> None:
    made = await api.create(name="n" * 200)
    wishes: list[dict[str, Any]] = [{}, {"json": {}}, {"json": {"name": None, "interface": None}}]
    for options in wishes:
        copy = await api.call("POST", f"{EVALUATORS}/{made['id']}/duplicate", 201, **options)
        assert copy["name"] == f"{'n' * 193} (copy)"
        assert (copy["interface"], copy["script"], copy["enabled"]) == ("handler", SCRIPT, False)
    hook = await api.create(**HOOK, invertMatch=True)
    copy = await api.call("POST", f"{EVALUATORS}/{hook['id']}/duplicate", 201)
    assert (copy["url"], copy["raiseWhen"], copy["name"]) == (hook["url"], False, "check (copy)")


@pytest.mark.parametrize(
    ("fields", "asked", "field", "mentions"),
    [
        ({"script": FOUR}, {"interface": "evaluate"}, "script", "evaluate needs 4 arguments"),
        ({"script": THREE}, {"interface": "evaluate-app-params"}, "script", "takes 3 arguments"),
        ({"script": THREE}, {"interface": "handler"}, "script", "calls handler"),
        ({"script": THREE}, {"interface": "main"}, "interface", "'evaluate-float'"),
        ({"script": THREE}, {"script": SCRIPT}, "script", "allowed are name, interface"),
        ({"script": THREE}, {"name": ""}, "name", "1 character"),
        (HOOK, {"interface": "evaluate"}, "interface", "kind external"),
    ],
)
async def test_a_copy_that_makes_no_sense_is_refused_and_not_made(
    api: Api, fields: dict[str, Any], asked: dict[str, Any], field: str, mentions: str
) -> None:
    made = await api.create(**fields)
    problem = await api.call("POST", f"{EVALUATORS}/{made['id']}/duplicate", 400, json=asked)
    assert problem["field"] == field
    assert mentions in problem["detail"]
    assert [found["id"] for found in (await api.call("GET", EVALUATORS))["evaluators"]] == [made["id"]]


async def test_only_an_evaluator_of_the_own_project_can_be_copied_and_never_with_an_ingest_key(api: Api) -> None:
    made = await api.create()
    path = f"{EVALUATORS}/{made['id']}/duplicate"
    await api.call("POST", f"{EVALUATORS}/evl_none/duplicate", 404)
    await api.call("POST", path, 404, headers={"x-api-key": key("admin", "other")})
    await api.call("POST", path, 403, headers={"x-api-key": key("ingest")})


@pytest.mark.parametrize(("interface", "script"), [("evaluate-float", THREE), ("evaluate-app-params", FOUR)])
async def test_an_older_interface_can_be_named_when_an_evaluator_is_brought_along(
    api: Api, interface: str, script: str
) -> None:
    assert (await api.create(interface=interface, script=script))["interface"] == interface


async def test_the_kind_of_an_evaluator_cannot_change(api: Api) -> None:
    made = await api.create()
    problem = await api.call("PUT", f"{EVALUATORS}/{made['id']}", 400, json={"kind": "external"})
    assert problem["field"] == "kind"


async def test_known_agents_can_be_selected(api: Api) -> None:
    await api.send("1")
    (agent,) = (await api.call("GET", "/api/v1/agents"))["agents"]
    made = await api.create(agentIds=[agent["id"], agent["id"]])
    assert (made["scopeMode"], made["agentIds"]) == ("selected", [agent["id"]])


async def test_changes_at_the_same_time_are_all_kept(api: Api) -> None:
    made = await api.create()
    path = f"{EVALUATORS}/{made['id']}"
    changes: list[dict[str, Any]] = [{"name": "new"}, {"severity": "high"}, {"sampleRate": 0.5}]
    answers = await asyncio.gather(*(api.http.patch(path, json=change) for change in changes))
    kept = await api.call("GET", path)
    for change, answer in zip(changes, answers, strict=True):
        if answer.status_code == 200:
            assert {name: kept[name] for name in change} == change
        else:
            assert answer.json()["code"] == "conflict"

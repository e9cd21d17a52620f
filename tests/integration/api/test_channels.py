import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from standardwebhooks import Webhook

from support.api import Api, client, key
from support.endpoint import Endpoint, Request, answering, in_turn, silent

CHANNELS = "/api/v1/channels"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
SLACK = "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#calls"
HOURS = {"timeZone": "Europe/Berlin", "from": "22:00", "to": "07:30", "passSeverities": ["critical"]}


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    async with Endpoint(answering()) as running:
        yield running


def to(endpoint: Endpoint) -> str:
    return f"webhook:http://127.0.0.1:{endpoint.port}/t0ken?key=s3cret"


async def create(api: Api, url: str, **fields: Any) -> dict[str, Any]:
    return await api.call("POST", CHANNELS, 201, json={"name": "on call", "url": url, **fields})


async def refused(api: Api, status: int = 400, **fields: Any) -> dict[str, Any]:
    body = {"name": "on call", "url": "webhook:https://example.com/t0ken", **fields}
    return await api.call("POST", CHANNELS, status, json=body)


async def test_a_channel_is_made_listed_read_and_deleted(api: Api) -> None:
    made = await create(api, "webhook:https://example.com/t0ken", quietHours=HOURS, digestSeconds=300)
    assert made.pop("secret").startswith("whsec_")
    assert (made["kind"], made["url"]) == ("webhook", "webhook:https://example.com/…")
    assert (made["quietHours"], made["digestSeconds"]) == (HOURS, 300)
    assert made["status"] == {"state": "ok", "since": None, "lastError": None}
    assert await api.call("GET", CHANNELS) == {"channels": [made]}
    assert await api.call("GET", f"{CHANNELS}/{made['id']}") == made
    await api.call("DELETE", f"{CHANNELS}/{made['id']}", 204)
    assert await api.call("GET", CHANNELS) == {"channels": []}
    await api.call("GET", f"{CHANNELS}/{made['id']}", 404)
    await api.call("DELETE", f"{CHANNELS}/{made['id']}", 404)


async def test_a_channel_of_apprise_shows_its_scheme_and_has_no_secret(api: Api) -> None:
    made = await create(api, SLACK)
    assert (made["kind"], made["url"], made["secret"]) == ("apprise", "slack://…", None)


async def test_what_get_answers_can_be_sent_back_and_changes_nothing(api: Api, endpoint: Endpoint) -> None:
    made = await create(api, to(endpoint), quietHours=HOURS)
    answered = await api.call("GET", f"{CHANNELS}/{made['id']}")
    sent_back = await api.call("PUT", f"{CHANNELS}/{made['id']}", json=answered)
    assert {**sent_back, "updatedAt": ""} == {**answered, "updatedAt": ""}
    assert (await api.call("POST", f"{CHANNELS}/{made['id']}/test"))["ok"]
    assert "POST /t0ken?key=s3cret" in endpoint.requests[0].line
    Webhook(made["secret"]).verify(endpoint.requests[0].body, endpoint.requests[0].headers)


async def test_changes_are_laid_over_what_is_stored(api: Api, endpoint: Endpoint) -> None:
    made = await create(api, "webhook:https://example.com/", quietHours=HOURS)
    path = f"{CHANNELS}/{made['id']}"
    changed = await api.call("PATCH", path, json={"minSeverity": "high", "quietHours": None, "name": "nights"})
    assert (changed["minSeverity"], changed["quietHours"], changed["name"]) == ("high", None, "nights")
    changed = await api.call("PATCH", path, json={"url": to(endpoint), "secret": SECRET})
    assert changed["url"] == f"webhook:http://127.0.0.1:{endpoint.port}/…"
    assert "secret" not in changed
    await api.call("POST", f"{path}/test")
    Webhook(SECRET).verify(endpoint.requests[0].body, endpoint.requests[0].headers)


async def test_a_channel_may_be_for_some_evaluators(api: Api) -> None:
    evaluator = await api.create()
    made = await create(api, SLACK, evaluatorIds=[evaluator["id"]])
    assert (made["scopeMode"], made["evaluatorIds"]) == ("selected", [evaluator["id"]])
    await api.call("DELETE", f"/agent-monitoring/custom-evaluators/{evaluator['id']}", 204)
    await api.call("PATCH", f"{CHANNELS}/{made['id']}", json={"name": "still"})
    assert (await refused(api, evaluatorIds=["evl_none"]))["field"] == "evaluatorIds"
    assert (await refused(api, scopeMode="selected"))["field"] == "evaluatorIds"


@pytest.mark.parametrize(
    ("fields", "field", "said"),
    [
        ({"url": "webhook:ftp://example.com/"}, "url", "http or https"),
        ({"url": "nosuch://example.com/"}, "url", "not one of apprise's"),
        ({"url": "syslog://"}, "url", "own machine"),
        ({"url": ""}, "url", "1 to 2048"),
        ({"url": "webhook:https://example.com/" + "t0ken" * 1000}, "url", "1 to 2048 characters; found"),
        ({"secret": "short"}, "secret", "whsec_"),
        ({"secret": "whsec_" + "t0ken" * 1000}, "secret", "1 to 2048"),
        ({"url": SLACK, "secret": SECRET}, "secret", "Only webhook"),
        ({"minSeverity": "severe"}, "minSeverity", "'low', 'medium', 'high' or 'critical'"),
        ({"digestSeconds": -1}, "digestSeconds", "greater than or equal to 0"),
        ({"digestSeconds": 100_000}, "digestSeconds", "less than or equal to 86400"),
        ({"quietHours": {**HOURS, "timeZone": "Mars/Base"}}, "quietHours.timeZone", "'Mars/Base'"),
        ({"quietHours": {**HOURS, "timeZone": "/etc/passwd"}}, "quietHours.timeZone", "time zone"),
        ({"quietHours": {**HOURS, "from": "25:00"}}, "quietHours.from", "'25:00'"),
        ({"quietHours": {**HOURS, "to": "7:30"}}, "quietHours.to", "07:30"),
        ({"quietHours": {**HOURS, "to": "22:00"}}, "quietHours", "must differ"),
        ({"quietHours": {**HOURS, "days": []}}, "quietHours.days", "unknown field"),
        ({"nmae": "x"}, "nmae", "unknown field"),
        ({"name": ""}, "name", "at least 1"),
    ],
)
async def test_bad_input_is_refused_by_field_without_repeating_secrets(
    api: Api, fields: dict[str, Any], field: str, said: str
) -> None:
    problem = await refused(api, **fields)
    assert problem["field"] == field
    assert said in problem["detail"]
    assert "t0ken" not in str(problem)


async def test_the_kind_of_a_channel_cannot_change(api: Api) -> None:
    made = await create(api, SLACK)
    problem = await api.call("PATCH", f"{CHANNELS}/{made['id']}", 400, json={"url": "webhook:https://example.com/"})
    assert problem["field"] == "url"


async def test_a_project_has_fifty_channels_at_most(api: Api) -> None:
    for _ in range(50):
        await create(api, "webhook:https://example.com/")
    assert "50 channels" in (await refused(api))["detail"]


async def test_a_test_tells_what_came_of_it_and_marks_the_channel(api: Api) -> None:
    async with Endpoint(in_turn(answering(status=503), answering())) as endpoint:
        made = await create(api, to(endpoint))
        path = f"{CHANNELS}/{made['id']}"
        failed = await api.call("POST", f"{path}/test")
        assert (failed["ok"], "answered 503" in failed["error"]) == (False, True)
        status = (await api.call("GET", path))["status"]
        assert (status["state"], status["lastError"]) == ("failing", failed["error"])
        told = await api.call("POST", f"{path}/test")
        assert (told["ok"], told["error"]) == (True, None)
        assert (await api.call("GET", path))["status"]["state"] == "ok"
        log = await api.call("GET", f"{path}/deliveries")
    assert [(line["outcome"], line["test"]) for line in log["deliveries"]] == [("told", True), ("failed", True)]
    assert [line["notificationId"] for line in log["deliveries"]] == [told["notificationId"], failed["notificationId"]]
    assert endpoint.requests[1].json["type"] == "signals.test"


async def test_a_signal_is_told_and_the_log_says_so(api: Api, endpoint: Endpoint) -> None:
    made = await create(api, to(endpoint))
    evaluator = await api.create(severity="critical")
    trace_id = await api.send("0.1")
    await api.settled()
    (request,) = endpoint.requests
    Webhook(made["secret"]).verify(request.body, request.headers)
    (event,) = request.json["data"]["events"]
    assert event["event"] == "raised"
    assert event["evaluator"] == {"id": evaluator["id"], "name": "check"}
    assert event["agent"]["name"] == "desk"
    assert (event["signal"]["severity"], event["signal"]["traceId"]) == ("critical", trace_id)
    log = await api.call("GET", f"{CHANNELS}/{made['id']}/deliveries")
    (line,) = log["deliveries"]
    assert (line["outcome"], line["events"], line["notificationId"]) == ("told", 1, request.headers["webhook-id"])
    assert log["owed"] == 0


async def test_signals_of_external_scorers_are_told_too(api: Api, endpoint: Endpoint) -> None:
    await create(api, to(endpoint))
    body = {"name": "outside", "kind": "external", "url": "https://example.com/", "sampleRate": 1}
    await api.call("POST", "/api/v1/custom-evaluators", 201, json=body)
    await api.send("0.9")
    await api.settled()
    assert [request.json["data"]["events"][0]["evaluator"]["name"] for request in endpoint.requests] == ["outside"]


async def test_a_log_is_paged(api: Api, endpoint: Endpoint) -> None:
    made = await create(api, to(endpoint))
    path = f"{CHANNELS}/{made['id']}"
    for _ in range(3):
        await api.call("POST", f"{path}/test")
    first = await api.call("GET", f"{path}/deliveries?limit=2")
    rest = await api.call("GET", f"{path}/deliveries?limit=2&cursor={first['nextCursor']}")
    assert (len(first["deliveries"]), len(rest["deliveries"]), rest["nextCursor"]) == (2, 1, None)
    await api.call("GET", f"{path}/deliveries?cursor=nonsense", 400)


async def test_channels_are_their_projects_and_no_ingest_keys(api: Api) -> None:
    made = await create(api, SLACK)
    for method, path in [
        ("GET", ""),
        ("PATCH", ""),
        ("PUT", ""),
        ("DELETE", ""),
        ("POST", "/test"),
        ("GET", "/deliveries"),
    ]:
        async with client(api.app, key("admin", "other")) as other:
            answer = await other.request(method, f"{CHANNELS}/{made['id']}{path}", json={})
        assert answer.status_code == 404, (method, path)
        async with client(api.app, key("ingest")) as sender:
            answer = await sender.request(method, f"{CHANNELS}/{made['id']}{path}", json={})
        assert answer.status_code == 403, (method, path)


async def test_a_channel_that_hangs_holds_up_no_other(api: Api) -> None:
    hangs, arrived = asyncio.Event(), asyncio.Event()

    async def hang(request: Request, writer: asyncio.StreamWriter) -> None:
        hangs.set()
        await silent(request, writer)

    async def answer_once_it_hangs(request: Request, writer: asyncio.StreamWriter) -> None:
        await hangs.wait()
        arrived.set()
        await answering()(request, writer)

    async with Endpoint(hang) as hanging, Endpoint(answer_once_it_hangs) as quick, asyncio.timeout(30):
        await create(api, to(hanging))
        await create(api, to(quick))
        await api.create()
        await api.send("0.1")
        await arrived.wait()
        assert hanging.at_once == 1


async def test_a_secret_that_no_key_opens_is_said_to_be_lost_and_can_be_given_again(
    api: Api, endpoint: Endpoint
) -> None:
    made = await create(api, to(endpoint))
    async with api.store.transaction() as transaction:
        channel = await transaction.channel_for_update("default", made["id"])
        assert channel is not None
        damaged = bytes([*channel.sealed[:-1], channel.sealed[-1] ^ 1])
        await transaction.update_channel(replace(channel, sealed=damaged))
    tested = await api.call("POST", f"{CHANNELS}/{made['id']}/test")
    assert (tested["ok"], "damaged" in tested["error"]) == (False, True)
    path = f"{CHANNELS}/{made['id']}"
    await api.call("PATCH", path, 409, json={"secret": SECRET})
    await api.call("PATCH", path, json={"url": to(endpoint), "secret": SECRET})
    assert (await api.call("POST", f"{path}/test"))["ok"]

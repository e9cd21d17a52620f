"""Credentials of external evaluators over HTTP: taken, kept, replaced, and never given back."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url
from standardwebhooks import Webhook

from assay.guarded_http.address_guard import AddressGuard
from assay.runners.webhook.runner import WebhookRunner
from support.api import EVALUATORS, SCRIPT, Api, running_api
from support.endpoint import LOOPBACK, Endpoint, Request, answering
from support.notifications import VAULT

OLD, NEW, THIRD = "whsec_" + "b2xk" * 8, "whsec_" + "bmV3" * 8, "whsec_" + "dHJp" * 8
SECRETS = {
    "headers": {"X-Api-Key": "header-secret", "X-Tenant": "tenant-secret"},
    "bearerToken": "bearer-secret",
    "signingSecrets": [OLD],
}
HELD = {"headers": {"X-Api-Key": "…", "X-Tenant": "…"}, "bearerToken": "…"}
DRY_RUN = f"{EVALUATORS}/dry-run"


@asynccontextmanager
async def calling(database_url: str) -> AsyncGenerator[Api]:
    """Run the application with a client that calls real endpoints."""
    webhook = WebhookRunner(AddressGuard(LOOPBACK), VAULT)
    try:
        async with running_api(database_url, external=webhook) as api:
            yield api
    finally:
        await webhook.close()


@pytest.fixture
async def api(tmp_path: Path) -> AsyncGenerator[Api]:
    async with calling(f"sqlite:///{tmp_path / 'assay.db'}") as running:
        yield running


@pytest.fixture
async def endpoint() -> AsyncGenerator[Endpoint]:
    async with Endpoint(answering(b'{"matches": false}')) as running:
        yield running


async def created(api: Api, url: str, **fields: Any) -> dict[str, Any]:
    return await api.create(kind="external", language=None, script=None, url=url, **{**SECRETS, **fields})


async def sent(api: Api, endpoint: Endpoint) -> Request:
    """Return what the endpoint is sent for one more trace."""
    await api.send("x")
    await api.settled()
    return endpoint.requests[-1]


def assert_no_secret(said: object) -> None:
    for secret in ("header-secret", "tenant-secret", "bearer-secret", *(key[6:] for key in (OLD, NEW, THIRD))):
        assert secret not in str(said)


async def test_credentials_are_sent_and_never_shown(api: Api, endpoint: Endpoint) -> None:
    made = await created(api, endpoint.url)
    headers = (await sent(api, endpoint)).headers
    assert (headers["x-api-key"], headers["x-tenant"]) == ("header-secret", "tenant-secret")
    assert headers["authorization"] == "Bearer bearer-secret"
    Webhook(OLD).verify(endpoint.requests[-1].body, headers)
    path = f"{EVALUATORS}/{made['id']}"
    assert {name: made[name] for name in HELD} == HELD
    (shown,) = made["signingSecrets"]
    assert shown.startswith("whsec_…")
    said = [made, await api.call("PATCH", path, json={"enabled": True})]
    for answer in (path, EVALUATORS, f"{path}/revisions", f"{path}/events", "/api/v1/signals"):
        said.append(await api.call("GET", answer))
    said.append(await api.call("POST", DRY_RUN, json={"id": made["id"]}))
    assert_no_secret(said)


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_what_get_returns_can_be_sent_back_and_keeps_them(method: str, api: Api, endpoint: Endpoint) -> None:
    made = await created(api, endpoint.url)
    path = f"{EVALUATORS}/{made['id']}"
    again = await api.call(method, path, json={**await api.call("GET", path), "name": "renamed"})
    assert again == {**made, "name": "renamed", "updatedAt": again["updatedAt"]}
    headers = (await sent(api, endpoint)).headers
    assert (headers["x-api-key"], headers["authorization"]) == ("header-secret", "Bearer bearer-secret")
    Webhook(OLD).verify(endpoint.requests[-1].body, headers)


async def test_each_can_be_replaced_and_dropped_while_the_others_stay(api: Api, endpoint: Endpoint) -> None:
    made = await created(api, endpoint.url)
    path = f"{EVALUATORS}/{made['id']}"
    await api.call("PATCH", path, json={"bearerToken": "another", "headers": {"x-api-key": "…", "X-New": "n"}})
    headers = (await sent(api, endpoint)).headers
    assert (headers["authorization"], headers["x-api-key"], headers["x-new"]) == (
        "Bearer another",
        "header-secret",
        "n",
    )
    assert "x-tenant" not in headers
    Webhook(OLD).verify(endpoint.requests[-1].body, headers)
    changed = await api.call("PATCH", path, json={"bearerToken": None, "headers": None})
    assert changed["revision"] == made["revision"]
    assert "bearerToken" not in changed
    headers = (await sent(api, endpoint)).headers
    assert {"authorization", "x-api-key"}.isdisjoint(headers)
    assert "webhook-signature" in headers
    assert "signingSecrets" not in await api.call("PATCH", path, json={"signingSecrets": []})
    assert "webhook-signature" not in (await sent(api, endpoint)).headers


async def test_signing_secrets_rotate_with_two_active_ones(api: Api, endpoint: Endpoint) -> None:
    made = await created(api, endpoint.url)
    path = f"{EVALUATORS}/{made['id']}"
    both = await api.call("PATCH", path, json={"signingSecrets": [*made["signingSecrets"], NEW]})
    request = await sent(api, endpoint)
    for secret in (OLD, NEW):
        Webhook(secret).verify(request.body, request.headers)
    third = await api.call("PATCH", path, 400, json={"signingSecrets": [*both["signingSecrets"], THIRD]})
    assert "at most 2" in third["detail"]
    await api.call("PATCH", path, json={"signingSecrets": [both["signingSecrets"][1]]})
    request = await sent(api, endpoint)
    Webhook(NEW).verify(request.body, request.headers)
    assert len(request.headers["webhook-signature"].split()) == 1


async def test_another_path_of_the_same_origin_keeps_them_and_another_origin_gets_nothing(
    api: Api, endpoint: Endpoint
) -> None:
    made = await created(api, endpoint.url)
    path = f"{EVALUATORS}/{made['id']}"
    async with Endpoint(answering(b'{"matches": false}')) as thief:
        for target in (path, DRY_RUN):
            method = "PATCH" if target == path else "POST"
            body = {"url": thief.url} if target == path else {"id": made["id"], "url": thief.url}
            for kept in ({}, {"headers": HELD["headers"]}, {"bearerToken": "…"}):
                problem = await api.call(method, target, 400, json={**body, **kept})
                assert thief.url.removesuffix("/score") in problem["detail"]
                assert problem["field"] in ("headers", "bearerToken", "signingSecrets")
                assert_no_secret(problem)
        assert thief.connections == 0
        await api.call("PATCH", path, json={"url": f"{endpoint.url}/other"})
        assert (await sent(api, endpoint)).headers["x-api-key"] == "header-secret"
        fresh = {"headers": {"X-Api-Key": "for the other"}, "bearerToken": None, "signingSecrets": None}
        await api.call("PATCH", path, json={"url": thief.url, **fresh})
        request = await sent(api, thief)
        assert request.headers["x-api-key"] == "for the other"
        assert_no_secret(thief.requests)


async def test_a_copy_has_the_same_credentials(api: Api, endpoint: Endpoint) -> None:
    made = await created(api, endpoint.url, enabled=False)
    copy = await api.call("POST", f"{EVALUATORS}/{made['id']}/duplicate", 201)
    await api.call("PATCH", f"{EVALUATORS}/{copy['id']}", json={"enabled": True})
    assert (await sent(api, endpoint)).headers["x-api-key"] == "header-secret"


async def test_a_dry_run_is_shown_those_given_or_stored(api: Api, endpoint: Endpoint) -> None:
    made = await created(api, endpoint.url, enabled=False)
    for body in ({"url": endpoint.url, **SECRETS}, {"id": made["id"]}):
        assert (await api.call("POST", DRY_RUN, json=body))["ok"]
        headers = endpoint.requests[-1].headers
        assert (headers["x-api-key"], headers["authorization"]) == ("header-secret", "Bearer bearer-secret")
        Webhook(OLD).verify(endpoint.requests[-1].body, headers)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"headers": {"Host": "header-secret"}}, "headers"),
        ({"headers": {"Content-Length": "header-secret"}}, "headers"),
        ({"headers": {"webhook-id": "header-secret"}}, "headers"),
        ({"headers": {"Assay-Schema-Version": "header-secret"}}, "headers"),
        ({"headers": {"Idempotency-Key": "header-secret"}}, "headers"),
        ({"headers": {"Transfer-Encoding": "header-secret"}}, "headers"),
        ({"headers": {"X": "header-secret\r\nX-Evil: 1"}}, "headers"),
        ({"headers": {"X": "header-secret\x00"}}, "headers"),
        ({"headers": {"X": "header-secret é"}}, "headers"),
        ({"headers": {"X: Y": "header-secret"}}, "headers"),
        ({"headers": {"": "header-secret"}}, "headers"),
        ({"headers": {"X": ""}}, "headers"),
        ({"headers": {"X": 5}}, "headers"),
        ({"headers": {"X": "header-secret", "x": "header-secret"}}, "headers"),
        ({"headers": {f"X-{number}": "header-secret" for number in range(21)}}, "headers"),
        ({"headers": {"X": "header-secret" * 400}}, "headers"),
        ({"headers": ["header-secret"]}, "headers"),
        ({"headers": {"X": "…"}}, "headers"),
        ({"headers": {"Authorization": "header-secret"}, "bearerToken": "bearer-secret"}, "bearerToken"),
        ({"bearerToken": "Bearer bearer-secret"}, "bearerToken"),
        ({"bearerToken": "bearer-secret\n"}, "bearerToken"),
        ({"bearerToken": ["bearer-secret"]}, "bearerToken"),
        ({"bearerToken": "…"}, "bearerToken"),
        ({"signingSecrets": ["header-secret"]}, "signingSecrets"),
        ({"signingSecrets": ["whsec_" + "a" * 8]}, "signingSecrets"),
        ({"signingSecrets": ["whsec_…0a1b2c3d"]}, "signingSecrets"),
        ({"signingSecrets": [OLD, OLD]}, "signingSecrets"),
        ({"signingSecrets": [OLD, NEW, THIRD]}, "signingSecrets"),
        ({"signingSecrets": OLD}, "signingSecrets"),
    ],
)
async def test_what_cannot_be_sent_is_refused_without_being_repeated(
    fields: dict[str, Any], field: str, api: Api
) -> None:
    for path, body in ((EVALUATORS, {"name": "n"}), (DRY_RUN, {})):
        problem = await api.call("POST", path, 400, json={"url": "https://a.example", **body, **fields})
        assert problem["field"].startswith(field), problem
        assert_no_secret(problem)


async def test_code_has_no_endpoint_to_be_known_to(api: Api) -> None:
    code = {"name": "n", "kind": "code", "language": "python", "script": SCRIPT}
    for name, value in SECRETS.items():
        problem = await api.call("POST", EVALUATORS, 400, json={**code, name: value})
        assert problem["field"] == name
        assert "belongs to evaluators of the kind external" in problem["detail"]
        assert_no_secret(problem)


async def test_after_the_key_was_lost_the_error_says_what_to_do_and_new_secrets_can_be_set(
    api: Api, endpoint: Endpoint
) -> None:
    made = await created(api, endpoint.url)
    path = f"{EVALUATORS}/{made['id']}"
    async with api.store.transaction() as transaction:
        (evaluator,) = await transaction.evaluators_with_credentials()
        assert evaluator.credentials is not None
        held = evaluator.credentials
        lost = type(held)(
            origin=held.origin,
            header_names=held.header_names,
            has_bearer_token=held.has_bearer_token,
            signing_prints=held.signing_prints,
            sealed=b"\x01of another key" * 9,
        )
        await transaction.reseal_credentials(evaluator.id, before=held, after=lost)
    await api.send("x")
    await api.settled()
    assert endpoint.connections == 0
    (event,) = (await api.call("GET", f"{path}/events"))["events"]
    assert (event["status"], event["error"]["kind"]) == ("errored", "credentials")
    assert "ASSAY_SECRET_KEY" in event["error"]["message"]
    assert (await api.call("GET", "/api/v1/signals"))["signals"] == []
    tried = await api.call("POST", DRY_RUN, json={"id": made["id"]})
    assert "ASSAY_SECRET_KEY" in tried["error"]
    await api.call("PATCH", path, json={"name": "renamed"})
    problem = await api.call("PATCH", path, 409, json={"bearerToken": "another"})
    assert "ASSAY_SECRET_KEY" in problem["detail"]
    await api.call("PATCH", path, json=SECRETS)
    assert (await sent(api, endpoint)).headers["x-api-key"] == "header-secret"


@pytest.fixture
def stored_bytes(database_url: str, tmp_path: Path) -> Callable[[], bytes]:
    """Give what returns all that the database holds, as bytes."""

    def read() -> bytes:
        if database_url.startswith("sqlite"):
            return b"".join(file.read_bytes() for file in tmp_path.glob("assay.db*"))
        engine = create_engine(make_url(database_url).set(drivername="postgresql+psycopg"))
        with engine.connect() as connection:
            names = connection.execute(text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")).scalars()
            # bytea is written in hexadecimal digits.
            rows = [
                row for name in names for row in connection.execute(text(f'SELECT t::text FROM "{name}" t')).scalars()
            ]
        engine.dispose()
        return "\n".join(rows).encode()

    return read


async def test_no_secret_stands_in_the_database(
    database_url: str, stored_bytes: Callable[[], bytes], endpoint: Endpoint
) -> None:
    async with calling(database_url) as api:
        made = await created(api, endpoint.url)
        await api.call("PATCH", f"{EVALUATORS}/{made['id']}", json={"signingSecrets": [*made["signingSecrets"], NEW]})
        await sent(api, endpoint)
        await api.call("POST", DRY_RUN, json={"id": made["id"]})
        stored = await asyncio.to_thread(stored_bytes)
    assert b"X-Api-Key" in stored or b"X-Api-Key".hex().encode() in stored
    secrets = ["header-secret", "tenant-secret", "bearer-secret", OLD[6:], NEW[6:]]
    for secret in secrets:
        assert secret.encode() not in stored
        assert secret.encode().hex().encode() not in stored
        assert json.dumps(secret).encode() not in stored

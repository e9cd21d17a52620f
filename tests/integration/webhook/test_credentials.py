"""What an endpoint is shown to know us by, over real sockets."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from standardwebhooks import Webhook
from standardwebhooks.webhooks import WebhookVerificationError

from assay.domain.credentials import Credentials, SealedCredentials, credentials_text, vault_place
from assay.domain.outcome import Call, Limits, Outcome, Raised, Returned
from assay.domain.url import origin
from assay.guarded_http.address_guard import AddressGuard
from assay.runners.webhook.runner import WebhookRunner
from assay.vault import Vault
from support.endpoint import LOOPBACK, Behaviour, Endpoint, Request, answering, external, in_turn
from support.notifications import VAULT

OLD, NEW = "whsec_" + "b2xk" * 8, "whsec_" + "bmV3" * 8
OTHER_VAULT = Vault(["another key, which nobody has set for this server"])
ALL = Credentials(
    headers=(("X-Api-Key", "header-secret"), ("X-Tenant", "shop")),
    bearer_token="bearer-secret",
    signing_secrets=(OLD, NEW),
)


@asynccontextmanager
async def running() -> AsyncGenerator[WebhookRunner]:
    runner = WebhookRunner(AddressGuard(LOOPBACK), VAULT)
    try:
        yield runner
    finally:
        await runner.close()


def sealed_for(
    url: str, credentials: Credentials, *, vault: Vault = VAULT, project: str = "default"
) -> SealedCredentials:
    where = origin(url)
    return SealedCredentials(
        origin=where, sealed=vault.seal(credentials_text(credentials), place=vault_place(project, where))
    )


async def posted(
    runner: WebhookRunner, url: str, credentials: SealedCredentials | None, evaluator_id: str = "evl_1"
) -> Outcome:
    call = Call(arguments=(b'{"n": "\xc3\xa9"}',), key="chk_1", credentials=credentials)
    (outcome,) = await runner.execute(external(url, evaluator_id=evaluator_id), [call], Limits())
    return outcome


async def test_headers_and_a_token_are_sent_as_they_were_given() -> None:
    async with Endpoint(answering()) as endpoint, running() as runner:
        credentials = Credentials(headers=ALL.headers, bearer_token=ALL.bearer_token)
        assert isinstance(await posted(runner, endpoint.url, sealed_for(endpoint.url, credentials)), Returned)
        assert isinstance(await posted(runner, endpoint.url, None), Returned)
    shown, bare = (request.headers for request in endpoint.requests)
    assert (shown["x-api-key"], shown["x-tenant"]) == ("header-secret", "shop")
    assert shown["authorization"] == "Bearer bearer-secret"
    assert "webhook-signature" not in shown
    assert {"x-api-key", "authorization", "webhook-signature"}.isdisjoint(bare)


def verifying(*secrets: str) -> Behaviour:
    """Answer those whose signature one of these secrets verifies, by the library of receivers; others get 401."""

    async def behave(request: Request, writer: asyncio.StreamWriter) -> None:
        for secret in secrets:
            try:
                Webhook(secret).verify(request.body, request.headers)
            except WebhookVerificationError:
                continue
            await answering()(request, writer)
            return
        await answering(status=401)(request, writer)

    return behave


@pytest.mark.parametrize(
    ("knows", "active", "is_accepted"),
    [
        (OLD, (OLD,), True),
        (OLD, (OLD, NEW), True),
        (NEW, (OLD, NEW), True),
        (NEW, (NEW,), True),
        (OLD, (NEW,), False),
        (NEW, (), False),
    ],
    ids=["before", "rotating, not yet switched", "rotating, switched", "after", "too late", "unsigned"],
)
async def test_an_endpoint_can_verify_signatures_all_through_a_rotation(
    knows: str, active: tuple[str, ...], is_accepted: bool
) -> None:
    async with Endpoint(verifying(knows)) as endpoint, running() as runner:
        outcome = await posted(runner, endpoint.url, sealed_for(endpoint.url, Credentials(signing_secrets=active)))
    assert isinstance(outcome, Returned) == is_accepted, outcome


async def test_every_attempt_is_signed_anew_under_the_same_id() -> None:
    async with Endpoint(in_turn(answering(status=503), verifying(NEW))) as endpoint, running() as runner:
        assert isinstance(await posted(runner, endpoint.url, sealed_for(endpoint.url, ALL)), Returned)
    assert [request.headers["webhook-id"] for request in endpoint.requests] == ["chk_1", "chk_1"]
    assert [request.headers["idempotency-key"] for request in endpoint.requests] == ["chk_1", "chk_1"]


@pytest.mark.parametrize("what", ["another origin", "another project", "another key"])
async def test_credentials_that_are_not_for_this_call_are_not_opened_and_nothing_is_sent(what: str) -> None:
    async with Endpoint(answering()) as endpoint, running() as runner:
        wrong = {
            "another origin": sealed_for("http://127.0.0.1:1/score", ALL),
            "another project": sealed_for(endpoint.url, ALL, project="other"),
            "another key": sealed_for(endpoint.url, ALL, vault=OTHER_VAULT),
        }[what]
        outcome = await posted(runner, endpoint.url, wrong)
        assert endpoint.connections == 0
    assert isinstance(outcome, Raised)
    assert outcome.kind == "credentials"
    assert "secret" in outcome.message
    if what == "another key":
        assert "ASSAY_SECRET_KEY" in outcome.message
    if what == "another origin":
        assert "http://127.0.0.1:1" in outcome.message


async def test_an_endpoint_that_says_what_it_was_sent_does_not_bring_the_secrets_back() -> None:
    async def echo(request: Request, writer: asyncio.StreamWriter) -> None:
        said = json.dumps({"matches": True, "reason": str(request.headers)}).encode()
        await answering(said, x_request_id=request.headers["x-api-key"])(request, writer)

    async with Endpoint(echo) as endpoint, running() as runner:
        credentials = sealed_for(endpoint.url, ALL)
        saved, draft = [await posted(runner, endpoint.url, credentials, evaluator_id) for evaluator_id in ("evl_1", "")]
    for outcome in (saved, draft):
        assert isinstance(outcome, Returned)
        assert "[redacted]" in str(outcome.value)
        assert "header-secret" not in repr(outcome)
        assert "bearer-secret" not in repr(outcome)
    assert isinstance(draft, Returned)
    assert draft.answer is not None
    assert ("x-request-id", "[redacted]") in draft.answer.headers


async def test_a_redirect_takes_no_credentials_along() -> None:
    async with Endpoint(answering()) as elsewhere:
        location = f"{elsewhere.url}?k=header-secret"
        async with Endpoint(answering(status=307, location=location)) as endpoint, running() as runner:
            outcome = await posted(runner, endpoint.url, sealed_for(endpoint.url, ALL))
        assert elsewhere.connections == 0
    assert isinstance(outcome, Raised)
    assert outcome.kind == "redirect"
    assert "header-secret" not in outcome.message

"""The signed webhook against real endpoints on loopback."""

import asyncio
import json
import ssl
from pathlib import Path

import pytest
from standardwebhooks import Webhook

from assay.channels.webhook import WebhookMessenger
from assay.domain.channel import Channel
from assay.errors import InvalidInputError
from assay.guarded_http.address_guard import AddressGuard
from assay.ports import NotTold, Told
from assay.vault import Vault
from support.endpoint import LOOPBACK, Endpoint, answering, in_turn, sending, silent
from support.notifications import SIGNING_SECRET, VAULT, a_channel, a_notification

PEM = Path(__file__).parents[1] / "webhook" / "loopback.pem"


async def told(channel: Channel, *, allow: tuple[str, ...] = LOOPBACK, vault: Vault = VAULT) -> Told | NotTold:
    messenger = WebhookMessenger(AddressGuard(allow), vault)
    try:
        return await messenger.send(channel, a_notification())
    finally:
        await messenger.close()


def to(endpoint: Endpoint, path: str = "/hooks/t0ken?key=s3cret") -> Channel:
    scheme, _, rest = endpoint.url.partition("://")
    return a_channel(f"webhook:{scheme}://{rest.partition('/')[0]}{path}")


async def test_the_receiver_can_verify_what_came_with_the_standard_library_of_the_standard() -> None:
    async with Endpoint(answering(b"", status=204)) as endpoint:
        assert await told(to(endpoint)) == Told()
    (request,) = endpoint.requests
    document = Webhook(SIGNING_SECRET).verify(request.body, request.headers)
    assert document["type"] == "signals.changed"
    assert document["data"]["events"][0]["signal"]["reason"] == "refused the customer"
    assert request.line == "POST /hooks/t0ken?key=s3cret HTTP/1.1"
    assert request.headers["content-type"] == "application/json"


async def test_every_attempt_has_the_same_id_and_body() -> None:
    async with Endpoint(in_turn(answering(status=500), answering())) as endpoint:
        channel = to(endpoint)
        assert isinstance(await told(channel), NotTold)
        assert await told(channel) == Told()
    first, second = endpoint.requests
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == "ntf_1"
    assert first.body == second.body


@pytest.mark.parametrize("status", [400, 401, 404, 410, 429, 500, 503])
async def test_only_success_counts_and_the_status_is_told(status: int) -> None:
    async with Endpoint(answering(status=status)) as endpoint:
        result = await told(to(endpoint))
    assert isinstance(result, NotTold)
    assert f"answered {status}" in result.cause


@pytest.mark.parametrize("status", [429, 503])
async def test_the_receiver_may_say_when_to_come_again(status: int) -> None:
    async with Endpoint(answering(status=status, Retry_After="120")) as endpoint:
        result = await told(to(endpoint))
    assert isinstance(result, NotTold)
    assert result.after_s == 120


async def test_a_redirect_is_told_and_not_followed() -> None:
    async with Endpoint(answering()) as elsewhere:
        async with Endpoint(answering(status=307, Location=elsewhere.url)) as endpoint:
            result = await told(to(endpoint))
    assert isinstance(result, NotTold)
    assert "redirects are not followed" in result.cause
    assert elsewhere.connections == 0


async def test_how_much_the_receiver_says_after_its_success_does_not_matter() -> None:
    async with Endpoint(answering(b"x" * (2 * 1024 * 1024))) as endpoint:
        assert await told(to(endpoint)) == Told()


async def test_a_receiver_that_says_nothing_costs_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.channels.webhook.BUDGET_S", 0.2)
    async with Endpoint(silent) as endpoint:
        result = await told(to(endpoint))
    assert isinstance(result, NotTold)
    assert "did not answer within" in result.cause


async def test_a_connection_that_breaks_off_is_a_failure() -> None:
    async with Endpoint(sending(b"HTTP/1.1 200 OK\r\nContent-Le", closing=True)) as endpoint:
        assert isinstance(await told(to(endpoint)), NotTold)


async def test_a_certificate_that_nobody_vouches_for_is_a_failure() -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(PEM)
    async with Endpoint(answering(), tls=tls) as endpoint:
        result = await told(to(endpoint))
    assert isinstance(result, NotTold)
    assert endpoint.requests == []


@pytest.mark.parametrize("status", [302, 500])
async def test_a_failure_names_the_host_and_nothing_secret(status: int) -> None:
    async with Endpoint(answering(status=status, Location="/hooks/t0ken?key=s3cret")) as endpoint:
        result = await told(to(endpoint))
    assert isinstance(result, NotTold)
    assert f"127.0.0.1:{endpoint.port}" in result.cause
    assert "t0ken" not in result.cause
    assert "s3cret" not in result.cause


async def test_a_target_sealed_with_a_lost_key_is_a_failure_and_nothing_is_sent() -> None:
    async with Endpoint(answering()) as endpoint:
        result = await told(to(endpoint), vault=Vault(["another-key-of-the-operator-long-enough"]))
    assert isinstance(result, NotTold)
    assert "ASSAY_SECRET_KEY" in result.cause
    assert endpoint.connections == 0


async def test_two_messages_to_one_receiver_share_its_connection() -> None:
    async with Endpoint(answering()) as endpoint:
        messenger = WebhookMessenger(AddressGuard(LOOPBACK), VAULT)
        for number in range(2):
            await messenger.send(to(endpoint), a_notification(notification_id=f"ntf_{number}"))
        await messenger.close()
    assert (endpoint.connections, len(endpoint.requests)) == (1, 2)


@pytest.mark.parametrize(
    "url",
    ["webhook:", "webhook:ftp://example.com/x", "webhook:https://", "webhook:https://u:p@example.com/", "webhook:/x"],
)
async def test_a_url_that_nothing_can_be_posted_to_is_refused(url: str) -> None:
    messenger = WebhookMessenger(AddressGuard(), VAULT)
    with pytest.raises(InvalidInputError) as refused:
        await messenger.shown(url, "default")
    await messenger.close()
    assert refused.value.field == "url"
    assert ":p@" not in str(refused.value)


async def test_of_a_url_the_host_is_shown() -> None:
    messenger = WebhookMessenger(AddressGuard(), VAULT)
    shown = await messenger.shown("webhook:https://example.com:8443/hooks/t0ken?key=s3cret", "default")
    await messenger.close()
    assert shown == "webhook:https://example.com:8443/…"


async def test_a_receiver_that_hangs_holds_up_no_other() -> None:
    async with Endpoint(silent) as hanging, Endpoint(answering()) as quick:
        messenger = WebhookMessenger(AddressGuard(LOOPBACK), VAULT)
        waiting = asyncio.create_task(messenger.send(to(hanging), a_notification()))
        assert await messenger.send(to(quick), a_notification()) == Told()
        assert not waiting.done()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await messenger.close()
    assert json.loads(quick.requests[0].body)["data"]["notificationId"] == "ntf_1"

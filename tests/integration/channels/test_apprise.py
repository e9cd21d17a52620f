"""Apprise in its own process, against a real endpoint and a real SMTP server on loopback."""

import asyncio
import json
import os
import signal
from asyncio.subprocess import PIPE
from email.header import decode_header, make_header

import pytest

from assay.channels.apprise import COMMAND, AppriseMessenger
from assay.domain.notification import Notification
from assay.errors import InvalidInputError
from assay.ports import NotTold, Told
from assay.vault import Vault
from support.endpoint import LOOPBACK, Endpoint, answering, dripping, sending, silent
from support.mail import MailServer, mail_server
from support.notifications import VAULT, a_channel, a_notification, an_event

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


async def told(
    url: str,
    notification: Notification | None = None,
    *,
    allow: tuple[str, ...] = LOOPBACK,
    vault: Vault = VAULT,
    budget_s: float = 30,
) -> Told | NotTold:
    messenger = AppriseMessenger(vault, allow, budget_s=budget_s)
    return await messenger.send(a_channel(url), notification or a_notification())


def json_url(endpoint: Endpoint) -> str:
    return f"json://user:passw0rd@127.0.0.1:{endpoint.port}/t0ken-in-the-path"


def mail_url(server: MailServer) -> str:
    return f"mailto://127.0.0.1:{server.port}/?from=assay@example.com&to=on.call@example.com&mode=insecure"


async def test_a_message_arrives_with_its_title_and_text() -> None:
    async with Endpoint(answering()) as endpoint:
        assert await told(json_url(endpoint)) == Told()
    (request,) = endpoint.requests
    assert request.json["title"] == "[high] no refusal fails on shop"
    assert "refused the customer" in request.json["message"]
    assert request.json["type"] == "failure"


async def test_a_mail_arrives_and_nothing_in_it_adds_a_header() -> None:
    event = an_event(evaluator_name="polite\r\nBcc: all@example.com\r\n\r\nhello", reason="rude\r\nBcc: x@example.com")
    async with mail_server() as server:
        assert await told(mail_url(server), a_notification(event)) == Told()
    (message,) = server.messages
    assert message["Bcc"] is None
    assert "polite Bcc" in str(make_header(decode_header(message["Subject"])))
    assert message["To"] == "on.call@example.com"


async def test_a_mail_server_that_refuses_is_a_failure_that_tells_nothing_secret() -> None:
    async with mail_server(refusing=True) as server:
        result = await told(mail_url(server))
    assert isinstance(result, NotTold)
    assert "example.com" not in result.cause


@pytest.mark.parametrize("status", [401, 404, 429, 500])
async def test_a_failure_tells_the_status_and_nothing_secret(status: int) -> None:
    async with Endpoint(answering(status=status, Retry_After="90")) as endpoint:
        result = await told(json_url(endpoint))
    assert isinstance(result, NotTold)
    assert f"answered {status}" in result.cause
    assert result.after_s == 90
    assert "passw0rd" not in result.cause
    assert "t0ken" not in result.cause


async def test_a_redirect_is_told_and_not_followed() -> None:
    async with Endpoint(answering()) as elsewhere:
        async with Endpoint(answering(status=307, Location=elsewhere.url)) as endpoint:
            result = await told(json_url(endpoint))
    assert isinstance(result, NotTold)
    assert "redirects are not followed" in result.cause
    assert elsewhere.connections == 0


async def test_nobody_there_is_a_failure() -> None:
    async with Endpoint(answering()) as endpoint:
        url = json_url(endpoint)
    result = await told(url)
    assert isinstance(result, NotTold)
    assert "passw0rd" not in result.cause


async def test_a_receiver_that_hangs_or_drips_costs_a_bounded_time_and_leaves_no_process() -> None:
    for behaviour in (silent, dripping(HEAD, b"1\r\nx\r\n")):
        async with Endpoint(behaviour) as endpoint:
            result = await told(json_url(endpoint), budget_s=3)
        assert isinstance(result, NotTold)
        assert "within 3 s" in result.cause
    assert children() == []


async def test_an_endless_answer_is_not_read_to_its_end() -> None:
    flood = HEAD + b"10000\r\n" + b"x" * 65536 + b"\r\n"
    async with Endpoint(dripping(flood, b"10000\r\n" + b"x" * 65536 + b"\r\n", every_s=0)) as endpoint:
        result = await told(json_url(endpoint))
    assert isinstance(result, NotTold)
    assert "within" not in result.cause


async def test_an_answer_that_is_no_http_is_a_failure() -> None:
    async with Endpoint(sending(b"\x00\x01\x02\r\n\r\n", closing=True)) as endpoint:
        assert isinstance(await told(json_url(endpoint)), NotTold)


async def test_a_target_sealed_with_a_lost_key_is_a_failure_and_nothing_is_sent() -> None:
    async with Endpoint(answering()) as endpoint:
        result = await told(json_url(endpoint), vault=Vault(["another-key-of-the-operator-long-enough"]))
    assert isinstance(result, NotTold)
    assert endpoint.connections == 0


async def test_a_delivery_that_is_called_off_leaves_no_process() -> None:
    async with Endpoint(silent) as endpoint:
        sent = asyncio.create_task(told(json_url(endpoint)))
        while not endpoint.requests:
            assert not sent.done()
            await asyncio.sleep(0.02)
        sent.cancel()
        await asyncio.gather(sent, return_exceptions=True)
    assert children() == []


async def test_a_message_that_hangs_ends_by_itself_when_its_server_is_gone() -> None:
    async with Endpoint(silent) as endpoint:
        question = {
            "url": json_url(endpoint) + "?rto=100",
            "allow": list(LOOPBACK),
            "budget_s": 5,
            "title": "t",
            "body": "b",
            "severity": "low",
        }
        process = await asyncio.create_subprocess_exec(*COMMAND, stdin=PIPE, env={})
        await process.communicate(json.dumps(question).encode())
        assert process.returncode == -signal.SIGALRM
        assert len(endpoint.requests) == 1


async def test_of_a_url_the_scheme_is_shown() -> None:
    shown = await AppriseMessenger(VAULT).shown(
        "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#calls", "default"
    )
    assert shown == "slack://…"


@pytest.mark.parametrize("url", ["nosuch://host", "slack://too-short", "not a url", "https://example.com/x"])
async def test_a_url_that_apprise_does_not_know_is_refused(url: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        await AppriseMessenger(VAULT).shown(url, "default")
    assert refused.value.field == "url"


def children() -> list[str]:
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
        return [pid for pid in file.read().split() if "apprise_process" in command(pid)]


def command(pid: str) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""

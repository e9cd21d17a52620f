"""Attacks through the URL of a channel, and through what a notification says."""

import asyncio
import json
import socket
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from assay.channels.apprise import AppriseMessenger
from assay.channels.apprise_text import body_of, title_of
from assay.channels.webhook import WebhookMessenger
from assay.domain.notification import Notification
from assay.errors import InvalidInputError
from assay.guarded_http.address_guard import AddressGuard
from assay.ports import NotTold, Told
from support.endpoint import LOOPBACK, Endpoint, answering
from support.mail import mail_server
from support.notifications import VAULT, a_channel, a_notification, an_event

HOSTS = [
    "127.0.0.1",
    "127.1",
    "2130706433",
    "0x7f000001",
    "017700000001",
    "0.0.0.0",
    "0",
    "[::1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "localhost",
    "LOCALHOST.",
]
# Services whose host is the user's choice, over HTTP and over everything else that apprise speaks.
TO_A_HOST = [
    "json://{host}/x",
    "xml://{host}/x",
    "form://{host}/x",
    "gotify://{host}/AbCdEfGhIjKlMnO",
    "ntfy://{host}/topic",
    "mmost://{host}/3ccdd113474722377935511fc85d3dd4",
    "rocket://user:pass@{host}/#channel",
    "nctalk://user:pass@{host}/RoomId",
    "ncloud://user:pass@{host}/User",
    "matrix://user:pass@{host}/#room",
    "hassio://{host}/long-lived-access-token",
    "kodi://{host}",
    "synology://{host}/token",
    "apprises://{host}/0123456789abcdef",
    "signal://{host}/15555555555/15555555556",
    "mailto://user:pass@{host}/?from=a@example.com&to=b@example.com&mode=insecure",
    "mailto://user:pass@{host}/?smtp=127.0.0.1&from=a@example.com&to=b@example.com&mode=insecure",
    "irc://user@{host}/#channel",
    "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#c?template=http://{host}/x",
    "discord://1234567890123456/abcdefghijklmnop?template=http://{host}/x",
]
OF_THIS_MACHINE = ["syslog://", "rsyslog://{host}", "dbus://", "gnome://", "macosx://", "windows://", "growl://{host}"]
FILES = [
    "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#c?template=/etc/passwd",
    "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#c?template=file:///etc/passwd",
    "discord://1234567890123456/abcdefghijklmnop?template=/etc/passwd",
]
TURNING = """
import socket
answers = iter({answers!r})
def look_up(host, port, *_, **__):
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers, {answers!r}[-1]), port))]
socket.getaddrinfo = look_up
from assay.channels.apprise_process import main
main()
"""


class Listener:
    """Hears of every connection and datagram on one port of this machine."""

    def __init__(self) -> None:
        self.heard = 0

    def connected(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heard += 1
        writer.close()


@pytest_asyncio.fixture
async def listener() -> AsyncIterator[tuple[Listener, int]]:
    listener = Listener()
    both = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    both.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    both.bind(("::", 0))
    port: int = both.getsockname()[1]
    server = await asyncio.start_server(listener.connected, sock=both)
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.setblocking(False)
    datagrams.bind(("127.0.0.1", port))

    def received() -> None:
        datagrams.recv(65536)
        listener.heard += 1

    asyncio.get_running_loop().add_reader(datagrams, received)
    yield listener, port
    asyncio.get_running_loop().remove_reader(datagrams)
    datagrams.close()
    server.close()


async def sent(url: str, notification: Notification | None = None, *, allow: tuple[str, ...] = ()) -> Told | NotTold:
    if url.startswith("webhook:"):
        messenger = WebhookMessenger(AddressGuard(allow), VAULT)
    else:
        messenger = AppriseMessenger(VAULT, allow)
    try:
        return await messenger.send(a_channel(url), notification or a_notification())
    finally:
        await messenger.close()


@pytest.mark.parametrize("host", HOSTS)
async def test_a_signed_webhook_to_this_machine_is_heard_by_nobody(listener: tuple[Listener, int], host: str) -> None:
    heard, port = listener
    assert isinstance(await sent(f"webhook:http://{host}:{port}/"), NotTold)
    assert heard.heard == 0


@pytest.mark.parametrize("host", HOSTS)
async def test_apprise_to_this_machine_is_heard_by_nobody_however_it_is_written(
    listener: tuple[Listener, int], host: str
) -> None:
    heard, port = listener
    assert isinstance(await sent(f"json://{host}:{port}/"), NotTold)
    assert heard.heard == 0


@pytest.mark.parametrize("url", TO_A_HOST + OF_THIS_MACHINE)
async def test_no_service_of_apprise_reaches_this_machine(listener: tuple[Listener, int], url: str) -> None:
    heard, port = listener
    assert isinstance(await sent(url.format(host=f"127.0.0.1:{port}")), NotTold)
    assert heard.heard == 0


@pytest.mark.parametrize("url", TO_A_HOST)
async def test_each_of_these_services_does_reach_this_machine_where_the_operator_allows_it(
    listener: tuple[Listener, int], url: str
) -> None:
    heard, port = listener
    await sent(url.format(host=f"127.0.0.1:{port}"), allow=LOOPBACK)
    assert heard.heard > 0


@pytest.mark.parametrize("url", OF_THIS_MACHINE)
async def test_a_service_of_this_machine_is_refused_even_where_loopback_is_allowed(
    listener: tuple[Listener, int], url: str
) -> None:
    heard, port = listener
    address = url.format(host=f"127.0.0.1:{port}")
    with pytest.raises(InvalidInputError):
        await AppriseMessenger(VAULT, LOOPBACK).shown(address, "default")
    assert isinstance(await sent(address, allow=LOOPBACK), NotTold)
    assert heard.heard == 0


@pytest.mark.parametrize(
    "address", ["169.254.169.254", "10.0.0.1", "192.168.0.1", "100.100.100.200", "[fd00:ec2::254]"]
)
async def test_metadata_and_private_addresses_are_not_even_tried(address: str) -> None:
    for url in (f"webhook:http://{address}/latest/meta-data", f"json://{address}/latest/meta-data"):
        result = await sent(url)
        assert isinstance(result, NotTold)
        assert "not at a public address" in result.cause


@pytest.mark.parametrize(
    "answers",
    [["127.0.0.1"], ["8.8.8.8", "127.0.0.1"], ["127.0.0.1", "8.8.8.8"]],
    ids="→".join,
)
async def test_a_name_that_turns_to_this_machine_is_heard_by_nobody(
    listener: tuple[Listener, int], answers: list[str]
) -> None:
    heard, port = listener
    question: dict[str, object] = {
        "url": f"json://turning.example.com:{port}/?cto=0.2&rto=0.2",
        "allow": [],
        "budget_s": 30,
        "title": "t",
        "body": "b",
        "severity": "low",
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-c", TURNING.format(answers=answers), stdin=PIPE, stdout=PIPE, stderr=PIPE, env={}
    )
    said, complaint = await process.communicate(json.dumps(question).encode())
    assert not json.loads(said or b"{}")["ok"], complaint
    assert heard.heard == 0


@pytest.mark.parametrize("url", FILES)
async def test_no_file_of_the_server_is_read_into_a_message(url: str) -> None:
    result = await sent(url, allow=("0.0.0.0/0",))
    assert isinstance(result, NotTold)
    assert "wants a file" in result.cause


async def test_a_redirect_to_another_service_of_this_machine_is_not_followed(listener: tuple[Listener, int]) -> None:
    heard, port = listener
    async with Endpoint(answering(status=302, Location=f"http://127.0.0.1:{port}/")) as endpoint:
        for url in (f"webhook:http://localhost:{endpoint.port}/", f"json://localhost:{endpoint.port}/"):
            assert isinstance(await sent(url, allow=("localhost",)), NotTold)
        assert len(endpoint.requests) == 2
    assert heard.heard == 0


@pytest.mark.parametrize(
    "text", ["x\r\nBcc: all@example.com", "x\nX-Evil: 1", "x\u2028y", "x\0y", "x\x1b[2Jy", "\ud800"]
)
async def test_what_an_evaluator_says_adds_no_header_and_no_line(text: str) -> None:
    event = an_event(evaluator_name=text, agent_name=text, reason=text)
    title = title_of(a_notification(event))
    assert title.replace("\u200b", "").isprintable()
    async with mail_server() as server:
        url = f"mailto://127.0.0.1:{server.port}/?from=assay@example.com&to=on.call@example.com&mode=insecure"
        assert await sent(url, a_notification(event), allow=LOOPBACK) == Told()
    (message,) = server.messages
    assert {"bcc", "x-evil"}.isdisjoint(name.lower() for name in message.keys())  # noqa: SIM118


@pytest.mark.parametrize("text", ["@everyone", "<!channel>", "<@U123>", "<https://evil.example|click>", "hey @here"])
def test_what_an_evaluator_says_calls_nobody(text: str) -> None:
    body = body_of(a_notification(an_event(reason=text, evaluator_name=text, agent_name=text)))
    assert text not in body
    assert text.replace("@", "@\u200b").replace("<", "<\u200b") in body


def test_a_reason_without_end_makes_no_message_without_end() -> None:
    events = [an_event(f"evt_{number}", reason="x" * 2000, evaluator_name="y" * 2000) for number in range(100)]
    notification = a_notification(*events)
    assert len(body_of(notification)) < 30_000
    assert len(title_of(notification)) <= 200


async def test_secrets_of_a_channel_are_no_argument_and_no_environment_of_the_process() -> None:
    seen: list[str] = []

    async def look(request: object, writer: asyncio.StreamWriter) -> None:
        seen.extend(_processes())
        await answering()(request, writer)  # pyright: ignore[reportArgumentType]

    async with Endpoint(look) as endpoint:
        assert await sent(f"json://user:passw0rd-x@127.0.0.1:{endpoint.port}/", allow=LOOPBACK) == Told()
    assert any("apprise_process" in text for text in seen)
    assert not any("passw0rd-x" in text for text in seen)


def _processes() -> list[str]:
    folders = [folder for folder in Path("/proc").iterdir() if folder.name.isdigit()]
    return [_read(folder / "cmdline") + _read(folder / "environ") for folder in folders]


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""

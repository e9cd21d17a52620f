"""Attacks through the URL of an external evaluator: whatever it says, a listener on this machine hears nothing."""

import asyncio
import socket
from collections.abc import AsyncIterator
from ipaddress import ip_address
from typing import Any

import pytest
import pytest_asyncio

from assay.domain.outcome import Call, Limits, Raised, Returned
from assay.errors import ConfigurationError
from assay.guarded_http.address_guard import AddressGuard
from assay.guarded_http.target import masked
from assay.runners.webhook.runner import WebhookRunner
from support.endpoint import Endpoint, Request, answering, external, failure_of, outcomes_of, returned_by
from support.notifications import VAULT

ELSEWHERE = "192.0.2.1"
IMPATIENT = Limits(wall_s=0.5)

LOOPBACK_URLS = [
    "http://127.0.0.1:{port}/",
    "http://127.0.0.2:{port}/",
    "http://127.1:{port}/",
    "http://127.0.1:{port}/",
    "http://2130706433:{port}/",
    "http://0x7f000001:{port}/",
    "http://0x7f.0.0.1:{port}/",
    "http://0x7F.1:{port}/",
    "http://017700000001:{port}/",
    "http://0177.0.0.1:{port}/",
    "http://0177.0.0.01:{port}/",
    "http://00000177.0.0.1:{port}/",
    "http://127.000.000.001:{port}/",
    "http://0x7f.0.0x0.01:{port}/",
    "http://127.0.0.1.:{port}/",
    "http://0.0.0.0:{port}/",
    "http://0:{port}/",
    "http://0x0:{port}/",
    "http://00.00.00.00:{port}/",
    "http://[::1]:{port}/",
    "http://[0:0:0:0:0:0:0:1]:{port}/",
    "http://[0000:0000:0000:0000:0000:0000:0000:0001]:{port}/",
    "http://[::]:{port}/",
    "http://[::127.0.0.1]:{port}/",
    "http://[::ffff:127.0.0.1]:{port}/",
    "http://[::ffff:7f00:1]:{port}/",
    "http://[0:0:0:0:0:ffff:127.0.0.1]:{port}/",
    "http://[::FFFF:0.0.0.0]:{port}/",
    "http://[::ffff:0:127.0.0.1]:{port}/",
    "http://[64:ff9b::127.0.0.1]:{port}/",
    "http://[64:ff9b:1::127.0.0.1]:{port}/",
    "http://[2002:7f00:1::]:{port}/",
    "http://[fe80::1%25lo]:{port}/",
    "http://localhost:{port}/",
    "http://LOCALHOST:{port}/",
    "http://localhost.:{port}/",
    "http://a.localhost:{port}/",
    "http://ip6-localhost:{port}/",
    "http://127.0.0.1.nip.example:{port}/",
    "http://user@127.0.0.1:{port}/",
    "http://user:pass@127.0.0.1:{port}/",
    "http://example.com@127.0.0.1:{port}/",
    "http://example.com%40127.0.0.1:{port}/",
    "http://127.0.0.1:{port}@127.0.0.1:{port}/",
    "http://127.0.0.1:{port}\\@example.invalid/",
    "http://example.invalid\\@127.0.0.1:{port}/",
    "http://127.0.0.1:{port}#@example.invalid/",
    "http://127.0.0.1:{port}?@example.invalid/",
    "http://127。0。0。1:{port}/",
    "http://127．0．0．1:{port}/",
    "http://①②⑦.⓪.⓪.①:{port}/",
    "http://１２７.0.0.1:{port}/",
    "http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ:{port}/",
    "http://loc\u00adalhost:{port}/",
    "http://%31%32%37.0.0.1:{port}/",
    "http://%6c%6f%63%61%6c%68%6f%73%74:{port}/",
    "http://127.0.0.1%00.example.invalid:{port}/",
    "http://127.0.0.1%2f.example.invalid:{port}/",
    "http://127.0.0.1%09:{port}/",
    "http:\\\\127.0.0.1:{port}/",
    "http:/127.0.0.1:{port}/",
    "http:127.0.0.1:{port}/",
    "//127.0.0.1:{port}/",
    "HTTPS://127.0.0.1:{port}/",
    " http://127.0.0.1:{port}/",
    "http://127.0.0.1:{port}\r\nHost: example.invalid/",
    "file://127.0.0.1:{port}/",
    "gopher://127.0.0.1:{port}/_POST",
    "http+unix://127.0.0.1:{port}/",
    "unix:/tmp/socket",
    "http://:{port}/",
    "http://..:{port}/",
    "http://127.0.0.1:{port}0000/",
    "http://[::1:{port}/",
    "",
]

NEVER_CALLED = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "100.100.100.200",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.169.254",
    "169.254.170.2",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "233.252.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:0:10.0.0.1",
    "64:ff9b::10.0.0.1",
    "64:ff9b::169.254.169.254",
    "64:ff9b:1::8.8.8.8",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:a00:1::",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fd20:ce::254",
    "fe80::1",
    "fe80::a9fe:a9fe%eth0",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
]


class Listener:
    """Listens on every address of this machine, and counts who came."""

    def __init__(self, server: asyncio.Server, counter: list[int]) -> None:
        self.port: int = server.sockets[0].getsockname()[1]
        self._counter = counter

    async def heard_nothing(self) -> bool:
        """Connect once, so that whoever came before has been counted; return whether nobody had."""
        (outcome,) = await outcomes_of(f"http://127.0.0.1:{self.port}/control", allow=("127.0.0.1",))
        assert isinstance(outcome, Returned), outcome
        count, self._counter[0] = self._counter[0], 0
        return count == 1


@pytest_asyncio.fixture
async def listener() -> AsyncIterator[Listener]:
    counter = [0]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        counter[0] += 1
        await reader.readuntil(b"\r\n\r\n")
        await answering(connection="close")(Request(line="", headers={}, body=b""), writer)
        await writer.drain()
        writer.close()

    if socket.has_dualstack_ipv6():
        heard = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    else:
        heard = socket.create_server(("", 0))
    server = await asyncio.start_server(answer, sock=heard)
    yield Listener(server, counter)
    server.close()


class Resolver:
    """Answers each look-up with the next of these lists of addresses, and then with the last again and again."""

    def __init__(self, *answers: list[str]) -> None:
        self.asked: list[str] = []
        self._answers = list(answers)

    def __call__(self, host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        self.asked.append(host)
        addresses = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return [
            (socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
            for address in addresses
        ]


@pytest.mark.parametrize("url", LOOPBACK_URLS)
async def test_no_way_of_writing_it_reaches_this_machine(url: str, listener: Listener) -> None:
    (outcome,) = await outcomes_of(url.replace("{port}", str(listener.port)), allow=(), limits=IMPATIENT)
    assert isinstance(outcome, Raised)
    assert outcome.kind in ("blocked_address", "connection")
    assert await listener.heard_nothing()


@pytest.mark.parametrize("url", [url for url in LOOPBACK_URLS if url.startswith("http://127.")][:4])
async def test_the_same_urls_do_reach_it_where_the_operator_allows_them(url: str, listener: Listener) -> None:
    assert await returned_by(url.replace("{port}", str(listener.port)), allow=("127.0.0.0/8",)) == {"matches": True}
    assert not await listener.heard_nothing()


@pytest.mark.parametrize("own", ["hostname", "address"])
async def test_this_machines_own_name_and_private_address_are_not_reached(own: str, listener: Listener) -> None:
    host = socket.gethostname()
    if own == "address":
        try:
            host = socket.gethostbyname(host)
        except OSError:
            pytest.skip("this machine's name has no address")
    if own == "address" and ip_address(host).is_global:
        pytest.skip("this machine is at a public address")
    failure = await failure_of(f"http://{host}:{listener.port}/", allow=(), limits=IMPATIENT)
    assert failure.kind in ("blocked_address", "connection")
    assert await listener.heard_nothing()


@pytest.mark.parametrize("address", NEVER_CALLED)
def test_an_address_that_leads_inside_is_never_called(address: str) -> None:
    assert not AddressGuard().allows("endpoint.example", ip_address(address))


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "1.1.1.1", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"]
)
def test_a_public_address_is_called(address: str) -> None:
    assert AddressGuard().allows("endpoint.example", ip_address(address))


async def test_a_name_that_leads_to_this_machine_is_not_called(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", Resolver(["127.0.0.1"]))
        failure = await failure_of(f"http://endpoint.example:{listener.port}/?token=s3cret", allow=())
    assert failure.kind == "blocked_address"
    assert failure.message == (
        f"http://endpoint.example:{listener.port}/?… is not at a public address, "
        "and the operator has not allowed it; nothing was sent."
    )
    assert await listener.heard_nothing()


async def test_a_name_is_looked_up_once_an_attempt_and_called_at_the_address_that_was_judged(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolver = Resolver([ELSEWHERE], ["127.0.0.1"])
    url = f"http://rebinding.example:{listener.port}/"
    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", resolver)
        kinds = [(await failure_of(url, allow=(ELSEWHERE,), limits=IMPATIENT)).kind for _ in range(3)]
    assert kinds[0] in ("timeout", "connection")
    assert kinds[1:] == ["blocked_address", "blocked_address"]
    assert resolver.asked == ["rebinding.example"] * 3
    assert await listener.heard_nothing()


async def test_a_repeated_attempt_is_judged_anew(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unheard:
        closed_port = unheard.getsockname()[1]
    resolver = Resolver(["127.0.0.9"], ["127.0.0.1"])
    runner = WebhookRunner(AddressGuard(["127.0.0.9"]), VAULT)
    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", resolver)
        url = f"http://rebinding.example:{closed_port}/"
        (outcome,) = await runner.execute(external(url), [Call(arguments=(b"{}",))], Limits())
    await runner.close()
    assert isinstance(outcome, Raised)
    assert outcome.kind == "blocked_address"
    assert len(resolver.asked) == 2
    assert await listener.heard_nothing()


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1", ELSEWHERE],
        [ELSEWHERE, "127.0.0.1"],
        ["::1", "::ffff:127.0.0.1", ELSEWHERE, "127.0.0.1"],
    ],
)
async def test_of_several_addresses_only_those_allowed_are_tried(
    addresses: list[str], listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", Resolver(addresses))
        failure = await failure_of(
            f"http://several.example:{listener.port}/", allow=(ELSEWHERE,), limits=Limits(wall_s=0.3)
        )
    assert failure.kind in ("timeout", "connection")
    assert await listener.heard_nothing()


async def test_the_next_address_is_tried_when_one_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Endpoint(answering()) as endpoint:
        monkeypatch.setattr(socket, "getaddrinfo", Resolver(["127.0.0.9", "127.0.0.1"]))
        assert await returned_by(f"http://several.example:{endpoint.port}/") == {"matches": True}


@pytest.mark.parametrize(
    ("allow", "host"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.0/8", "127.0.0.1"),
        (" 127.0.0.0/8 ", "2130706433"),
        ("127.0.0.1", "[::ffff:127.0.0.1]"),
        ("::ffff:127.0.0.1", "[::ffff:127.0.0.1]"),
        ("localhost", "localhost"),
        ("LocalHost.", "localhost"),
    ],
)
async def test_the_operator_allows_by_address_range_and_host(allow: str, host: str, listener: Listener) -> None:
    assert await returned_by(f"http://{host}:{listener.port}/", allow=(allow,)) == {"matches": True}


def test_a_host_is_the_same_with_capitals_and_a_final_dot() -> None:
    assert AddressGuard(["endpoint.example"]).allows("ENDPOINT.example.", ip_address("10.0.0.1"))
    assert not AddressGuard(["endpoint.example"]).allows("an.endpoint.example", ip_address("10.0.0.1"))


@pytest.mark.parametrize(
    ("allow", "host"),
    [
        ("10.0.0.0/8", "127.0.0.1"),
        ("localhost", "127.0.0.1"),
        ("localhost", "a.localhost"),
        ("127.0.0.2", "127.0.0.1"),
        ("::1", "127.0.0.1"),
    ],
)
async def test_what_is_allowed_opens_nothing_beside_it(allow: str, host: str, listener: Listener) -> None:
    failure = await failure_of(f"http://{host}:{listener.port}/", allow=(allow,))
    assert failure.kind in ("blocked_address", "connection")
    assert await listener.heard_nothing()


@pytest.mark.parametrize(
    "entry", ["", "http://localhost", "*", "*.example.com", "10.0.0.0/33", "10.0.0.1/8", "010.0.0.1", "a@b", "1.2"]
)
def test_an_entry_that_is_no_host_address_or_range_is_refused_at_the_start(entry: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be allowed for endpoints"):
        AddressGuard([entry])


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://h/p?token=s3cret", "https://h/p?…"),
        ("https://h/p?token=s3cret#s3cret", "https://h/p?…"),
        ("https://h/p#s3cret?s3cret", "https://h/p"),
        ("https://s3cret:s3cret@h:8080/p", "https://h:8080/p"),
        ("https://s3cret@s3cret@h/p", "https://h/p"),
        ("https://h?s3cret", "https://h?…"),
        ("https://h/a@b", "https://h/a@b"),
        ("s3cret:s3cret@h", "h"),
        ("", ""),
    ],
)
def test_a_url_is_shown_without_what_may_be_secret(url: str, shown: str) -> None:
    assert masked(url) == shown


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1/?token=s3cret",
        "http://127.0.0.1:1x/?token=s3cret",
        "http://no-such-host.invalid/?token=s3cret",
        "http://user:s3cret@127.0.0.1:1/",
        "ftp://user:s3cret@127.0.0.1/?s3cret",
        "//user:s3cret@127.0.0.1/?s3cret",
        "user:s3cret@127.0.0.1/?s3cret",
    ],
)
async def test_no_message_holds_a_token(url: str) -> None:
    for allow in ((), ("127.0.0.1",)):
        assert "s3cret" not in repr(await failure_of(url, allow=allow))

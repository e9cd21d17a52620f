"""One exchange with an endpoint, good or hostile, over real sockets."""

import asyncio
import gzip
import json
import socket
import ssl
import threading
import zlib
from contextlib import suppress
from pathlib import Path

import pytest

from assay.domain.outcome import Call, Limits, Returned
from assay.guarded_http.address_guard import AddressGuard
from assay.runners.webhook.runner import WebhookRunner
from support.endpoint import (
    LOOPBACK,
    MATCHES,
    Behaviour,
    Endpoint,
    Request,
    answering,
    dripping,
    external,
    failure_of,
    outcomes_of,
    returned_by,
    sending,
    silent,
)
from support.notifications import VAULT

CERTIFICATE = Path(__file__).parent / "loopback.pem"
MEBIBYTE = 1024 * 1024
IMPATIENT = Limits(wall_s=0.4)
HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


def tls_server(*, client_certificate: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    if client_certificate:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(CERTIFICATE)
    return context


async def test_the_trace_is_posted_as_json_and_the_answer_comes_back() -> None:
    async with Endpoint(answering(b'{"matches": true, "score": 7.5}')) as endpoint:
        (outcome,) = await outcomes_of(f"{endpoint.url}?token=a%2Fb+c", b'{"q":"\xc3\xa9"}')
    assert isinstance(outcome, Returned)
    assert outcome.value == {"matches": True, "score": 7.5}
    assert outcome.duration_s > 0
    (request,) = endpoint.requests
    assert (request.line, request.body) == ("POST /score?token=a%2Fb+c HTTP/1.1", b'{"q":"\xc3\xa9"}')
    assert request.headers["content-type"] == "application/json"
    assert request.headers["host"] == f"127.0.0.1:{endpoint.port}"


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "text/html; charset=utf-16", "", "?"])
async def test_json_counts_whatever_the_content_type_says(content_type: str) -> None:
    async with Endpoint(answering(content_type=content_type)) as endpoint:
        assert await returned_by(endpoint.url) == {"matches": True}


@pytest.mark.parametrize("status", [200, 201, 202, 203, 206, 299])
async def test_any_2xx_is_an_answer(status: int) -> None:
    async with Endpoint(answering(status=status)) as endpoint:
        assert await returned_by(endpoint.url) == {"matches": True}


@pytest.mark.parametrize("status", [400, 401, 404, 418, 500, 599, 999])
async def test_any_other_status_is_told_and_its_body_never_counts(status: int) -> None:
    async with Endpoint(answering(status=status)) as endpoint:
        failure = await failure_of(endpoint.url)
    assert failure.kind == "http_status"
    assert f"answered {status}" in failure.message


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_reported_without_its_secrets_and_not_followed(status: int) -> None:
    async with Endpoint(answering()) as elsewhere:
        location = f"{elsewhere.url}?token=s3cret"
        async with Endpoint(answering(status=status, location=location)) as endpoint:
            failure = await failure_of(endpoint.url)
        assert elsewhere.connections == 0
    assert failure.kind == "redirect"
    assert f"answered {status} and points to {elsewhere.url}?…;" in failure.message


async def test_a_redirect_to_nowhere_or_to_far_too_long_a_place_is_a_short_message() -> None:
    for behaviour in (answering(status=302), answering(status=302, location="http://x/" + "y" * 20_000)):
        async with Endpoint(behaviour) as endpoint:
            failure = await failure_of(endpoint.url)
        assert failure.kind == "redirect"
        assert len(failure.message) < 500


@pytest.mark.parametrize(
    "behaviour",
    [
        pytest.param(silent, id="never answers"),
        pytest.param(dripping(HEAD + b"X-Long: ", b"a"), id="drips a header"),
        pytest.param(dripping(HEAD + b"Content-Length: 100000\r\n\r\n", b" "), id="drips a body"),
        pytest.param(dripping(CHUNKED, b"1\r\n \r\n"), id="drips chunks"),
        pytest.param(dripping(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), id="says to continue without end"),
        pytest.param(sending(HEAD + b'Content-Length: 100\r\n\r\n{"matches": true}'), id="stops in the body"),
        pytest.param(sending(HEAD + b'\r\n{"matches": true}'), id="never ends a body without a length"),
    ],
)
async def test_the_budget_is_for_the_whole_exchange(behaviour: Behaviour) -> None:
    async with Endpoint(behaviour) as endpoint:
        failure = await failure_of(endpoint.url, limits=IMPATIENT)
    assert failure.kind == "timeout"
    assert failure.message == f"{endpoint.url} did not answer within 0.4 s."
    assert failure.duration_s >= 0.4


async def test_an_endpoint_that_reads_nothing_runs_out_of_the_budget_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        (outcome,) = await outcomes_of(url, b" " * 6 * MEBIBYTE, limits=IMPATIENT)
    assert getattr(outcome, "kind", None) == "timeout"


async def test_a_closed_port_is_a_connection_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    failure = await failure_of(f"http://127.0.0.1:{port}/score?token=s3cret")
    assert failure.kind == "connection"
    assert failure.message.startswith(f"http://127.0.0.1:{port}/score?… cannot be reached: ")


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"", id="closes at once"),
        pytest.param(HEAD, id="closes in the headers"),
        pytest.param(HEAD + b'Content-Length: 100\r\n\r\n{"matches": true}', id="closes in the body"),
        pytest.param(CHUNKED + b"5\r\n{}", id="closes in a chunk"),
        pytest.param(CHUNKED + b"zz\r\n{}\r\n0\r\n\r\n", id="a chunk without a length"),
        pytest.param(HEAD + b"Content-Length: -5\r\n\r\n{}", id="a negative length"),
        pytest.param(HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} ", id="two lengths"),
        pytest.param(b"SSH-2.0-OpenSSH_9.6\r\n" + b"x" * 500, id="speaks something else"),
        pytest.param(HEAD + b"X: " + b"a" * 300_000 + b"\r\n\r\n", id="a header without end"),
    ],
)
async def test_a_broken_answer_is_a_connection_failure_told_briefly(raw: bytes) -> None:
    async with Endpoint(sending(raw, closing=True)) as endpoint:
        failure = await failure_of(endpoint.url)
    assert failure.kind == "connection"
    assert len(failure.message) < 400


async def test_a_reset_in_the_body_is_a_connection_failure() -> None:
    async def reset(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"Content-Length: 100\r\n\r\n{")
        await writer.drain()
        writer.transport.abort()

    async with Endpoint(reset) as endpoint:
        assert (await failure_of(endpoint.url)).kind == "connection"


async def test_an_answer_before_the_request_is_read_still_counts() -> None:
    async def answer_early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.write_eof()
        while await reader.read(65536):
            pass
        writer.close()

    server = await asyncio.start_server(answer_early, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    (outcome,) = await outcomes_of(url, b" " * 5 * MEBIBYTE)
    server.close()
    assert getattr(outcome, "kind", None) == "http_status"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html><title>Sign in</title></html>",
        b'{"matches": true',
        b'{"matches": true} {}',
        b'{"matches": true, "score": NaN}',
        b'{"matches": true, "score": 1e400}',
        b'{"matches": true, "reason": "\xff"}',
        '{"matches": true}'.encode("utf-16"),
        pytest.param(b"[" * 100_000 + b"]" * 100_000, id="too deep to be read"),
    ],
)
async def test_what_is_not_json_is_told_with_its_beginning(body: bytes) -> None:
    async with Endpoint(answering(body, content_type="application/json")) as endpoint:
        failure = await failure_of(endpoint.url)
    assert failure.kind == "not_json"
    assert len(failure.message) < 600


async def test_a_byte_order_mark_is_taken_off() -> None:
    async with Endpoint(answering(b"\xef\xbb\xbf" + MATCHES)) as endpoint:
        assert await returned_by(endpoint.url) == {"matches": True}


async def test_an_answer_of_exactly_the_limit_counts_and_one_byte_more_does_not() -> None:
    whole = MATCHES + b" " * (MEBIBYTE - len(MATCHES))
    async with Endpoint(answering(whole)) as endpoint:
        assert await returned_by(endpoint.url) == {"matches": True}
    async with Endpoint(answering(whole + b" ")) as endpoint:
        assert (await failure_of(endpoint.url)).kind == "too_large"


async def test_a_body_without_end_is_left_at_the_limit() -> None:
    sent = 0

    async def pour(_: Request, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(HEAD + b"\r\n")
        while True:
            writer.write(b" " * 65536)
            await writer.drain()
            sent += 65536

    async with Endpoint(pour) as endpoint:
        assert (await failure_of(endpoint.url)).kind == "too_large"
    assert sent < 32 * MEBIBYTE


async def test_compression_is_not_asked_for_yet_gzip_is_understood() -> None:
    async with Endpoint(answering(gzip.compress(MATCHES), content_encoding="gzip")) as endpoint:
        assert await returned_by(endpoint.url) == {"matches": True}
    assert endpoint.requests[0].headers["accept-encoding"] == "identity"


async def test_the_limit_counts_after_decompression() -> None:
    async with Endpoint(answering(gzip.compress(b" " * 64 * MEBIBYTE, 9), content_encoding="gzip")) as endpoint:
        assert (await failure_of(endpoint.url)).kind == "too_large"


@pytest.mark.parametrize(
    ("encoding", "body", "told"),
    [
        ("gzip", MATCHES, "not gzip"),
        ("gzip", gzip.compress(MATCHES)[:-9], "ends too early"),
        ("gzip", b"", "ends too early"),
        ("deflate", zlib.compress(MATCHES), "'deflate'"),
        ("br", MATCHES, "'br'"),
        ("gzip, gzip", gzip.compress(gzip.compress(MATCHES)), "'gzip, gzip'"),
    ],
    ids=["no gzip", "gzip cut short", "no body", "deflate", "brotli", "gzip twice"],
)
async def test_another_or_a_broken_encoding_is_named(encoding: str, body: bytes, told: str) -> None:
    async with Endpoint(answering(body, content_encoding=encoding)) as endpoint:
        failure = await failure_of(endpoint.url)
    assert failure.kind == "not_json"
    assert told in failure.message


async def test_a_trace_above_the_payload_limit_is_not_sent() -> None:
    async with Endpoint(answering()) as endpoint:
        (outcome,) = await outcomes_of(endpoint.url, b" " * 11, limits=Limits(payload_bytes=10))
    assert getattr(outcome, "kind", None) == "too_large"
    assert endpoint.connections == 0


async def test_a_certificate_that_nobody_vouches_for_is_a_tls_failure_and_nothing_is_sent() -> None:
    async with Endpoint(answering(), tls=tls_server()) as endpoint:
        failure = await failure_of(endpoint.url)
    assert failure.kind == "tls"
    assert "self-signed certificate" in failure.message
    assert endpoint.requests == []


@pytest.fixture
def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))


@pytest.mark.usefixtures("trusting")
async def test_a_good_certificate_is_asked_for_its_host() -> None:
    async with Endpoint(answering(), tls=tls_server()) as endpoint:
        assert await returned_by(endpoint.url) == {"matches": True}
        failure = await failure_of(endpoint.url.replace("127.0.0.1", "127.0.0.2"))
        assert failure.kind in ("tls", "connection")


@pytest.mark.usefixtures("trusting")
async def test_an_endpoint_that_wants_a_certificate_of_ours_is_a_tls_failure() -> None:
    answered = threading.Event()

    def refuse(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        tls = tls_server(client_certificate=True).wrap_socket(
            connection, server_side=True, do_handshake_on_connect=False
        )
        with tls:
            with suppress(ssl.SSLError):
                tls.do_handshake()
            answered.wait(10)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        refusing = asyncio.create_task(asyncio.to_thread(refuse, listener))
        failure = await failure_of(f"https://127.0.0.1:{listener.getsockname()[1]}/")
        answered.set()
        await refusing
    assert failure.kind == "tls"


async def test_plain_http_behind_an_https_url_is_a_tls_failure() -> None:
    async with Endpoint(silent) as endpoint:
        url = endpoint.url.replace("http:", "https:")
        assert (await failure_of(url, limits=IMPATIENT)).kind == "timeout"

    async def speak_first(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()

    server = await asyncio.start_server(speak_first, "127.0.0.1", 0)
    failure = await failure_of(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    server.close()
    assert failure.kind == "tls"


async def test_outcomes_of_many_calls_are_in_their_order_and_one_failure_spoils_no_other() -> None:
    async def echo(request: Request, writer: asyncio.StreamWriter) -> None:
        number = request.json
        await asyncio.sleep(0.01 * (number % 3))
        status = 500 if number % 10 == 0 else 200
        body = json.dumps({"matches": True, "number": number}).encode()
        await answering(body, status=status)(request, writer)

    async with Endpoint(echo) as endpoint:
        outcomes = await outcomes_of(endpoint.url, *(str(number).encode() for number in range(1, 101)))
    numbers = [outcome.value for outcome in outcomes if isinstance(outcome, Returned)]
    assert numbers == [{"matches": True, "number": number} for number in range(1, 101) if number % 10]
    assert [getattr(outcome, "kind", "") for outcome in outcomes[9::10]] == ["http_status"] * 10


async def test_an_endpoint_has_at_most_eight_calls_at_once_over_connections_that_are_kept() -> None:
    async def slowly(request: Request, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.02)
        await answering()(request, writer)

    async with Endpoint(slowly) as endpoint:
        runner = WebhookRunner(AddressGuard(LOOPBACK), VAULT)
        calls = [Call(arguments=(b"{}",))] * 20
        revision = external(endpoint.url)
        both = await asyncio.gather(*(runner.execute(revision, calls, Limits()) for _ in range(2)))
        await runner.close()
    assert [len(outcomes) for outcomes in both] == [20, 20]
    assert all(isinstance(outcome, Returned) for outcomes in both for outcome in outcomes)
    assert endpoint.most_at_once == 8
    assert endpoint.connections <= 8


async def test_endpoints_that_hang_take_nothing_from_one_that_answers() -> None:
    all_hang = asyncio.Event()

    async def hang(_: Request, __: asyncio.StreamWriter) -> None:
        if hanging.at_once == 160:
            all_hang.set()
        await asyncio.Event().wait()

    async with Endpoint(hang) as hanging, Endpoint(answering()) as healthy:
        runner = WebhookRunner(AddressGuard(LOOPBACK), VAULT)
        calls = [Call(arguments=(b"{}",))] * 8
        stuck = [
            asyncio.create_task(runner.execute(external(f"{hanging.url}/{number}"), calls, Limits(wall_s=60)))
            for number in range(20)
        ]
        await asyncio.wait_for(all_hang.wait(), 30)
        outcomes = await runner.execute(external(healthy.url), calls, Limits())
        for task in stuck:
            task.cancel()
        await asyncio.gather(*stuck, return_exceptions=True)
        await runner.close()
    assert all(isinstance(outcome, Returned) for outcome in outcomes)


async def test_a_name_server_that_hangs_takes_nothing_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    patience = threading.Event()
    look_up = socket.getaddrinfo

    def hang(host: str, *rest: object, **options: object):
        if host == "slow.example":
            patience.wait(30)
            raise socket.gaierror
        return look_up(host, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    async with Endpoint(answering()) as healthy:
        runner = WebhookRunner(AddressGuard(LOOPBACK), VAULT)
        calls = [Call(arguments=(b"{}",))] * 8
        slow = [
            asyncio.create_task(
                runner.execute(external(f"http://slow.example/{number}", evaluator_id=""), calls, Limits())
            )
            for number in range(4)
        ]
        await asyncio.sleep(0.1)
        outcomes = await runner.execute(external(healthy.url), calls, Limits())
        patience.set()
        await asyncio.gather(*slow)
        await runner.close()
    assert all(isinstance(outcome, Returned) for outcome in outcomes)

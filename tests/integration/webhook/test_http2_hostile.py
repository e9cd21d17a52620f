"""An endpoint that agrees on HTTP/2 and then speaks something else ends its own call, with an error, and no other."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hpack import Encoder
from hyperframe.frame import Frame, GoAwayFrame, HeadersFrame, RstStreamFrame, SettingsFrame, WindowUpdateFrame

from assay.guarded_http.address_guard import AddressGuard
from assay.guarded_http.exchange import Exchange
from assay.guarded_http.failure import CallError
from support.endpoint import LOOPBACK

CERTIFICATE = Path(__file__).parent / "loopback.pem"
BUDGET_S = 1.0
STREAM = 1
LARGEST_WINDOW = 2**31 - 1


def headers(fields: Sequence[tuple[str, str]]) -> bytes:
    return headers_of(Encoder().encode(fields))


def headers_of(block: bytes) -> bytes:
    frame = HeadersFrame(STREAM, block)
    frame.flags.add("END_HEADERS")
    return frame.serialize()


def frame_of(kind: type[Frame], stream: int, **fields: object) -> bytes:
    frame = kind(stream)
    for name, value in fields.items():
        setattr(frame, name, value)
    return frame.serialize()


OK = headers([(":status", "200")])
WIDENED = frame_of(SettingsFrame, 0, settings={SettingsFrame.INITIAL_WINDOW_SIZE: LARGEST_WINDOW})


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(headers([(":status", "abc")]), id="a status in letters"),
        pytest.param(headers([(":status", "")]), id="an empty status"),
        pytest.param(headers([(":status", "²")]), id="a status in superscript"),
        pytest.param(headers([("x", "y")]), id="no status"),
        pytest.param(headers_of(b"\xff" * 8), id="a header block that ends nowhere"),
        pytest.param(b"\xff" * 200, id="bytes that are no frame"),
        pytest.param(OK + b"\xff" * 200, id="bytes that are no frame in the body"),
        pytest.param(OK + frame_of(RstStreamFrame, STREAM, error_code=2), id="a reset in the body"),
        pytest.param(frame_of(GoAwayFrame, 0, error_code=1), id="goodbye"),
        pytest.param(
            WIDENED + frame_of(WindowUpdateFrame, STREAM, window_increment=LARGEST_WINDOW),
            id="a window wider than there are numbers",
        ),
    ],
)
async def test_what_is_no_http_2_is_an_error_of_that_call(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    async with await speaking(answer) as server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/score?token=s3cret"
        exchange = Exchange(AddressGuard(LOOPBACK))
        try:
            with pytest.raises(CallError) as caught:
                await exchange.post(url, b"{}", headers=[], left_s=BUDGET_S, budget_s=BUDGET_S)
        finally:
            await exchange.close()
    assert caught.value.kind in ("connection", "timeout")
    assert "s3cret" not in str(caught.value)


async def speaking(answer: bytes) -> asyncio.Server:
    """Serve these bytes to whoever has agreed on HTTP/2 and posted something."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    context.set_alpn_protocols(["h2"])
    return await asyncio.start_server(after_the_request(answer), "127.0.0.1", 0, ssl=context)


def after_the_request(answer: bytes) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, ssl.SSLError):
            received = b""
            # The body of the request is its last frame but for what is acknowledged.
            while b"{}" not in received and (part := await reader.read(65536)):
                received += part
            writer.write(SettingsFrame(0).serialize() + answer)
            await writer.drain()
            while await reader.read(65536):
                pass
        writer.close()

    return serve

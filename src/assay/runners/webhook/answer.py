"""What an endpoint answered: a 2xx status, a body within the limit, and JSON in it."""

import zlib
from collections.abc import AsyncIterator

import httpcore2
import msgspec

from assay.domain.json_value import JsonValue
from assay.runners.webhook.failure import CallError
from assay.runners.webhook.target import masked

RESPONSE_BYTES = 1024 * 1024
OK = range(200, 300)
REDIRECTS = range(300, 400)
GZIP = frozenset({"gzip", "x-gzip"})
GZIP_WINDOW = 16 + zlib.MAX_WBITS
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
SHOWN = 60


def demand_success(response: httpcore2.Response, shown: str) -> None:
    """Raise CallError unless the status is 2xx; a redirect is reported with where it points."""
    if response.status in OK:
        return
    if response.status in REDIRECTS:
        where = masked(header(response, b"location") or "nowhere")
        raise CallError(
            "redirect",
            f"{shown} answered {response.status} and points to {where}; "
            "redirects are not followed, so give the final URL.",
        )
    raise CallError("http_status", f"{shown} answered {response.status}; only 2xx counts as an answer.")


async def read_body(response: httpcore2.Response, shown: str) -> bytes:
    """Return the whole body, decompressed if it came as gzip; little more than 1 MiB is ever held."""
    encoding = header(response, b"content-encoding").strip().lower()
    parts = response.aiter_stream()
    if encoding in GZIP:
        return await _bounded(_inflated(parts, shown), shown)
    if encoding in ("", "identity"):
        return await _bounded(parts, shown)
    raise CallError(
        "not_json", f"{shown} answered with the content encoding {encoding[:40]!r}; allowed are gzip and none."
    )


def json_of(body: bytes, shown: str) -> JsonValue:
    """Return the body as JSON, whatever its content type was."""
    try:
        return msgspec.json.decode(body.removeprefix(BYTE_ORDER_MARK))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        found = body[:SHOWN].decode("utf-8", "replace")
        raise CallError("not_json", f"{shown} answered something that is not JSON: {found!r}.") from error


def header(response: httpcore2.Response, wanted: bytes) -> str:
    """Return the first header of this lower-case name, empty when there is none."""
    return next((value.decode("latin-1") for name, value in response.headers if name.lower() == wanted), "")


async def _bounded(parts: AsyncIterator[bytes], shown: str) -> bytes:
    body = bytearray()
    async for part in parts:
        body += part
        if len(body) > RESPONSE_BYTES:
            raise CallError("too_large", f"{shown} answered more than {RESPONSE_BYTES} bytes, which is the limit.")
    return bytes(body)


async def _inflated(parts: AsyncIterator[bytes], shown: str) -> AsyncIterator[bytes]:
    """Yield what was compressed, in pieces no larger than the limit, so that a bomb is noticed before it opens."""
    inflater = zlib.decompressobj(GZIP_WINDOW)
    try:
        async for part in parts:
            waiting = part
            while waiting and not inflater.eof:
                yield inflater.decompress(waiting, RESPONSE_BYTES)
                waiting = inflater.unconsumed_tail
    except zlib.error as error:
        raise CallError("not_json", f"{shown} answered something that is not gzip, though it says so.") from error
    if not inflater.eof:
        raise CallError("not_json", f"{shown} answered gzip that ends too early.")

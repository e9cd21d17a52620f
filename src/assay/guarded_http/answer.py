"""What an endpoint answered: a 2xx status, a body within the limit, and JSON in it."""

import time
import zlib
from collections.abc import AsyncIterator
from email.utils import parsedate_to_datetime

import httpcore2
import msgspec

from assay.domain.json_value import JsonValue
from assay.guarded_http.failure import LONGEST_WAIT_S, CallError
from assay.guarded_http.target import masked

RESPONSE_BYTES = 1024 * 1024
OK = range(200, 300)
REDIRECTS = range(300, 400)
PASSING = frozenset({429, 502, 503, 504})
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
    asked_s = _retry_after_s(header(response, b"retry-after"))
    raise CallError(
        "http_status",
        f"{shown} answered {response.status}; only 2xx counts as an answer.",
        passing=response.status in PASSING and (asked_s or 0) <= LONGEST_WAIT_S,
        retry_after_s=asked_s,
    )


async def read_body(response: httpcore2.Response, shown: str, body: bytearray) -> bytes:
    """Return the whole body, decompressed if it came as gzip; little more than 1 MiB is ever held.

    What has come so far is in `body`, whatever happens.
    """
    encoding = header(response, b"content-encoding").strip().lower()
    parts = response.aiter_stream()
    if encoding in GZIP:
        return await _bounded(_inflated(parts, shown), shown, body)
    if encoding in ("", "identity"):
        return await _bounded(parts, shown, body)
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


def _retry_after_s(text: str) -> float | None:
    """Return the seconds that a Retry-After asks for, as a number or as a date; None when it is neither."""
    if text.strip().isdecimal():
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, moment.timestamp() - time.time())


async def _bounded(parts: AsyncIterator[bytes], shown: str, body: bytearray) -> bytes:
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

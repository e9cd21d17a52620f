"""Request bodies: inflated within limits, so that a small body can never become a large one in memory."""

import zlib
from dataclasses import dataclass

from assay.errors import InvalidInputError, PayloadTooLargeError, UnsupportedMediaTypeError

GZIP_WINDOW = zlib.MAX_WBITS | 16
MEBIBYTE = 1024 * 1024
PIECE_BYTES = 64 * 1024
MOST_MEMBERS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyLimits:
    """How large a body may be, in bytes as sent and once inflated, and how much it may hold.

    `values` bounds all objects, lists, and members of either: in memory each is many times as large as its bytes.
    """

    wire_bytes: int = 16 * MEBIBYTE
    decompressed_bytes: int = 64 * MEBIBYTE
    spans: int = 10_000
    values: int = 2_000_000


def plain_body(body: bytes, content_encoding: str | None, limits: BodyLimits) -> bytes:
    """Return the body without its content encoding.

    Raises PayloadTooLargeError above a limit, UnsupportedMediaTypeError for an encoding other than gzip and
    identity, InvalidInputError for gzip data that is damaged, cut short, followed by something else or in more than
    64 members.
    """
    if len(body) > limits.wire_bytes:
        raise PayloadTooLargeError(f"The body has {len(body)} bytes; the limit is {limits.wire_bytes}.")
    encoding = (content_encoding or "identity").strip().lower()
    if encoding == "gzip":
        return _gunzip(body, limits.decompressed_bytes)
    if encoding not in ("identity", ""):
        raise UnsupportedMediaTypeError(f"Content-Encoding is {encoding!r}; allowed are gzip and identity.")
    if len(body) > limits.decompressed_bytes:
        raise PayloadTooLargeError(f"The body has {len(body)} bytes; the limit is {limits.decompressed_bytes}.")
    return body


def demand_spans(count: int, limits: BodyLimits) -> None:
    """Raise PayloadTooLargeError for more spans than a request may have."""
    if count > limits.spans:
        raise PayloadTooLargeError(
            f"The request holds {count} spans; at most {limits.spans} are allowed. Send smaller batches."
        )


def demand_repeated(size: int, what: str, limits: BodyLimits) -> None:
    """Raise PayloadTooLargeError when the copies of what is kept with each span exceed the limit of a body."""
    if size > limits.decompressed_bytes:
        raise PayloadTooLargeError(
            f"{what}, which are kept with every span, would take {size} bytes; at most {limits.decompressed_bytes} "
            "are allowed. Send fewer of them, or fewer spans at a time."
        )


def too_many_values(most: int) -> PayloadTooLargeError:
    """Return the refusal of a body with too many values."""
    return PayloadTooLargeError(f"The body holds more than {most} values, which is the limit. Send smaller batches.")


def _gunzip(body: bytes, limit: int) -> bytes:
    """Inflate piece by piece, since what follows the end of a member is copied whenever one ends."""
    parts: list[bytes] = []
    left = limit
    at = members = 0
    inflater = None
    while at < len(body):
        if inflater is None:
            members += 1
            if members > MOST_MEMBERS:
                raise InvalidInputError(
                    f"The gzip body has more than {MOST_MEMBERS} members, which is what is allowed."
                )
            inflater = zlib.decompressobj(GZIP_WINDOW)
        piece = body if at == 0 and len(body) <= PIECE_BYTES else body[at : at + PIECE_BYTES]
        try:
            part = inflater.decompress(piece, left + 1)
        except zlib.error as error:
            raise InvalidInputError(f"The body is not valid gzip data: {error}.") from error
        left -= len(part)
        if left < 0:
            raise PayloadTooLargeError(f"The gzip body inflates to more than {limit} bytes.")
        parts.append(part)
        at += len(piece) - len(inflater.unused_data)
        if inflater.eof:
            inflater = None
    if members == 0:
        raise InvalidInputError("The body is empty; expected gzip data, as Content-Encoding says.")
    if inflater is not None:
        raise InvalidInputError("The gzip body is cut short: its end is missing.")
    return parts[0] if len(parts) == 1 else b"".join(parts)

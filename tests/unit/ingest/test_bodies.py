"""Bodies are inflated within limits."""

import random
from functools import partial
from gzip import compress

import pytest

from assay.errors import InvalidInputError, PayloadTooLargeError, UnsupportedMediaTypeError
from assay.ingest.bodies import BodyLimits, plain_body

gzipped = partial(compress, mtime=0)
SMALL = BodyLimits(wire_bytes=100, decompressed_bytes=1000)


@pytest.mark.parametrize("encoding", [None, "", "identity", "Identity "])
def test_a_plain_body_stays_as_it_is(encoding: str | None) -> None:
    assert plain_body(b"abc", encoding, SMALL) == b"abc"


def test_gzip_is_inflated_also_in_several_members() -> None:
    assert plain_body(gzipped(b"ab") + gzipped(b"c"), "GZIP", SMALL) == b"abc"


def test_gzip_of_many_pieces_is_inflated_whole() -> None:
    noise = random.Random(1).randbytes(300_000)
    body = gzipped(noise) + gzipped(b"") + gzipped(noise[::-1])
    assert plain_body(body, "gzip", BodyLimits()) == noise + noise[::-1]


def test_up_to_64_members_are_read_and_more_refused() -> None:
    assert plain_body(gzipped(b"a") * 64, "gzip", BodyLimits()) == b"a" * 64
    with pytest.raises(InvalidInputError, match="more than 64 members"):
        plain_body(gzipped(b"") * 65, "gzip", BodyLimits())


def test_a_body_of_exactly_the_limit_passes() -> None:
    assert len(plain_body(gzipped(b" " * 1000), "gzip", SMALL)) == 1000


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        (b"x" * 101, None),
        (gzipped(b" " * 1001), "gzip"),
        (gzipped(b" " * 600) + gzipped(b" " * 600), "gzip"),
    ],
    ids=["as sent", "inflated", "in two members"],
)
def test_what_is_too_large_is_refused_with_the_limit(body: bytes, encoding: str | None) -> None:
    with pytest.raises(PayloadTooLargeError, match="100"):
        plain_body(body, encoding, SMALL)


def test_an_uncompressed_body_is_held_to_the_inflated_limit_too() -> None:
    with pytest.raises(PayloadTooLargeError):
        plain_body(b"x" * 60, None, BodyLimits(wire_bytes=100, decompressed_bytes=50))


@pytest.mark.parametrize(
    "body",
    [b"", b"not gzip", gzipped(b"abc")[:-3], gzipped(b"abc") + b"rest", gzipped(b"abc")[:5]],
    ids=["empty", "another format", "without its end", "with something after it", "cut in its head"],
)
def test_damaged_gzip_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidInputError):
        plain_body(body, "gzip", SMALL)


@pytest.mark.parametrize("encoding", ["br", "deflate", "gzip, gzip"])
def test_another_encoding_is_refused_with_those_allowed(encoding: str) -> None:
    with pytest.raises(UnsupportedMediaTypeError, match="gzip and identity"):
        plain_body(b"abc", encoding, SMALL)

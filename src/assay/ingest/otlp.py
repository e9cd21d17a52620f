"""OTLP/HTTP trace export: a request body in, spans out; and the bodies that answer it."""

from dataclasses import dataclass
from typing import Literal

import msgspec
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from assay.domain.trace import Span
from assay.errors import UnsupportedMediaTypeError
from assay.ingest.bodies import BodyLimits, demand_repeated, plain_body
from assay.ingest.conventions.normalise import normalise
from assay.ingest.otlp_json import read_json
from assay.ingest.otlp_protobuf import read_protobuf
from assay.ingest.received import Received

__all__ = ["BodyLimits", "Decoded", "decode_traces", "encode_error", "encode_response", "media_type"]

MediaType = Literal["application/x-protobuf", "application/json"]
PROTOBUF: MediaType = "application/x-protobuf"
JSON: MediaType = "application/json"
INVALID_ARGUMENT = 3
INTERNAL = 13
RPC_CODES = {400: 3, 401: 16, 403: 7, 404: 5, 409: 10, 413: 3, 415: 3, 429: 8, 500: 13, 503: 14}
"""The google.rpc.Code that stands for an HTTP status."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """The spans of a request, each (trace id, span id) once with its last content.

    `rejected` counts those that could not be read; `message` says what was wrong and where ("" when nothing was).
    """

    spans: list[Span]
    rejected: int
    message: str


def media_type(content_type: str | None) -> MediaType:
    """Return which of the two encodings a Content-Type names; raise UnsupportedMediaTypeError for any other."""
    named = (content_type or "").partition(";")[0].strip().lower()
    if named == PROTOBUF:
        return PROTOBUF
    if named == JSON:
        return JSON
    found = f"is {named!r}" if named else "is missing"
    raise UnsupportedMediaTypeError(f"Content-Type {found}; allowed are {PROTOBUF} and {JSON}.")


def decode_traces(body: bytes, content_type: str | None, content_encoding: str | None, limits: BodyLimits) -> Decoded:
    """Decode an OTLP trace export into normalised spans.

    Raises UnsupportedMediaTypeError for another content type or encoding, PayloadTooLargeError above a limit, and
    InvalidInputError when the body as a whole cannot be read. A span that cannot be read is counted, not raised.
    """
    encoding = media_type(content_type)
    plain = plain_body(body, content_encoding, limits)
    received = read_protobuf(plain, limits) if encoding == PROTOBUF else read_json(plain, limits)
    if len(plain) * len(received.spans) > limits.decompressed_bytes:
        _demand_small_resources(received, limits)
    spans: dict[tuple[str, str], Span] = {}
    for span in received.spans:
        spans[span.trace_id, span.span_id] = normalise(span)
    more = received.rejected - len(received.problems)
    problems = received.problems + ([f"and {more} more."] if more else [])
    return Decoded(spans=list(spans.values()), rejected=received.rejected, message=" ".join(problems))


def _demand_small_resources(received: Received, limits: BodyLimits) -> None:
    """Refuse resources that are kept with so many spans that a small body would become a large store."""
    sizes: dict[int, int] = {}
    total = 0
    for span in received.spans:
        resource = span.source.resource
        if id(resource) not in sizes:
            sizes[id(resource)] = len(msgspec.json.encode(resource))
        total += sizes[id(resource)]
    demand_repeated(total, "The attributes of resources", limits)


def encode_response(content_type: str | None, rejected: int, message: str) -> tuple[bytes, MediaType]:
    """Return the ExportTraceServiceResponse and its media type; partial success is told only when there is any."""
    encoding = media_type(content_type)
    if encoding == JSON:
        partial = {"partialSuccess": {"rejectedSpans": str(rejected), "errorMessage": message}}
        return msgspec.json.encode(partial if rejected or message else {}), JSON
    response = ExportTraceServiceResponse()
    if rejected or message:
        response.partial_success.rejected_spans = rejected
        response.partial_success.error_message = message
    return response.SerializeToString(), PROTOBUF


def encode_error(content_type: str | None, http_status: int, message: str) -> tuple[bytes, MediaType]:
    """Return a google.rpc.Status for an HTTP status, in the sender's encoding, or JSON when that is unknown."""
    code = RPC_CODES.get(http_status, INVALID_ARGUMENT if http_status < 500 else INTERNAL)
    try:
        encoding = media_type(content_type)
    except UnsupportedMediaTypeError:
        encoding = JSON
    if encoding == JSON:
        return msgspec.json.encode({"code": code, "message": message}), JSON
    text = message.encode("utf-8", "replace")
    # Two fields need no generated class: code is field 1 (varint), message is field 2 (length-delimited).
    return b"\x08" + bytes([code]) + b"\x12" + _varint(len(text)) + text, PROTOBUF


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)

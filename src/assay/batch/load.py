"""Load the traces of a file: OTLP/JSON, one document or one a line, as collectors and SDKs write it."""

from collections.abc import Iterator
from pathlib import Path

from assay.domain.trace import Span, Trace
from assay.errors import InvalidInputError
from assay.ingest.assembly import assemble
from assay.ingest.otlp import BodyLimits, decode_traces

LOCAL_PROJECT = "local"
FILE_LIMITS = BodyLimits(wire_bytes=1 << 30, decompressed_bytes=1 << 30, spans=1 << 30, values=1 << 30)


def _documents(body: bytes, path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield each OTLP document of the file with the place to name in an error."""
    lines = [(number, line) for number, line in enumerate(body.splitlines(), 1) if line.strip()]
    one_each = len(lines) > 1 and all(
        line.lstrip().startswith(b"{") and line.rstrip().endswith(b"}") for _, line in lines
    )
    if one_each:
        yield from ((f"{path}, line {number}", line) for number, line in lines)
    else:
        yield str(path), body


def load_traces(path: Path, *, now_ns: int) -> list[Trace]:
    """Return the traces of an OTLP/JSON file in the order of their first span.

    Raises InvalidInputError naming file and line when it cannot be read, when spans are malformed, or when it has none.
    """
    try:
        body = path.read_bytes()
    except OSError as error:
        raise InvalidInputError(f"Cannot read {path}: {error.strerror}.") from error
    spans: dict[str, dict[str, Span]] = {}
    for place, document in _documents(body.removeprefix(b"\xef\xbb\xbf"), path):
        try:
            decoded = decode_traces(document, "application/json", None, FILE_LIMITS)
        except InvalidInputError as error:
            raise InvalidInputError(f"{place}: {error}") from error
        if decoded.rejected:
            raise InvalidInputError(f"{place}: {decoded.rejected} spans cannot be read: {decoded.message}")
        for span in decoded.spans:
            spans.setdefault(span.trace_id, {})[span.span_id] = span
    if not spans:
        raise InvalidInputError(f"{path} holds no spans; expected OTLP/JSON with resourceSpans.")
    return [
        assemble(
            LOCAL_PROJECT,
            list(members.values()),
            revision=1,
            created_at_ns=now_ns,
            agent_id=None,
            agent=next((span.agent for span in members.values() if span.agent), None),
        )
        for members in spans.values()
    ]

"""Traces from a file."""

import json
from pathlib import Path

import pytest

from assay.batch.load import load_traces
from assay.errors import InvalidInputError
from support.otlp_bodies import TRACE_ID, otlp_body, otlp_span

OTHER = "1" * 32


def written(path: Path, body: bytes) -> Path:
    path.write_bytes(body)
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "traces.json"


def test_a_document_holds_traces_in_the_order_of_their_first_span(file: Path) -> None:
    body = otlp_body(
        otlp_span(), otlp_span(traceId=OTHER), otlp_span(spanId="1" * 16), resource={"service.name": "desk"}
    )
    first, second = load_traces(written(file, body), now_ns=5)
    assert (first.trace_id, len(first.spans), first.agent) == (TRACE_ID, 2, "desk")
    assert (second.trace_id, second.created_at_ns) == (OTHER, 5)


def test_a_document_a_line_is_read_too_and_a_trace_may_span_lines(file: Path) -> None:
    lines = [otlp_body(otlp_span()), b"", otlp_body(otlp_span(spanId="1" * 16))]
    (trace,) = load_traces(written(file, b"\n".join(lines)), now_ns=5)
    assert len(trace.spans) == 2


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_an_indented_document_is_read_too(file: Path, mark: bytes) -> None:
    body = json.dumps(json.loads(otlp_body(otlp_span())), indent=1).encode()
    assert len(load_traces(written(file, mark + body), now_ns=5)) == 1


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "traces.json: The body is empty"),
        (b"{}", "holds no spans"),
        (b"not json", "traces.json: The body is not JSON"),
        (otlp_body(otlp_span()) + b"\n{broken}", "traces.json, line 2: The body is not JSON"),
        (otlp_body(otlp_span(spanId="x")), "1 spans cannot be read"),
    ],
    ids=range(5),
)
def test_a_file_that_cannot_be_read_is_refused_with_the_place(file: Path, body: bytes, told: str) -> None:
    with pytest.raises(InvalidInputError, match=told):
        load_traces(written(file, body), now_ns=5)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"nowhere\.json: No such file"):
        load_traces(tmp_path / "nowhere.json", now_ns=5)

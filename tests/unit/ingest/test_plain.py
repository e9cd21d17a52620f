"""Traces as plain JSON."""

import gzip
import json
from typing import Any

import pytest

from assay.domain.trace import Span
from assay.errors import InvalidInputError, PayloadTooLargeError, UnsupportedMediaTypeError
from assay.ingest.bodies import BodyLimits
from assay.ingest.plain import decode_plain

NOW_NS = 1_781_000_010_000_000_000
STARTED = "2026-06-09T10:13:20.000Z"
STARTED_NS = 1_781_000_000_000_000_000


def decode(document: Any) -> list[Span]:
    body = json.dumps(document).encode()
    return decode_plain(body, "application/json", None, BodyLimits(), now_ns=NOW_NS).spans


def decode_span(**fields: Any) -> Span:
    (span,) = decode({"spans": [fields]})
    return span


def test_every_field_of_a_span_is_read() -> None:
    (span,) = decode(
        {
            "trace_id": "t-1",
            "agent": "desk",
            "session_id": "c-1",
            "metadata": {"plan": "pro"},
            "spans": [
                {
                    "span_id": "s-1",
                    "parent_span_id": "s-0",
                    "name": "answer",
                    "kind": "Tool",
                    "input": {"q": 1},
                    "output": ["a"],
                    "error": "boom",
                    "model": "m-1",
                    "framework": "own",
                    "latency_ms": 1500,
                    "input_tokens": 25,
                    "output_tokens": "7",
                    "cache_read_tokens": 3,
                    "cache_write_tokens": 4,
                    "cost": 0.5,
                    "tool_calls": [{"name": "lookup"}],
                    "metadata": {"k": 1},
                    "attributes": {"own": True},
                    "started_at": STARTED,
                }
            ],
        }
    )
    assert span == Span(
        trace_id="t-1",
        span_id="s-1",
        parent_span_id="s-0",
        name="answer",
        kind="tool",
        input={"q": 1},
        output=["a"],
        error="boom",
        status="ERROR",
        model="m-1",
        framework="own",
        started_at_ns=STARTED_NS,
        ended_at_ns=STARTED_NS + 1_500_000_000,
        input_tokens=25,
        output_tokens=7,
        total_tokens=32,
        cache_read_tokens=3,
        cache_write_tokens=4,
        cost=0.5,
        tool_calls=[{"name": "lookup"}],
        metadata={"plan": "pro", "k": 1},
        attributes={"own": True},
        agent="desk",
        session_id="c-1",
    )


def test_camel_case_is_read_alike() -> None:
    snake = {"trace_id": "t", "session_id": "c", "agent": "a", "spans": [{"span_id": "s", "input_tokens": 1}]}
    camel = {"traceId": "t", "sessionId": "c", "agentName": "a", "spans": [{"spanId": "s", "inputTokens": 1}]}
    short = {"id": "t", "session_id": "c", "agent": "a", "spans": [{"id": "s", "input_tokens": 1}]}
    assert decode(snake) == decode(camel) == decode(short)


def test_one_trace_a_list_of_them_and_traces_by_name_are_read() -> None:
    one: dict[str, Any] = {"trace_id": "t", "spans": [{"span_id": "s"}]}
    assert decode(one) == decode([one]) == decode({"traces": [one]})
    assert [span.trace_id for span in decode([one, {**one, "trace_id": "u"}])] == ["t", "u"]
    assert decode([]) == []


def test_ids_are_made_where_there_are_none_and_keep_the_order_of_the_spans() -> None:
    spans = decode({"spans": [{"name": str(number)} for number in range(20)]})
    assert len({span.trace_id for span in spans}) == 1
    assert [span.name for span in sorted(spans, key=lambda span: span.span_id)] == [str(n) for n in range(20)]
    assert decode({"spans": [{}]})[0].trace_id != decode({"spans": [{}]})[0].trace_id


def test_numbers_are_ids_too() -> None:
    (span,) = decode({"id": 7, "spans": [{"id": 1}]})
    assert (span.trace_id, span.span_id) == ("7", "1")


def test_the_traces_metadata_is_that_of_its_tops() -> None:
    spans = decode(
        {"metadata": {"plan": "pro"}, "spans": [{"id": "c", "parent_span_id": "r"}, {"id": "r", "metadata": {"k": 1}}]}
    )
    assert [span.metadata for span in spans] == [None, {"plan": "pro", "k": 1}]


@pytest.mark.parametrize(
    ("fields", "started_at_ns", "ended_at_ns"),
    [
        ({}, None, None),
        ({"started_at": STARTED}, STARTED_NS, None),
        ({"started_at": STARTED, "latency_ms": 0.5}, STARTED_NS, STARTED_NS + 500_000),
        ({"started_at": STARTED, "ended_at": STARTED, "latency_ms": 9}, STARTED_NS, STARTED_NS),
        ({"ended_at": STARTED, "latency_ms": 2}, STARTED_NS - 2_000_000, STARTED_NS),
        ({"latency_ms": 2}, NOW_NS - 2_000_000, NOW_NS),
    ],
)
def test_latency_gives_the_time_that_is_missing(
    fields: dict[str, Any], started_at_ns: int | None, ended_at_ns: int | None
) -> None:
    span = decode_span(**fields)
    assert (span.started_at_ns, span.ended_at_ns) == (started_at_ns, ended_at_ns)


@pytest.mark.parametrize(
    ("fields", "status", "error"),
    [
        ({}, "UNSET", None),
        ({"error": "boom"}, "ERROR", "boom"),
        ({"error": ""}, "UNSET", None),
        ({"status": "error"}, "ERROR", "error"),
        ({"status": "OK", "error": "boom"}, "OK", "boom"),
        ({"status": "Unset"}, "UNSET", None),
    ],
)
def test_an_error_gives_the_status_and_the_other_way_round(
    fields: dict[str, Any], status: str, error: str | None
) -> None:
    span = decode_span(**fields)
    assert (span.status, span.error) == (status, error)


@pytest.mark.parametrize("field", ["type", "kind"])
def test_a_span_that_says_it_is_a_retrieval_is_one(field: str) -> None:
    assert decode_span(**{field: "Retrieval"}).type == "retrieval"


@pytest.mark.parametrize(
    ("fields", "place", "told"),
    [
        ({"input_tokens": -1}, "input_tokens", "is -1; expected a whole number of at least 0"),
        ({"inputTokens": 1.5}, "input_tokens", "expected a whole number"),
        ({"cost": "NaN"}, "cost", "expected a number from 0 to 1e18"),
        ({"latency_ms": "soon"}, "latency_ms", "is 'soon'"),
        ({"latency_ms": 1e17, "started_at": STARTED}, "latency_ms", "longer than any span"),
        ({"latency_ms": 1e17}, "latency_ms", "longer than any span"),
        ({"latency_ms": 1e303}, "latency_ms", "is 1e+303; expected a number from 0 to 1e18"),
        ({"cost": 1e303}, "cost", "is 1e+303; expected a number from 0 to 1e18"),
        ({"tool_calls": {"name": "x"}}, "tool_calls", "is an object; expected a list"),
        ({"metadata": []}, "metadata", "is a list; expected an object"),
        ({"name": 5}, "name", "is 5; expected text"),
        ({"error": {"message": "x"}}, "error", "is an object; expected text"),
        ({"status": "failed"}, "status", "is 'failed'; expected one of UNSET, OK, ERROR"),
        ({"span_id": ""}, "span_id", "expected text of 1 to 200 characters"),
        ({"span_id": "x" * 201}, "span_id", "expected text of 1 to 200 characters"),
        ({"parent_span_id": True}, "parent_span_id", "is True"),
        ({"started_at": "2026-06-09T10:13:20"}, "started_at", "with a time zone"),
        ({"started_at": "yesterday"}, "started_at", "ISO 8601"),
        ({"started_at": 12}, "started_at", "after 1970"),
        ({"started_at": STARTED, "ended_at": "2026-06-09T10:13:19Z"}, "ended_at", "before started_at"),
        ({"tokens_in": 3}, "tokens_in", "is not a field; allowed are span_id"),
        ({"latency_ms": 1, "latencyMs": 2}, "latencyMs", "repeats latency_ms"),
    ],
)
def test_a_wrong_field_is_refused_with_its_place(fields: dict[str, Any], place: str, told: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        decode([{"spans": [{}]}, {"spans": [{}, fields]}])
    assert refused.value.field == f"traces[1].spans[1].{place}"
    assert str(refused.value).startswith(f"traces[1].spans[1].{place} ")
    assert told in str(refused.value)


NO_TRACES: list[tuple[Any, str | None, str]] = [
    (5, None, "The body is a number; expected an object"),
    ({}, "spans", "spans is missing"),
    ({"spans": []}, "spans", "spans is empty"),
    ({"spans": {}}, "spans", "spans is an object; expected a list"),
    ({"spans": [5]}, "spans[0]", r"spans\[0\] is a number"),
    ({"spans": [{}], "user": "x"}, "user", "user is not a field"),
    ({"spans": [{"id": "a"}, {"id": "a"}]}, "spans[1].span_id", "as that of a span before it"),
    ({"traces": {}}, "traces", "traces is an object; expected a list"),
    ([7], "traces[0]", r"traces\[0\] is a number"),
]


@pytest.mark.parametrize(("document", "field", "told"), NO_TRACES)
def test_a_document_that_is_no_trace_is_refused(document: Any, field: str | None, told: str) -> None:
    with pytest.raises(InvalidInputError, match=told) as refused:
        decode(document)
    assert refused.value.field == field


def test_what_a_store_cannot_hold_is_replaced() -> None:
    span = decode_span(input={"a\0": ["cut \ud83d", 2**70]})
    assert span.input == {"a\ufffd": ["cut \ufffd", str(2**70)]}


def test_a_value_nested_beyond_reason_is_refused() -> None:
    deep: Any = 1
    for _ in range(70):
        deep = [deep]
    with pytest.raises(InvalidInputError, match="nested deeper than 64 levels"):
        decode_span(input=deep)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 1_000_000], ids=range(4))
def test_a_body_that_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidInputError, match="body"):
        decode_plain(body, "application/json", None, BodyLimits(), now_ns=NOW_NS)


def test_content_type_encoding_and_size_are_held_to_as_for_otlp() -> None:
    body = json.dumps({"spans": [{}]}).encode()
    small = BodyLimits(wire_bytes=5)
    assert decode_plain(gzip.compress(body), "application/json; charset=utf-8", "gzip", BodyLimits(), now_ns=0).spans
    with pytest.raises(UnsupportedMediaTypeError, match="application/json"):
        decode_plain(body, "application/x-protobuf", None, BodyLimits(), now_ns=NOW_NS)
    with pytest.raises(PayloadTooLargeError):
        decode_plain(body, "application/json", None, small, now_ns=NOW_NS)

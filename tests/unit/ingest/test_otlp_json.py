"""OTLP/JSON as it is written by real senders, and by broken ones."""

import json
from typing import Any

import pytest

from assay.errors import InvalidInputError
from support.otlp_bodies import SPAN_ID, STARTED_NS, TRACE_ID, decode, otlp_body, otlp_span, read_span


def read_value(value: Any) -> Any:
    span = otlp_span(attributes=None)
    return read_span({**span, "attributes": [{"key": "k", "value": value}]}).attributes["k"]


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ({"stringValue": "a"}, "a"),
        ({"stringValue": ""}, ""),
        ({"intValue": "25"}, 25),
        ({"intValue": -7}, -7),
        ({"intValue": 7.0}, 7),
        ({"intValue": "9223372036854775807"}, 2**63 - 1),
        ({"intValue": "-9223372036854775808"}, -(2**63)),
        ({"intValue": "9223372036854775808"}, "9223372036854775808"),
        ({"intValue": 2**80}, str(2**80)),
        ({"doubleValue": 1.5}, 1.5),
        ({"doubleValue": 7}, 7.0),
        ({"doubleValue": "1.5"}, 1.5),
        ({"doubleValue": 10**20}, 1e20),
        ({"doubleValue": 10**400}, "Infinity"),
        ({"doubleValue": "NaN"}, "NaN"),
        ({"doubleValue": "-Infinity"}, "-Infinity"),
        ({"boolValue": False}, False),
        ({"bytesValue": "AP8Q"}, "AP8Q"),
        ({"arrayValue": {"values": [{"intValue": 1}, {}]}}, [1, None]),
        ({"arrayValue": {}}, []),
        ({"kvlistValue": {"values": [{"key": "x", "value": {"boolValue": True}}]}}, {"x": True}),
        ({}, None),
        (None, None),
        ({"futureValue": 1}, None),
        ({"int_value": "3"}, 3),
    ],
)
def test_every_kind_of_value_is_read(sent: Any, read: Any) -> None:
    value = read_value(sent)
    assert value == read
    assert type(value) is type(read)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"intValue": "seven"}, "intValue is 'seven'"),
        ({"intValue": 1.5}, "intValue is 1.5"),
        ({"intValue": True}, "intValue is True"),
        ({"doubleValue": "much"}, "doubleValue is 'much'"),
        ({"boolValue": "yes"}, "boolValue is 'yes'"),
        ({"stringValue": 5}, "stringValue is 5"),
        ({"arrayValue": 5}, "arrayValue is 5"),
        ("bare", "expected an object such as stringValue"),
    ],
)
def test_a_value_of_the_wrong_kind_costs_its_span_and_no_other(value: Any, told: str) -> None:
    bad = {**otlp_span(), "attributes": [{"key": "k", "value": value}]}
    decoded = decode(otlp_body(bad, otlp_span(spanId="00000000000000aa")))
    assert [span.span_id for span in decoded.spans] == ["00000000000000aa"]
    assert decoded.rejected == 1
    assert "spans[0]" in decoded.message
    assert told in decoded.message


def test_ids_are_hex_in_any_case_and_kept_in_lower_case() -> None:
    span = read_span(otlp_span(traceId=TRACE_ID.upper(), spanId=SPAN_ID.upper(), parentSpanId="00F067AA0BA902FF"))
    assert (span.trace_id, span.span_id, span.parent_span_id) == (TRACE_ID, SPAN_ID, "00f067aa0ba902ff")


@pytest.mark.parametrize("parent", ["", "0000000000000000", None])
def test_an_empty_or_zero_parent_is_none(parent: str | None) -> None:
    assert read_span(otlp_span(parentSpanId=parent)).parent_span_id is None


UNREADABLE: list[dict[str, Any]] = [
    {"traceId": ""},
    {"traceId": "0" * 32},
    {"traceId": TRACE_ID[:-1]},
    {"traceId": "CvdlGRbNQ92ESOshHIAxnA=="},
    {"traceId": "ab " * 10 + "ab"},
    {"traceId": None},
    {"traceId": 5},
    {"spanId": "0" * 16},
    {"spanId": "g" * 16},
    {"parentSpanId": "1"},
    {"name": 5},
    {"events": "none"},
    {"events": [5]},
    {"attributes": "a=b"},
    {"attributes": [5]},
    {"attributes": [{"key": 5}]},
]


@pytest.mark.parametrize("fields", UNREADABLE)
def test_a_span_that_cannot_be_read_is_counted_and_told(fields: dict[str, Any]) -> None:
    decoded = decode(otlp_body({**otlp_span(), **fields}))
    assert (decoded.spans, decoded.rejected) == ([], 1)
    assert decoded.message.startswith("resourceSpans[0].scopeSpans[0].spans[0]: ")


def test_only_the_first_problems_are_told_and_the_rest_counted() -> None:
    decoded = decode(otlp_body(*[otlp_span(spanId="")] * 9))
    assert decoded.rejected == 9
    assert decoded.message.count("spanId is ''") == 5
    assert decoded.message.endswith("and 4 more.")


@pytest.mark.parametrize("sent", [str(STARTED_NS), STARTED_NS, float(STARTED_NS)])
def test_times_are_text_or_numbers(sent: Any) -> None:
    assert read_span(otlp_span(startTimeUnixNano=sent)).started_at_ns == STARTED_NS


@pytest.mark.parametrize("sent", ["soon", "1.781e18", "", None, 0, "0", -5, 12_345, 2**63, "9" * 40, True, [1]])
def test_a_time_that_no_span_can_have_is_unknown(sent: Any) -> None:
    assert read_span(otlp_span(startTimeUnixNano=sent)).started_at_ns is None


@pytest.mark.parametrize(
    ("status", "read"),
    [
        ({"code": 1}, "OK"),
        ({"code": 2}, "ERROR"),
        ({"code": "STATUS_CODE_ERROR"}, "ERROR"),
        ({"code": "Ok"}, "OK"),
        ({"code": 9}, "UNSET"),
        ({}, "UNSET"),
        ("bad", "UNSET"),
    ],
)
def test_status_is_a_number_or_a_name(status: Any, read: str) -> None:
    assert read_span(otlp_span(status=status)).status == read


def test_what_a_database_cannot_hold_is_replaced() -> None:
    span = read_span(otlp_span({"input.value": "a\0b", "k\0": "cut \ud83d"}, name="n\0"), scope="s\0")
    assert (span.name, span.input) == ("n\ufffd", "a\ufffdb")
    assert span.attributes["k\ufffd"] == "cut \ufffd"


def test_a_bare_nan_is_read_as_its_name() -> None:
    body = otlp_body(otlp_span()).replace(
        b'"attributes": []', b'"attributes": [{"key": "k", "value": {"doubleValue": NaN}}]'
    )
    assert decode(body).spans[0].attributes["k"] == "NaN"


def test_snake_case_is_read_too_and_unknown_fields_are_passed_over() -> None:
    body = json.dumps(
        {"resource_spans": [{"scope_spans": [{"spans": [{"trace_id": TRACE_ID, "span_id": SPAN_ID, "flags": 1}]}]}]}
    )
    assert [span.span_id for span in decode(body.encode()).spans] == [SPAN_ID]


def test_a_span_sent_twice_in_a_request_is_read_once_with_its_last_content() -> None:
    decoded = decode(otlp_body(otlp_span(name="first"), otlp_span(name="last")))
    assert [span.name for span in decoded.spans] == ["last"]


def test_values_nested_beyond_reason_cost_their_span_and_no_other() -> None:
    deep: Any = {"stringValue": "bottom"}
    for _ in range(80):
        deep = {"arrayValue": {"values": [deep]}}
    bad = {**otlp_span(), "attributes": [{"key": "k", "value": deep}]}
    decoded = decode(otlp_body(bad, otlp_span(spanId="00000000000000aa")))
    assert [span.span_id for span in decoded.spans] == ["00000000000000aa"]
    assert "nested deeper than 64 levels" in decoded.message


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "empty"),
        (b"  \n", "empty"),
        (b"[]", "a list"),
        (b"null", "null"),
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b'{"resourceSpans": "x"}', "resourceSpans is text"),
        (b'{"resourceMetrics": []}', "found resourceMetrics"),
        (b'{"a":' * 100_000, "too deeply"),
        (b"[" * 1_000_000, "too deeply"),
    ],
    ids=range(10),
)
def test_a_body_that_is_no_export_is_refused_as_a_whole(body: bytes, told: str) -> None:
    with pytest.raises(InvalidInputError, match=told):
        decode(body)


@pytest.mark.parametrize("body", [b"{}", b'{"resourceSpans": []}', b'{"resourceSpans": null}'])
def test_an_export_of_nothing_is_fine(body: bytes) -> None:
    assert decode(body).spans == []


@pytest.mark.parametrize(
    "body",
    [
        {"resourceSpans": [5]},
        {"resourceSpans": [{"scopeSpans": "x"}]},
        {"resourceSpans": [{"scopeSpans": [5]}]},
        {"resourceSpans": [{"scopeSpans": [{"spans": 5}]}]},
    ],
)
def test_a_container_that_cannot_be_read_is_counted(body: Any) -> None:
    decoded = decode(json.dumps(body).encode())
    assert (decoded.spans, decoded.rejected) == ([], 1)
    assert decoded.message.startswith("resourceSpans[0]")


def test_a_malformed_resource_costs_its_attributes_and_no_span() -> None:
    body = json.loads(otlp_body(otlp_span()))
    body["resourceSpans"][0]["resource"] = {"attributes": 5}
    assert len(decode(json.dumps(body).encode()).spans) == 1

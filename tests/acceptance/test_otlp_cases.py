"""The acceptance cases of OTLP ingest: what is read from each request, before anything is stored."""

import tracemalloc

import pytest

from assay.domain.trace import Span, Trace
from assay.errors import InvalidInputError, PayloadTooLargeError
from assay.ingest.assembly import assemble
from assay.ingest.otlp import BodyLimits, Decoded, decode_traces
from support.cases import Case, allowed, body_of, cases_of, name_of, requests_of, whole_of
from support.otlp_expectations import assert_ingested, seen

LIMITS = BodyLimits()
STATUS_OF = {InvalidInputError: 400, PayloadTooLargeError: 413}
MEMORY_BYTES = 200 * 1024 * 1024
CASES = cases_of("otlp-ingest")


def decoded(request: Case) -> Decoded | int:
    """Return what was read of a request, or the HTTP status that its refusal stands for."""
    headers = request["headers"]
    try:
        return decode_traces(body_of(request), headers["content-type"], headers.get("content-encoding"), LIMITS)
    except (InvalidInputError, PayloadTooLargeError) as error:
        return STATUS_OF[type(error)]


def assembled(answers: list[Decoded | int]) -> list[Trace]:
    traces: dict[str, dict[str, Span]] = {}
    for answer in answers:
        assert isinstance(answer, Decoded), f"the request was refused with {answer}"
        for span in answer.spans:
            traces.setdefault(span.trace_id, {})[span.span_id] = span
    return [
        assemble("default", list(spans.values()), revision=1, created_at_ns=0, agent_id=None, agent=None)
        for spans in traces.values()
    ]


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_what_is_read_of_a_request_is_as_the_case_expects(case: Case) -> None:
    (expected,) = allowed(case)
    answers = [decoded(request) for request in requests_of(case)]
    match expected["outcome"]:
        case "ingested" | "after-both":
            traces = [seen(trace) for trace in assembled(answers)]
            assert_ingested(expected, traces, whole_of(expected))
        case "rejected":
            assert answers[0] in expected["http_status"]
        case "each":
            statuses = [answer if isinstance(answer, int) else 200 for answer in answers]
            assert statuses == expected["http_statuses"]
        case outcome:
            raise AssertionError(f"nothing checks the outcome {outcome}")


def test_a_small_body_never_becomes_a_large_one_in_memory() -> None:
    bomb = next(case for case in CASES if "body_template" in case["given"])
    body = body_of(bomb["given"])
    tracemalloc.start()
    try:
        with pytest.raises(PayloadTooLargeError):
            decode_traces(body, "application/json", "gzip", LIMITS)
        assert tracemalloc.get_traced_memory()[1] < MEMORY_BYTES
    finally:
        tracemalloc.stop()


def test_times_that_no_span_can_have_are_unknown_and_never_1970() -> None:
    case = next(case for case in CASES if case["fault"] == "time")
    answer = decoded(requests_of(case)[0])
    assert isinstance(answer, Decoded)
    assert [span.started_at_ns is None for span in answer.spans] == [False, False, True, True, True]

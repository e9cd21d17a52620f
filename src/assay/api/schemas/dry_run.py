"""Dry runs, as asked for and as answered."""

from typing import Annotated, ClassVar

from pydantic import Field, JsonValue

from assay.api.schemas.checks import CheckAnswer
from assay.api.schemas.evaluators import EvaluatorChanges
from assay.api.schemas.fields import Answer, Identifier, Request
from assay.domain.outcome import HttpAnswer

MS_PER_S = 1000


class Sample(Request):
    """What to run over, in the words of `evaluate` or of `handler`; `spans` are those of `POST /api/v1/traces`."""

    inputs: JsonValue = None
    outputs: JsonValue = None
    trace: dict[str, JsonValue] | None = None
    input: JsonValue = None
    output: JsonValue = None
    expected: JsonValue = None
    metadata: dict[str, JsonValue] | None = None
    spans: list[dict[str, JsonValue]] = Field(default_factory=list[dict[str, JsonValue]])
    app_params: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])


class DryRun(EvaluatorChanges):
    """An evaluator that need not be saved, or a saved one by its id; fields given beside the id are tried on it.

    It runs over `sample`, over the stored trace `traceId`, or over a made-up trace of two spans.
    """

    read_only: ClassVar[frozenset[str]] = EvaluatorChanges.read_only - {"id", "_id"}

    evaluator_id: Identifier | None = None
    id: Identifier | None = None
    also_id: Annotated[Identifier | None, Field(alias="_id")] = None
    sample: Sample | None = None
    trace_id: Identifier | None = None


class DryRunResponse(Answer):
    """What the evaluator says: `matches` as an endpoint answers it; of code, whether a signal would be raised."""

    matches: bool
    score: int | float | None
    reason: str | None


class HttpAnswerShown(Answer):
    """What an endpoint answered, as far as it came, with what it was sent as a secret redacted."""

    version: Annotated[str, Field(description="Of HTTP.")]
    status: int
    headers: Annotated[dict[str, str], Field(description="Those that help to mend an endpoint; cookies are not shown.")]
    body: Annotated[str, Field(description="Decompressed, up to 1 MiB; bytes that are not UTF-8 are replaced.")]
    headers_ms: Annotated[float, Field(description="From the start of the call to the last header.")]
    duration_ms: Annotated[float, Field(description="From the start of the call to the end of the body.")]


class DryRunAnswer(Answer):
    """What came of a dry run; `response` when it is ok, `error` when it is not."""

    ok: bool
    latency_ms: float
    response: DryRunResponse | None = None
    would_raise: Annotated[
        bool | None, Field(description="Whether it fails, for an endpoint under `raiseWhen`, and would raise a signal.")
    ] = None
    error: str | None = None
    http: Annotated[
        HttpAnswerShown | None, Field(description="What an endpoint answered, whether or not that counts.")
    ] = None
    check: CheckAnswer
    logs: str


def http_answer(answer: HttpAnswer) -> HttpAnswerShown:
    """Return an endpoint's answer as the API shows it; a header that came several times is joined with commas."""
    headers: dict[str, str] = {}
    for name, value in answer.headers:
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return HttpAnswerShown(
        version=answer.version,
        status=answer.status,
        headers=headers,
        body=answer.body,
        headers_ms=round(answer.headers_s * MS_PER_S, 3),
        duration_ms=round(answer.duration_s * MS_PER_S, 3),
    )

"""Dry runs, as asked for and as answered."""

from typing import Annotated, ClassVar

from pydantic import Field, JsonValue

from assay.api.schemas.checks import CheckAnswer
from assay.api.schemas.evaluators import EvaluatorChanges
from assay.api.schemas.fields import Answer, Identifier, Request


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


class DryRunAnswer(Answer):
    """What came of a dry run; `response` when it is ok, `error` when it is not."""

    ok: bool
    latency_ms: float
    response: DryRunResponse | None = None
    error: str | None = None
    check: CheckAnswer
    logs: str

"""Agenta's `ag.*` attributes: the documented form, and what its SDK sends."""

from assay.domain.json_value import JsonValue
from assay.ingest.conventions.family import Family, Prefix
from assay.ingest.conventions.readers import ag_content, ag_text, milliseconds, record, sub_object

DEFAULT_OUTPUT = "__default__"


def _data(value: JsonValue) -> JsonValue:
    """Return inputs or outputs, taken out of the wrapper that the SDK puts around what is not an object."""
    value = ag_content(value)
    return sub_object(DEFAULT_OUTPUT, value) if isinstance(value, dict) and len(value) == 1 else value


def _meta(value: JsonValue) -> JsonValue:
    return record(ag_content(value))


AGENTA = Family(
    name="agenta",
    keys={
        "input": ("ag.data.inputs",),
        "output": ("ag.data.outputs",),
        "model": ("ag.meta.response.model", "ag.meta.request.model"),
        "provider": ("ag.meta.system",),
        "input_tokens": (
            "ag.metrics.unit.tokens.prompt",
            "ag.metrics.tokens.incremental.prompt",
            "ag.metrics.tokens.cumulative.prompt",
            "ag.metrics.acc.tokens.prompt",
        ),
        "output_tokens": (
            "ag.metrics.unit.tokens.completion",
            "ag.metrics.tokens.incremental.completion",
            "ag.metrics.tokens.cumulative.completion",
            "ag.metrics.acc.tokens.completion",
        ),
        "total_tokens": (
            "ag.metrics.unit.tokens.total",
            "ag.metrics.tokens.incremental.total",
            "ag.metrics.tokens.cumulative.total",
            "ag.metrics.acc.tokens.total",
        ),
        "cost": (
            "ag.metrics.unit.costs.total",
            "ag.metrics.costs.incremental.total",
            "ag.metrics.costs.cumulative.total",
            "ag.metrics.acc.costs.total",
        ),
        "duration_s": ("ag.metrics.duration.cumulative", "ag.metrics.duration.cumulative.total"),
        "kind": ("ag.type.node", "ag.node.type", "ag.type.span"),
        "session_id": ("ag.session.id",),
        "application": ("ag.refs.application.slug", "ag.refs.application.id"),
        "metadata": ("ag.meta",),
    },
    readers={
        "input": _data,
        "output": _data,
        "model": ag_text,
        "session_id": ag_text,
        "application": ag_text,
        "duration_s": milliseconds,
        "metadata": _meta,
    },
    prefixes=(
        Prefix(prefix="ag.data.inputs.", field="input", read=ag_content),
        Prefix(prefix="ag.data.outputs.", field="output", read=ag_content),
        Prefix(prefix="ag.meta.", field="metadata", read=ag_content),
    ),
    kinds={"chat": "llm", "completion": "llm", "query": "retrieval", "rerank": "reranker"},
)

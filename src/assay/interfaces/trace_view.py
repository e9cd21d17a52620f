"""The trace as `evaluate` gets it: spans by id, with normalised metrics whatever the sender stored.

`spans` holds every span, root first, then by start time. `children` holds a span's children as dicts of the same shape,
so that a tree can be walked from any of them. Copies that deep would grow with the square of the depth, so they end
eight levels below each entry, or fewer where all copies would exceed 4 MiB: there, a child is only
`{"span_id": ...}`, to be looked up in `spans`.
"""

import json
from dataclasses import dataclass

import msgspec

from assay.domain.json_value import JsonObject, JsonValue
from assay.domain.trace import Span, Totals, Trace
from assay.interfaces.spans import microseconds_iso

NESTED_LEVELS = 8
NESTED_BYTES = 4 * 1024 * 1024
MS_PER_S = 1000
AG = "ag."
DEEPEST_NAME = 32
# Where senders put each figure, below ag.metrics: for the whole trace, and for the span alone.
WHOLE = ("acc.{0}.{1}", "{0}.cumulative.{1}", "unit.{0}.{1}", "{0}.incremental.{1}")
ALONE = ("unit.{0}.{1}", "{0}.incremental.{1}", "acc.{0}.{1}", "{0}.cumulative.{1}")
NORMALISED = ("acc", "tokens", "costs", "duration")


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a span, or a whole trace, used: tokens, and cost in the sender's currency."""

    input: int | None
    output: int | None
    total: int | None
    cost: float | None


def trace_view(trace: Trace) -> JsonObject:
    """Return `{"spans": {id: span}}`; costs in the sender's currency, durations in seconds.

    A figure nobody recorded is left out of `metrics.unit`, so that it is never mistaken for 0.
    """
    spans = trace.spans
    flat: dict[str, JsonObject] = {}
    for span in spans:
        ag = _ag(span.attributes)
        metrics = _object(ag.get("metrics"))
        if span is spans[0]:
            unit = _unit(span, metrics, _usage(trace.totals), WHOLE)
        else:
            unit = _unit(span, metrics, _usage(span), ALONE)
        flat[span.span_id] = _entry(span, unit, ag)
    children: dict[str, list[str]] = {}
    for span in spans:
        if span.parent_span_id is not None and span.parent_span_id != span.span_id:
            children.setdefault(span.parent_span_id, []).append(span.span_id)
    levels = _levels(flat, children)
    return {"spans": {span_id: _nested(span_id, flat, children, levels) for span_id in flat}}


def least_bytes(trace: Trace, enough: int) -> int:
    """Return how many bytes of JSON the trace has at least, counting no further than `enough`."""
    total = 0
    for span in trace.spans:
        total += json_bytes([span.input, span.output, _others(span.attributes)])
        if total > enough:
            break
    return total


def json_bytes(value: JsonValue) -> int:
    """Return how many bytes of JSON a value is."""
    try:
        return len(msgspec.json.encode(value))
    except UnicodeEncodeError:
        return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _levels(flat: dict[str, JsonObject], children: dict[str, list[str]]) -> int:
    """Return how many levels of children fit, so that every span below another is copied into it."""
    depths = _depths(flat, children)
    sizes = {span_id: json_bytes(entry) for span_id, entry in flat.items()} if any(depths.values()) else {}
    for levels in range(NESTED_LEVELS, 0, -1):
        if sum(size * (1 + min(depths[span_id], levels)) for span_id, size in sizes.items()) <= NESTED_BYTES:
            return levels
    return 0


def _depths(flat: dict[str, JsonObject], children: dict[str, list[str]]) -> dict[str, int]:
    """Return how many spans each one lies below; in a cycle, as many as are ever asked about."""
    depths = dict.fromkeys(flat, NESTED_LEVELS)
    below = {child for listed in children.values() for child in listed if flat[child]["parent_span_id"] in flat}
    level = [span_id for span_id in flat if span_id not in below]
    depth = 0
    while level:
        for span_id in level:
            depths[span_id] = depth
        level = [child for span_id in level for child in children.get(span_id, ())]
        depth += 1
    return depths


def _usage(source: Span | Totals) -> Usage:
    return Usage(input=source.input_tokens, output=source.output_tokens, total=source.total_tokens, cost=source.cost)


def _nested(span_id: str, flat: dict[str, JsonObject], children: dict[str, list[str]], levels: int) -> JsonObject:
    if levels < 0:
        return {"span_id": span_id}
    below: list[JsonValue] = [_nested(child, flat, children, levels - 1) for child in children.get(span_id, [])]
    return {**flat[span_id], "children": below}


def _entry(span: Span, unit: JsonObject, ag: JsonObject) -> JsonObject:
    data = _object(ag.get("data"))
    metrics = {name: value for name, value in _object(ag.get("metrics")).items() if name not in NORMALISED}
    return {
        "span_id": span.span_id,
        "parent_span_id": span.parent_span_id,
        "name": span.name,
        "start_time": microseconds_iso(span.started_at_ns),
        "end_time": microseconds_iso(span.ended_at_ns),
        "status_code": span.status,
        "attributes": {
            **_others(span.attributes),
            "ag": {
                **ag,
                "data": {**data, "inputs": span.input, "outputs": span.output},
                "metrics": {**metrics, "unit": unit},
            },
        },
    }


def _others(attributes: JsonObject) -> JsonObject:
    return {key: value for key, value in attributes.items() if key != "ag" and not key.startswith(AG)}


def _ag(attributes: JsonObject) -> JsonObject:
    """Return the sender's `ag` attributes as one nested object, whether they came nested or under dotted names."""
    nested = dict(_object(attributes.get("ag")))
    ours: set[int] = set()
    for key, value in attributes.items():
        if key.startswith(AG):
            _put(nested, key.removeprefix(AG).split(".", DEEPEST_NAME - 1), value, ours)
    return nested


def _put(target: JsonObject, path: list[str], value: JsonValue, ours: set[int]) -> None:
    """Put a value under a path; an object of the sender's on the way is copied once, and is then among `ours`."""
    for step in path[:-1]:
        inner = target.get(step)
        if not isinstance(inner, dict) or id(inner) not in ours:
            inner = dict(_object(inner))
            ours.add(id(inner))
            target[step] = inner
        target = inner
    target[path[-1]] = value


def _unit(span: Span, metrics: JsonObject, usage: Usage, places: tuple[str, ...]) -> JsonObject:
    """Return costs, tokens and duration: what was read at ingest first, then what the sender's `ag` says."""
    tokens: JsonObject = {
        name: count if count is not None else _recorded(metrics, places, "tokens", name)
        for name, count in (("prompt", usage.input), ("completion", usage.output), ("total", usage.total))
    }
    parts = [count for count in (tokens["prompt"], tokens["completion"]) if isinstance(count, int)]
    if tokens["total"] is None and parts:
        tokens["total"] = sum(parts)
    cost = usage.cost if usage.cost is not None else _recorded(metrics, places, "costs", "total")
    latency_ms = span.latency_ms
    duration_s = latency_ms / MS_PER_S if latency_ms is not None else _recorded_duration_s(metrics)
    return {"costs": _known({"total": cost}), "tokens": _known(tokens), "duration": _known({"total": duration_s})}


def _recorded(metrics: JsonObject, places: tuple[str, ...], figure: str, name: str) -> int | float | None:
    return next(
        (found for place in places if (found := _number(metrics, place.format(figure, name))) is not None), None
    )


def _recorded_duration_s(metrics: JsonObject) -> float | None:
    """Return the duration in seconds; `cumulative` is the one form in which senders write milliseconds."""
    for path in ("unit.duration.total", "acc.duration.total"):
        seconds = _number(metrics, path)
        if seconds is not None:
            return seconds
    milliseconds = _number(metrics, "duration.cumulative")
    return milliseconds / MS_PER_S if milliseconds is not None else None


def _number(metrics: JsonObject, path: str) -> int | float | None:
    value: JsonValue = metrics
    for step in path.split("."):
        value = _object(value).get(step)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _known(figures: JsonObject) -> JsonObject:
    return {name: value for name, value in figures.items() if value is not None}

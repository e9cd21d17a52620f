"""Metrics: how a nested dict of values becomes flat, named metrics."""

import math

from assay.domain.check import CheckError, Metrics
from assay.domain.json_value import JsonObject, JsonValue

DEEPEST = 64
MOST_METRICS = 1000


def flatten(values: JsonObject) -> Metrics | CheckError:
    """Return the values under dotted names: {"a": {"b": 1}} is {"a.b": 1}.

    A value is a number, a bool, text, a JSON list, an empty dict, or None, which is kept and stands for "not measured".
    Two values for one name, an empty name, a number that is not finite, more than 64 levels or more than 1000 metrics
    give the error.
    """
    metrics: Metrics = {}
    waiting: list[tuple[str, JsonValue, int]] = [("", values, 0)]
    while waiting:
        name, value, depth = waiting.pop()
        if depth > DEEPEST:
            return _too_deep(name)
        if isinstance(value, dict) and (value or depth == 0):
            for key, inner in reversed(value.items()):
                if not key.strip():
                    return _error("empty-metric-name", f"A metric{_inside(name)} has the empty name {key!r}; name it.")
                waiting.append((f"{name}.{key}" if depth else key, inner, depth + 1))
            continue
        if name in metrics:
            return _error(
                "metric-name-collision",
                f'Two values are called "{name}": nested keys are joined with dots, and every name may be used once.',
            )
        defect = _defect(name, value, depth)
        if defect is not None:
            return defect
        metrics[name] = value
        if len(metrics) > MOST_METRICS:
            return _error("too-many-metrics", f"More than {MOST_METRICS} metrics came back; return fewer, or a list.")
    return metrics


def _defect(name: str, value: JsonValue, depth: int) -> CheckError | None:
    """Look into lists too: what is inside one must be storable as well."""
    waiting: list[tuple[JsonValue, int]] = [(value, depth)]
    while waiting:
        inner, level = waiting.pop()
        if level > DEEPEST:
            return _too_deep(name)
        if isinstance(inner, float) and not math.isfinite(inner):
            return _error(
                "non-finite", f'Metric "{name}" is {inner}; a number must be finite (None says "not measured").'
            )
        if isinstance(inner, list):
            waiting.extend((item, level + 1) for item in inner)
        elif isinstance(inner, dict):
            waiting.extend((item, level + 1) for item in inner.values())
    return None


def _inside(name: str) -> str:
    return f' inside "{name}"' if name else ""


def _too_deep(name: str) -> CheckError:
    return _error(
        "too-deep", f'Metric "{name[:80]}" is nested more than {DEEPEST} levels deep; return a flatter value.'
    )


def _error(kind: str, message: str) -> CheckError:
    return CheckError(kind=kind, message=message)

"""Metrics: how a nested dict of values becomes flat, named metrics."""

import math

from assay.domain.check import CheckError, Metrics
from assay.domain.json_value import JsonObject, JsonValue

DEEPEST = 64
MOST_METRICS = 1000
LONGEST_NAME = 200
LONGEST_NAMES = 64 * 1024
SHOWN_OF_NAME = 80


def flatten(values: JsonObject) -> Metrics | CheckError:
    """Return the values under dotted names: {"a": {"b": 1}} is {"a.b": 1}.

    A value is a number, a bool, text, a JSON list, an empty dict, or None, which is kept and stands for "not measured".
    Two values for one name, an empty name, a number that is not finite, more than 64 levels, more than 1000 metrics, a
    dotted name of more than 200 characters or names of more than 64 Ki characters in all give the error.
    """
    metrics: Metrics = {}
    named = 0
    waiting: list[tuple[str, JsonValue, int]] = [("", values, 0)]
    while waiting:
        name, value, depth = waiting.pop()
        if depth > DEEPEST:
            return _too_deep(name)
        if isinstance(value, dict) and (value or depth == 0):
            for key, inner in reversed(value.items()):
                if not key.strip():
                    return _error(
                        "empty-metric-name",
                        f"A metric{_inside(name)} has the empty name {key[:SHOWN_OF_NAME]!r}; name it.",
                    )
                length = len(name) + len(key) + 1 if depth else len(key)
                if length > LONGEST_NAME:
                    return _name_too_long(name if depth else key, length)
                waiting.append((f"{name}.{key}" if depth else key, inner, depth + 1))
            if len(metrics) + len(waiting) > MOST_METRICS:
                return _too_many()
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
        named += len(name)
        if named > LONGEST_NAMES:
            return _error(
                "metric-name-too-long",
                f"The names of the metrics have more than {LONGEST_NAMES} characters in all, which is what is allowed; "
                "return fewer, name them shorter, or return a list.",
            )
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


def _too_many() -> CheckError:
    return _error("too-many-metrics", f"More than {MOST_METRICS} metrics came back; return fewer, or a list.")


def _name_too_long(name: str, length: int) -> CheckError:
    return _error(
        "metric-name-too-long",
        f'The name of a metric, which begins "{name[:SHOWN_OF_NAME]}", has {length} characters with its dots; '
        f"at most {LONGEST_NAME} are allowed.",
    )


def _inside(name: str) -> str:
    return f' inside "{name}"' if name else ""


def _too_deep(name: str) -> CheckError:
    return _error(
        "too-deep",
        f'Metric "{name[:SHOWN_OF_NAME]}" is nested more than {DEEPEST} levels deep; return a flatter value.',
    )


def _error(kind: str, message: str) -> CheckError:
    return CheckError(kind=kind, message=message)

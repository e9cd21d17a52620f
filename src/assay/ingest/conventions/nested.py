"""Dotted attribute names back into the objects and lists they were flattened from."""

from collections.abc import Iterable

from assay.domain.json_value import JsonObject, JsonValue
from assay.ingest.received import MAX_DEPTH


def unflattened(pairs: Iterable[tuple[str, JsonValue]]) -> JsonValue:
    """Return the nested value of dotted names; an object whose names count 0, 1, 2… becomes a list in that order.

    Where a name holds both a value and names below it, the deeper ones keep their dotted name, so nothing is lost.
    """
    nested: JsonObject = {}
    for name, value in pairs:
        target = nested
        path = name.split(".", MAX_DEPTH // 2)
        for at, step in enumerate(path[:-1]):
            inner = target.setdefault(step, {})
            if not isinstance(inner, dict):
                target[".".join(path[at:])] = value
                break
            target = inner
        else:
            if isinstance(target.get(path[-1]), dict):
                target[f"{path[-1]}."] = value
            else:
                target[path[-1]] = value
    return _with_lists(nested)


def _with_lists(value: JsonValue) -> JsonValue:
    if not isinstance(value, dict) or not value:
        return value
    if all(name.isdecimal() and name.isascii() and len(name) < 10 for name in value):
        return [_with_lists(value[name]) for name in sorted(value, key=int)]
    return {name: _with_lists(inner) for name, inner in value.items()}

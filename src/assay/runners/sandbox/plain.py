"""What the author's code returned, as plain JSON values: converted where that loses nothing, refused otherwise."""
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

import dataclasses
import types
from typing import Any

MAX_DEPTH = 64
_SCALARS = (str, int, float, bool, type(None))


class UnfitValueError(Exception):
    """JSON cannot carry a value: the message names it and where it is."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def plain(value: Any) -> Any:
    """Return the value made of exact dict, list, str, int, float, bool and None. Raises UnfitValueError."""
    kind = type(value)
    if kind is float:
        if value - value != 0.0:
            raise UnfitValueError("non-finite", f"the returned number is {value!r}: JSON has no such number")
        return value
    if kind is bool or kind is int or value is None:
        return value
    if kind is str:
        return _text(value, "")
    if not (isinstance(value, (dict, list, tuple, str, int, float)) or _is_scalar_array(value)):
        raise UnfitValueError(
            "unsupported-return-type",
            f"the code returned {_article(value)}; it may return a dict, a list, a string, a number, a bool or None",
        )
    return _nested(value, "", 1, set())


def _nested(value: Any, path: str, depth: int, above: set[int]) -> Any:
    kind = type(value)
    if kind is str:
        return _text(value, path)
    if kind is int or kind is bool or value is None:
        return value
    if kind is float:
        if value - value != 0.0:
            raise UnfitValueError("non-finite", f"{_at(path)} is {value!r}: JSON has no such number")
        return value
    if isinstance(value, (dict, list, tuple)):
        return _container(value, path, depth, above)
    return _other(value, path, depth, above)


def _container(value: Any, path: str, depth: int, above: set[int]) -> Any:
    if depth > MAX_DEPTH:
        raise UnfitValueError("too-deep", f"the returned value is nested more than {MAX_DEPTH} levels deep")
    if id(value) in above:
        raise UnfitValueError("not-json-serialisable", f"{_at(path)} contains itself")
    above.add(id(value))
    if isinstance(value, dict):
        result: Any = {}
        for key, item in dict.items(value):
            if type(key) is not str:
                key = _key(key, path)
            _text(key, path)
            result[key] = _nested(item, f"{path}.{key}" if path else key, depth + 1, above)
    else:
        result = [
            _nested(item, f"{path}.{index}" if path else str(index), depth + 1, above)
            for index, item in enumerate(value)
        ]
    above.discard(id(value))
    return result


def _key(key: Any, path: str) -> str:
    if isinstance(key, str):
        return str.__str__(key)
    raise UnfitValueError(
        "non-string-key",
        f"{_at(path)} has the key {_shown(key)} of type {type(key).__name__}: JSON keys are strings",
    )


def _other(value: Any, path: str, depth: int, above: set[int]) -> Any:
    if isinstance(value, str):
        return _text(str.__str__(value), path)
    if isinstance(value, int):
        return int.__index__(value)
    if isinstance(value, float):
        return _nested(float.__float__(value), path, depth, above)
    if _is_scalar_array(value):
        item = value.item()
        if isinstance(item, _SCALARS):
            return _nested(item, path, depth + 1, above)
    elif _is_record(value):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return _container(fields, path, depth, above | {id(value)})
    raise UnfitValueError(
        "not-json-serialisable",
        f"{_at(path)} is {_article(value)}: JSON holds dicts, lists, strings, numbers, bools and null",
    )


def _text(value: str, path: str) -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise UnfitValueError("bad-unicode", f"{_at(path)} has half of a surrogate pair: not valid text") from None
    return value


def _is_scalar_array(value: Any) -> bool:
    kind = type(value)
    return kind.__module__ == "numpy" and hasattr(kind, "item")


def _is_record(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _at(path: str) -> str:
    return f"the value at {path[:200]!r}" if path else "the returned value"


def _shown(key: Any) -> str:
    return repr(key)[:80] if isinstance(key, (int, float, tuple, bytes, type(None))) else "of its own kind"


def _article(value: Any) -> str:
    kind = type(value)
    if kind is types.FunctionType:
        name = "function"
    elif kind is types.CoroutineType:
        name = "coroutine (was an await forgotten?)"
    elif kind is types.GeneratorType:
        name = "generator"
    else:
        name = kind.__name__
    return f"a {name}" if name[:1].lower() not in "aeiou" else f"an {name}"

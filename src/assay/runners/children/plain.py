"""What the author's code returned, as plain JSON values: converted where that loses nothing, refused otherwise."""
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

import dataclasses
import types
from typing import Any

MAX_DEPTH = 64
_SCALARS = (str, int, float, bool, type(None))
_FEW = 32


class UnfitValueError(Exception):
    """JSON cannot carry a value: the message names it and where it is."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class TooLargeError(Exception):
    """The value cannot be written as JSON within the room there is."""


class _Walk:
    """What is known while walking a value: the containers above, and how many bytes of JSON are left at most."""

    def __init__(self, room: int) -> None:
        self.above: set[int] = set()
        self.room = room


def plain(value: Any, room: int) -> tuple[Any, int]:
    """Return the value made of exact dict, list, str, int, float, bool and None, and the least bytes of JSON it takes.

    Raises UnfitValueError, and TooLargeError when it takes more bytes of JSON than `room`.
    """
    kind: Any = type(value)
    if kind is float:
        if value - value != 0.0:
            raise UnfitValueError("non-finite", f"the returned number is {value!r}: JSON has no such number")
        return value, 1
    if kind is bool or kind is int or value is None:
        return value, 1
    if kind is dict and len(value) <= _FEW:
        size = _flat_size(value)
        if 0 < size <= room:
            return value, size
    if not (isinstance(value, (dict, list, tuple, str, int, float)) or _is_scalar_array(value)):
        raise UnfitValueError(
            "unsupported-return-type",
            f"the code returned {_article(value)}; it may return a dict, a list, a string, a number, a bool or None",
        )
    walk = _Walk(room)
    return _nested(value, "", 1, walk), room - walk.room


def _flat_size(value: dict[Any, Any]) -> int:
    """Return the least bytes of JSON of a dict of short names and plain scalars; 0 where it must be walked."""
    size = 2
    for key, item in value.items():
        if type(key) is not str or not key.isascii():
            return 0
        kind: Any = type(item)
        if kind is float:
            if item - item != 0.0:
                return 0
        elif kind is str:
            if not item.isascii():
                return 0
            size += len(item)
        elif kind is not bool and kind is not int and item is not None:
            return 0
        size += len(key) + 4
    return size


def _nested(value: Any, path: str, depth: int, walk: _Walk) -> Any:
    kind: Any = type(value)
    if kind is str:
        return _text(value, path, walk)
    if kind is int or kind is bool or value is None:
        return value
    if kind is float:
        if value - value != 0.0:
            raise UnfitValueError("non-finite", f"{_at(path)} is {value!r}: JSON has no such number")
        return value
    if isinstance(value, (dict, list, tuple)):
        return _container(value, path, depth, walk)
    return _other(value, path, depth, walk)


def _container(value: Any, path: str, depth: int, walk: _Walk) -> Any:
    if depth > MAX_DEPTH:
        raise UnfitValueError("too-deep", f"the returned value is nested more than {MAX_DEPTH} levels deep")
    above = walk.above
    if id(value) in above:
        raise UnfitValueError("not-json-serialisable", f"{_at(path)} contains itself")
    above.add(id(value))
    if isinstance(value, dict):
        result: Any = {}
        for key, item in dict.items(value):
            _take(walk, 4)
            if type(key) is not str:
                key = _key(key, path)
            _text(key, path, walk)
            result[key] = _nested(item, f"{path}.{key}" if path else key, depth + 1, walk)
    else:
        result = []
        for index, item in enumerate(value):
            _take(walk, 2)
            result.append(_nested(item, f"{path}.{index}" if path else str(index), depth + 1, walk))
    above.discard(id(value))
    return result


def _take(walk: _Walk, size: int) -> None:
    walk.room -= size
    if walk.room < 0:
        raise TooLargeError


def _key(key: Any, path: str) -> str:
    if isinstance(key, str):
        return str.__str__(key)
    raise UnfitValueError(
        "non-string-key",
        f"{_at(path)} has the key {_shown(key)} of type {type(key).__name__}: JSON keys are strings",
    )


def _other(value: Any, path: str, depth: int, walk: _Walk) -> Any:
    if isinstance(value, str):
        return _text(str.__str__(value), path, walk)
    if isinstance(value, int):
        return int.__index__(value)
    if isinstance(value, float):
        return _nested(float.__float__(value), path, depth, walk)
    if _is_scalar_array(value):
        item = value.item()
        if isinstance(item, _SCALARS):
            return _nested(item, path, depth + 1, walk)
    elif _is_record(value):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return _container(fields, path, depth, walk)
    raise UnfitValueError(
        "not-json-serialisable",
        f"{_at(path)} is {_article(value)}: JSON holds dicts, lists, strings, numbers, bools and null",
    )


def _text(value: str, path: str, walk: _Walk) -> str:
    _take(walk, len(value))
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

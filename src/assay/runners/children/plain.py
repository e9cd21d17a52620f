"""What the author's code returned, as plain JSON values: converted where that loses nothing, refused otherwise."""
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

import dataclasses
from typing import Any

MAX_DEPTH = 64
_SCALARS = (str, int, float, bool, type(None))
_FEW = 32
_DATES = ("date", "datetime", "time")
# What an author can do with a value that JSON has no place for, by module and name of its class or one above.
_ADVICE = {
    ("decimal", "Decimal"): "make a number of it with float()",
    ("fractions", "Fraction"): "make a number of it with float()",
    ("builtins", "complex"): "make numbers of it with .real and .imag",
    ("builtins", "bytes"): "make text of it with .decode()",
    ("builtins", "bytearray"): "make text of it with .decode()",
    ("builtins", "memoryview"): "make text of it with bytes() and .decode()",
    ("builtins", "set"): "make a list of it with sorted()",
    ("builtins", "frozenset"): "make a list of it with sorted()",
    ("builtins", "range"): "make a list of it with list()",
    ("builtins", "generator"): "make a list of it with list()",
    ("builtins", "map"): "make a list of it with list()",
    ("builtins", "filter"): "make a list of it with list()",
    ("builtins", "zip"): "make a list of it with list()",
    ("builtins", "dict_keys"): "make a list of it with list()",
    ("builtins", "dict_values"): "make a list of it with list()",
    ("builtins", "dict_items"): "make a list of it with list()",
    ("builtins", "mappingproxy"): "make a dict of it with dict()",
    ("collections", "deque"): "make a list of it with list()",
    ("builtins", "coroutine"): "was an await forgotten?",
    ("datetime", "timedelta"): "make a number of it with .total_seconds()",
    ("uuid", "UUID"): "make text of it with str()",
    ("pathlib", "PurePath"): "make text of it with str()",
    ("enum", "Enum"): "take its .value",
    ("numpy", "ndarray"): "make a list of it with .tolist()",
    ("numpy", "datetime64"): "make text of it with str()",
    ("numpy", "timedelta64"): "make text of it with str()",
    ("numpy", "longdouble"): "make a number of it with float()",
}


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
    if not (isinstance(value, (dict, list, tuple, str, int, float)) or _is_number(value) or _is_record(value)):
        raise UnfitValueError(
            "unsupported-return-type",
            f"the code returned {_article(value)}; it may return a dict, a list, a string, a number, a bool or None"
            f"{_advice(value)}",
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
    """Return a dict, list, tuple or dataclass as it is, whatever its class makes of iterating over it."""
    if depth > MAX_DEPTH:
        raise UnfitValueError("too-deep", f"the returned value is nested more than {MAX_DEPTH} levels deep")
    above = walk.above
    if id(value) in above:
        raise UnfitValueError("not-json-serialisable", f"{_at(path)} contains itself")
    above.add(id(value))
    if isinstance(value, (list, tuple)):
        result: Any = []
        for index, item in enumerate(list.__iter__(value) if isinstance(value, list) else tuple.__iter__(value)):
            _take(walk, 2)
            result.append(_nested(item, f"{path}.{index}" if path else str(index), depth + 1, walk))
    else:
        result = {}
        for key, item in dict.items(value) if isinstance(value, dict) else _fields(value):
            _take(walk, 4)
            if type(key) is not str:
                key = _key(key, path)
            _text(key, path, walk)
            result[key] = _nested(item, f"{path}.{key}" if path else key, depth + 1, walk)
        if isinstance(value, dict) and len(result) < dict.__len__(value):
            raise UnfitValueError("not-json-serialisable", f"{_at(path)} has two keys that are the same text")
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
    if _is_number(value):
        return _nested(value.item(), path, depth, walk)
    if _is_record(value):
        return _container(value, path, depth, walk)
    if _is_date(value):
        # A date that is none, as pandas has one, differs from itself.
        text = type(value).isoformat(value)
        if type(text) is str and value == value:
            return _text(text, path, walk)
    raise UnfitValueError(
        "not-json-serialisable",
        f"{_at(path)} is {_article(value)}: JSON holds dicts, lists, strings, numbers, bools and null{_advice(value)}",
    )


def _text(value: str, path: str, walk: _Walk) -> str:
    _take(walk, len(value))
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise UnfitValueError("bad-unicode", f"{_at(path)} has half of a surrogate pair: not valid text") from None
    return value


def _is_number(value: Any) -> bool:
    """Tell whether this is a numpy scalar that stands for a plain one; dates and long doubles would lose by it."""
    kind = type(value)
    if kind.__module__ != "numpy" or not hasattr(kind, "item") or _known(kind) is not None:
        return False
    return type(value.item()) in _SCALARS


def _is_date(value: Any) -> bool:
    return any(above.__module__ == "datetime" and above.__name__ in _DATES for above in type(value).__mro__)


def _fields(value: Any) -> list[tuple[str, Any]]:
    return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]


def _is_record(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _at(path: str) -> str:
    return f"the value at {path[:200]!r}" if path else "the returned value"


def _shown(key: Any) -> str:
    return repr(key)[:80] if isinstance(key, (int, float, tuple, bytes, type(None))) else "of its own kind"


def _known(kind: type) -> str | None:
    """Return the advice for the first class that has one."""
    return next((known for above in kind.__mro__ if (known := _ADVICE.get((above.__module__, above.__name__)))), None)


def _advice(value: Any) -> str:
    known = _known(type(value))
    return f"; {known}" if known else ""


def _article(value: Any) -> str:
    name = type(value).__name__
    return f"a {name}" if name[:1].lower() not in "aeiou" else f"an {name}"

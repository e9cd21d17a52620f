"""Everything that restricted code can get by attributes, items and types from what it is offered."""

import collections
import datetime
import decimal
import difflib
import functools
import io
import itertools
import json
import os
import random
import re
import string
import sys
import textwrap
import types
import typing
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from assay.runners.children.faults import SandboxViolationError
from assay.runners.children.worker_python import SpanRecord, TraceView
from assay.runners.restricted import guards
from assay.runners.restricted.builtins import RESTRICTED_BUILTINS
from assay.runners.restricted.classes import make_class, type_of
from assay.runners.restricted.modules import MODULES

LEADING_OUT = (types.ModuleType, types.FrameType, types.CodeType, types.TracebackType, types.CellType, io.IOBase)
DANGEROUS: tuple[Any, ...] = (
    getattr, setattr, delattr, eval, exec, compile, open, __import__, globals, locals, vars, dir, type, input,
    breakpoint, memoryview, str.format, str.format_map, os.execv, sys.exit, object.__getattribute__, string.Formatter,
    types.FunctionType, types.MethodType, types.GenericAlias, functools.update_wrapper, functools.singledispatch,
    collections.namedtuple, collections.UserString, typing.get_type_hints,
)  # fmt: skip
DEEPEST = 4
HARMLESS_MODULES = (
    "_collections_abc", "abc", "assay.runners.children.faults", "assay.runners.restricted", "builtins", "collections",
    "datetime", "decimal", "difflib", "fractions", "functools", "itertools", "json", "random", "re", "statistics",
    "string", "textwrap", "typing", "unicodedata", "_functools", "_hashlib", "_thread", "_blake2",
)  # fmt: skip


def steps() -> Iterator[int]:
    yield 1


async def waits() -> None:
    pass


def failed_json() -> Exception:
    try:
        json.loads("{")
    except ValueError as error:
        return error
    raise AssertionError


@pytest.fixture
def given() -> Iterator[list[Any]]:
    """What code is offered by name, and an object of each kind it can make."""
    waiting = waits()
    offered = [value for name, value in RESTRICTED_BUILTINS.items() if not name.startswith("_")]
    yield [
        *offered, *MODULES.values(), TraceView(b"[]"), TraceView(b"[{}]").get_spans(), SpanRecord(a=1),
        waiting, failed_json(), "text", b"bytes", 1, 1.5, 1j, [1], (1,), {1}, {1: 2}, range(3), slice(1), None, ...,
        NotImplemented,
        steps(), iter([1]), enumerate([1]), map(len, [""]), itertools.chain([1]), itertools.cycle([1]),
        re.compile("(?P<a>x)"), re.match("(?P<a>x)", "x"), re.finditer("x", "x"), re.IGNORECASE,
        datetime.datetime.now(datetime.UTC), datetime.timedelta(1), decimal.Decimal(1), decimal.getcontext(),
        decimal.localcontext(), collections.Counter("a"), collections.defaultdict(int), collections.deque([1]),
        collections.ChainMap({}), collections.OrderedDict(), functools.partial(len), functools.lru_cache(len),
        functools.cached_property(len), random.Random(1), textwrap.TextWrapper(), string.Template("$a"),
        difflib.SequenceMatcher(None, "a", "b"), difflib.Differ(), json.JSONEncoder(), json.JSONDecoder(),
        property(len), staticmethod(len), classmethod(isinstance), super(dict, collections.Counter()), list[int],
        int | str, ValueError(1), AttributeError("x", name="x", obj=sys), OSError(1, "x"), StopIteration(1),
    ]  # fmt: skip
    waiting.close()


def names_of(found: Any) -> set[str]:
    return {*dir(found), *getattr(found, "__dict__", {})}


def next_to(found: Any) -> Iterator[tuple[str, Any]]:
    for name in names_of(found):
        with suppress(AttributeError, SandboxViolationError, TypeError, ValueError):
            yield name, guards.read(found, name)
    with suppress(SandboxViolationError):
        yield "type()", type_of(found)
    items: Any = found.values() if isinstance(found, (dict, types.MappingProxyType)) else found  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if isinstance(found, (dict, types.MappingProxyType, list, tuple, set, frozenset)):
        yield from (("[]", item) for item in items)


def test_no_way_leads_to_a_module_a_frame_or_what_makes_code(given: list[Any]) -> None:
    seen: dict[int, Any] = {}
    waiting: list[tuple[tuple[str, ...], Any]] = [((type(value).__name__,), value) for value in given]
    while waiting:
        way, found = waiting.pop()
        if id(found) in seen or len(way) > DEEPEST:
            continue
        seen[id(found)] = found
        assert not isinstance(found, LEADING_OUT), way
        assert not any(found is each for each in DANGEROUS), way
        if isinstance(found, type):
            assert found.__module__.startswith(HARMLESS_MODULES), way
            assert not issubclass(found, type), way
        waiting += [((*way, name), value) for name, value in next_to(found)]
    assert len(seen) > 1000


@pytest.mark.parametrize("base", [types.GenericAlias, type(list[int]), TraceView, type(MODULES["json"]), type])
def test_no_class_is_made_of_a_base_that_was_never_offered(base: type) -> None:
    with pytest.raises(SandboxViolationError, match="base class"):
        make_class("Mine", (base,), {})

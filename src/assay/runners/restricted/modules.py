"""The modules that restricted code may import: stand-ins that hold the names listed here, and lead nowhere else.

A name is listed only when what it gives reads no attribute by a name the caller chooses, evaluates no text, and
imports, opens or changes nothing of the process.
"""

import __future__

import collections
import collections.abc
import datetime
import decimal
import difflib
import fractions
import functools
import hashlib
import importlib
import itertools
import json
import math
import random
import re
import statistics
import string
import textwrap
import types
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from assay.runners.children.faults import SandboxViolationError
from assay.runners.children.frames import MODULE_NAME
from assay.runners.restricted.guards import is_written, is_written_function, refuse
from assay.runners.restricted.hints import HINTS

# Modules written in C import these by way of the caller's own import function, and then take what is loaded.
_IMPORTED_INSIDE = frozenset(("_strptime", "time", "warnings", "json.decoder", "numbers", "copyreg"))
for _name in _IMPORTED_INSIDE:
    importlib.import_module(_name)


class RefusedImportError(SandboxViolationError, ImportError):
    """A module is not among those offered."""


class Offered:
    """A stand-in for a module."""

    def __init__(self, name: str, names: Mapping[str, Any]) -> None:
        self._name = name
        vars(self).update(names)

    def __getattr__(self, name: str) -> NoReturn:
        # Not an AttributeError: after one, an import statement would look among the modules really loaded.
        raise SandboxViolationError(f"{self._name}.{name} is not available in restricted code")

    def __repr__(self) -> str:
        return f"<module {self._name!r}>"


def import_module(
    name: str, globals: object = None, locals: object = None, fromlist: Sequence[str] | None = (), level: int = 0
) -> Offered:
    """Return the stand-in that an import statement asks for. Raises RefusedImportError."""
    module = None if level else MODULES.get(name)
    if module is None:
        if name in _IMPORTED_INSIDE:
            return Offered(name, {})
        offered = ", ".join(sorted(name for name in MODULES if not name.startswith("_")))
        raise RefusedImportError(f"the module {name!r} is not available in restricted code; there are {offered}")
    return module if fromlist else MODULES[name.partition(".")[0]]


def _public(module: types.ModuleType) -> dict[str, Any]:
    """Return all of a module that is written in C and holds plain functions and numbers."""
    return {name: value for name, value in vars(module).items() if not name.startswith("_")}


def _named(module: types.ModuleType, names: str) -> dict[str, Any]:
    return {name: getattr(module, name) for name in names.split()}


def _wraps(wrapped: Any) -> Callable[[Any], Any]:
    """Stand in for functools.wraps, which copies whichever attributes it is told to."""

    def decorate(wrapper: Any) -> Any:
        if is_written_function(wrapper):
            wrapper.__name__ = str(getattr(wrapped, "__name__", wrapper.__name__))
            wrapper.__doc__ = getattr(wrapped, "__doc__", None)
        return wrapper

    return decorate


def _total_ordering(kind: Any) -> Any:
    """Stand in for functools.total_ordering, which adds methods to any class."""
    return functools.total_ordering(kind) if is_written(kind) else refuse(f"ordering {kind.__name__!r}")


def _namedtuple(typename: str, field_names: str | Iterable[str], *, defaults: Iterable[Any] | None = None) -> Any:
    """Stand in for collections.namedtuple, which evaluates text made of the names."""
    fields = field_names.replace(",", " ").split() if type(field_names) is str else list(field_names)
    if not all(type(name) is str for name in (typename, *fields)):
        raise TypeError("type names and field names must be strings")
    return collections.namedtuple(typename, fields, defaults=defaults, module=MODULE_NAME)  # pyright: ignore[reportUntypedNamedTuple]


_ABC = Offered(
    "collections.abc",
    _named(
        collections.abc,
        "Callable Collection Container Hashable ItemsView Iterable Iterator KeysView Mapping MappingView"
        " MutableMapping MutableSequence MutableSet Reversible Sequence Set Sized ValuesView",
    ),
)
_NAMES: dict[str, dict[str, Any]] = {
    "__future__": {name: getattr(__future__, name) for name in __future__.all_feature_names},
    "collections": {
        **_named(collections, "ChainMap Counter OrderedDict defaultdict deque"),
        "namedtuple": _namedtuple,
        "abc": _ABC,
    },
    "datetime": _named(datetime, "MAXYEAR MINYEAR UTC date datetime time timedelta timezone tzinfo"),
    "decimal": _named(
        decimal,
        "Clamped Context ConversionSyntax Decimal DecimalException DivisionByZero DivisionImpossible"
        " DivisionUndefined FloatOperation Inexact InvalidOperation Overflow ROUND_05UP ROUND_CEILING ROUND_DOWN"
        " ROUND_FLOOR ROUND_HALF_DOWN ROUND_HALF_EVEN ROUND_HALF_UP ROUND_UP Rounded Subnormal Underflow"
        " getcontext localcontext setcontext",
    ),
    "difflib": _named(difflib, "Differ SequenceMatcher context_diff get_close_matches ndiff restore unified_diff"),
    "fractions": _named(fractions, "Fraction"),
    "functools": {
        **_named(functools, "cache cached_property cmp_to_key lru_cache partial reduce"),
        "total_ordering": _total_ordering,
        "wraps": _wraps,
    },
    "hashlib": _named(
        hashlib,
        "blake2b blake2s md5 sha1 sha224 sha256 sha384 sha512 sha3_224 sha3_256 sha3_384 sha3_512 shake_128"
        " shake_256 new pbkdf2_hmac",
    ),
    "itertools": _public(itertools),
    "json": _named(json, "JSONDecodeError JSONDecoder JSONEncoder dumps loads"),
    "math": _public(math),
    "random": _named(
        random,
        "Random betavariate choice choices expovariate gammavariate gauss getrandbits lognormvariate normalvariate"
        " paretovariate randbytes randint random randrange sample seed shuffle triangular uniform vonmisesvariate"
        " weibullvariate",
    ),
    "re": _named(
        re,
        "A ASCII DOTALL I IGNORECASE L LOCALE M MULTILINE Match NOFLAG Pattern S U UNICODE VERBOSE X compile"
        " error escape findall finditer fullmatch match purge search split sub subn",
    ),
    "statistics": _named(
        statistics,
        "NormalDist StatisticsError correlation covariance fmean geometric_mean harmonic_mean linear_regression mean"
        " median median_grouped median_high median_low mode multimode pstdev pvariance quantiles stdev variance",
    ),
    "string": _named(
        string,
        "Template ascii_letters ascii_lowercase ascii_uppercase capwords digits hexdigits octdigits printable"
        " punctuation whitespace",
    ),
    "textwrap": _named(textwrap, "TextWrapper dedent fill indent shorten wrap"),
    "typing": HINTS,
    "unicodedata": _public(unicodedata),
}
MODULES: dict[str, Offered] = {
    "collections.abc": _ABC,
    **{name: Offered(name, names) for name, names in _NAMES.items()},
}

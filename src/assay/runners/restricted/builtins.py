"""The builtins of restricted code: those that reach nothing, guarded stand-ins, and refusals by name."""

import builtins
from typing import Any

from assay.runners.restricted import guards
from assay.runners.restricted.classes import make_class, type_of
from assay.runners.restricted.modules import import_module

_HARMLESS = (
    "abs", "all", "any", "ascii", "bin", "bool", "bytes", "callable", "chr", "classmethod", "complex",
    "dict", "divmod", "enumerate", "filter", "float", "format", "frozenset", "hash", "hex", "id", "int",
    "isinstance", "issubclass", "iter", "len", "list", "map", "max", "min", "next", "object", "oct", "ord", "pow",
    "property", "range", "repr", "reversed", "round", "set", "slice", "sorted", "staticmethod", "str", "sum", "super",
    "tuple", "zip", "Ellipsis", "False", "None", "NotImplemented", "True", "__build_class__",
)  # fmt: skip
_REFUSED = (
    "breakpoint", "bytearray", "compile", "dir", "eval", "exec", "exit", "globals", "help", "input", "locals",
    "memoryview", "open", "quit", "vars",
)  # fmt: skip


def _print(*values: Any, sep: str | None = " ", end: str | None = "\n", flush: bool = False) -> None:
    """Print to the evaluation's logs, and nowhere else."""
    print(*values, sep=sep, end=end)


def _exceptions() -> dict[str, Any]:
    """Return the exceptions of Python but for groups, whose methods hand code to the interpreter's own frames."""
    return {
        name: value
        for name, value in vars(builtins).items()
        if isinstance(value, type) and issubclass(value, BaseException) and not name.endswith("ExceptionGroup")
    }


# Code looks names up here when its module does not define them; it can name neither the guards nor this.
RESTRICTED_BUILTINS: dict[str, Any] = {
    **{name: getattr(builtins, name) for name in _HARMLESS},
    **_exceptions(),
    **{name: guards.refusing(name) for name in _REFUSED},
    "print": _print,
    "getattr": guards.read,
    "hasattr": guards.has,
    "setattr": guards.set_attribute,
    "delattr": guards.delete_attribute,
    "type": type_of,
    "__import__": import_module,
    "__metaclass__": make_class,
    "_getattr_": guards.read,
    "_write_": guards.write,
    "_hold_": guards.hold,
    "_update_": guards.update,
}

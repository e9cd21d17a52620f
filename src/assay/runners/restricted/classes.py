"""Which classes restricted code can name and build on: those it is offered, and its own."""

from types import NoneType
from typing import Any, cast

from assay.runners.restricted.guards import is_written, refuse
from assay.runners.restricted.modules import MODULES

_BUILTIN = (bool, bytes, complex, dict, float, frozenset, int, list, object, range, set, slice, str, tuple, NoneType)
_OFFERED = frozenset(
    (
        *_BUILTIN,
        *(value for module in MODULES.values() for value in vars(module).values() if isinstance(value, type)),
    )
)


def type_of(value: Any) -> Any:
    """Return the type of a value; that of a class is this function, since the real one makes classes of anything."""
    kind = cast("type[Any]", type(value))
    if issubclass(kind, type):
        return type_of
    if not _is_known(kind):
        refuse(f"the type {kind.__name__!r}")
    return kind


def make_class(name: str, bases: tuple[Any, ...], namespace: dict[str, Any]) -> type:
    """Make the class of a class statement. Raises SandboxViolationError for a base that was never offered."""
    for base in bases:
        if not (isinstance(base, type) and _is_known(base)):
            refuse(f"the base class {getattr(base, '__name__', base)!r}")
    return type(name, bases, namespace)


def _is_known(kind: type[Any]) -> bool:
    return kind in _OFFERED or issubclass(kind, BaseException) or is_written(kind)

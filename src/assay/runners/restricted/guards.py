"""What stands between restricted code and the objects it holds: reading attributes, setting them, and formats."""

import _string  # pyright: ignore[reportMissingImports]
import operator
import string
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Context
from functools import partial
from typing import Any, NoReturn, cast

from assay.runners.children.faults import SandboxViolationError
from assay.runners.children.frames import MODULE_NAME
from assay.runners.restricted.policy import HIDDEN

_INTERNAL: tuple[type, ...] = (
    types.ModuleType, types.FrameType, types.CodeType, types.TracebackType, types.CellType,
)  # fmt: skip
# Names that are safe on what the code itself defined: elsewhere they lead to objects it does not hold, or change
# classes that all share.
_ONLY_OWN = ("obj", "register")
_NOTHING = object()
_module_of: Callable[[type], str] = type.__dict__["__module__"].__get__
_split_field: Callable[[str], tuple[Any, Iterable[tuple[bool, Any]]]] = _string.formatter_field_name_split  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


_IN_PLACE: dict[str, Callable[[Any, Any], Any]] = {
    node: getattr(operator, name)
    for node, name in (
        ("Add", "iadd"), ("Sub", "isub"), ("Mult", "imul"), ("MatMult", "imatmul"), ("Div", "itruediv"),
        ("FloorDiv", "ifloordiv"), ("Mod", "imod"), ("Pow", "ipow"), ("LShift", "ilshift"), ("RShift", "irshift"),
        ("BitAnd", "iand"), ("BitOr", "ior"), ("BitXor", "ixor"),
    )
}  # fmt: skip


def read(obj: Any, name: str, default: Any = _NOTHING) -> Any:
    """Return an attribute, as `getattr` does. Raises SandboxViolationError when it leads out."""
    if type(name) is not str:
        raise TypeError("attribute name must be string")
    if name == "__name__":
        return _name_of(obj)
    if name in HIDDEN or (name[:1] == "_" and not _is_own(obj, name)):
        refuse(f"the attribute {name!r}")
    if name in _ONLY_OWN and (isinstance(obj, AttributeError) or not is_written(_class_of(obj))):
        refuse(f"the attribute {name!r}")
    value = getattr(obj, name) if default is _NOTHING else getattr(obj, name, default)
    if isinstance(value, _INTERNAL):
        refuse(f"the attribute {name!r}")
    # Judged by what came, not by what was asked: generic aliases and super() pass the question on.
    return _guarded_format(value) if name in ("format", "format_map") else value


def has(obj: Any, name: str) -> bool:
    """Tell whether an attribute can be read, as `hasattr` does."""
    try:
        read(obj, name)
    except (AttributeError, SandboxViolationError):
        return False
    return True


def write(obj: Any) -> Any:
    """Return an object whose attributes may be set and deleted. Raises SandboxViolationError for any other."""
    if is_written(_class_of(obj)) or type(obj) is Context or is_written_function(obj):
        return obj
    return refuse("setting an attribute of what the code did not define")


def set_attribute(obj: Any, name: str, value: Any) -> None:
    """Set an attribute, as `setattr` does."""
    setattr(write(obj), _writable(name), value)


def delete_attribute(obj: Any, name: str) -> None:
    """Delete an attribute, as `delattr` does."""
    delattr(write(obj), _writable(name))


def hold(obj: Any, name: str) -> tuple[Any, str, Any]:
    """Read an attribute that is about to be updated."""
    return write(obj), name, read(obj, name)


def update(held: tuple[Any, str, Any], operation: str, value: Any) -> None:
    """Finish an augmented assignment to an attribute."""
    obj, name, current = held
    set_attribute(obj, name, _IN_PLACE[operation](current, value))


def refuse(what: str) -> NoReturn:
    """Raise SandboxViolationError."""
    raise SandboxViolationError(f"{what} is not available in restricted code")


def refusing(name: str) -> Callable[..., NoReturn]:
    """Return a function that stands for one that is not there."""

    def refused(*_: Any, **__: Any) -> NoReturn:
        refuse(f"{name}()")

    return refused


def _name_of(obj: Any) -> str:
    """Return the name of a class or function, which is what most who ask for a type are after."""
    name = getattr(obj, "__name__")  # noqa: B009 - an AttributeError is theirs
    return name if type(name) is str else refuse("the attribute '__name__'")


def _writable(name: str) -> str:
    if type(name) is not str:
        raise TypeError("attribute name must be string")
    if name in HIDDEN or name.startswith("__"):
        refuse(f"the attribute {name!r}")
    return name


def is_written_function(obj: Any) -> bool:
    """Tell whether the code itself defined this function."""
    return isinstance(obj, types.FunctionType) and obj.__globals__.get("__name__") == MODULE_NAME  # pyright: ignore[reportUnknownMemberType]


def _class_of(obj: Any) -> type[Any]:
    kind = cast("type[Any]", type(obj))
    return obj if issubclass(kind, type) else kind


def is_written(kind: type[Any]) -> bool:
    """Tell whether the code itself defined the class: it can give that module name to no other."""
    return _module_of(kind) == MODULE_NAME


def _is_own(obj: Any, name: str) -> bool:
    """Tell whether a name with an underscore can only be one that the code gave, to a class or object of its own."""
    kind = _class_of(obj)
    if name.startswith("__") or not is_written(kind):
        return False
    return not any(name in vars(base) for base in kind.__mro__ if not is_written(base))


class _Formatter(string.Formatter):
    """Formats as `str.format` does, with the attributes that fields name under guard."""

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        first, rest = _split_field(field_name)
        value = self.get_value(first, args, kwargs)
        for is_attribute, key in rest:
            value = read(value, key) if is_attribute else value[key]
        return value, first


_format = _Formatter().vformat


def _format_text(template: str, /, *args: Any, **kwargs: Any) -> str:
    return _format(str.__str__(template), args, kwargs)


def _format_map(template: str, mapping: Mapping[str, Any], /) -> str:
    return _format(str.__str__(template), (), mapping)


def _guarded_format(method: Any) -> Any:
    """Return the guarded form of a formatting method of text, and anything else as it is."""
    if method is str.format:
        return _format_text
    if method is str.format_map:
        return _format_map
    if type(method) is types.BuiltinMethodType and isinstance(method.__self__, str):
        return partial(_format_text if method.__name__ == "format" else _format_map, method.__self__)
    return method

"""What restricted code gets for `typing`: real containers, and for all else a hint that means nothing.

Annotations are left out of restricted code, so nobody asks what a hint says; the real ones read attributes and
globals by names that can be chosen.
"""

import collections
import collections.abc
from collections.abc import Callable
from typing import Any

_MEANINGLESS = (
    "Annotated Any AnyStr ClassVar Concatenate Final Literal LiteralString Never NoReturn NotRequired Optional"
    " ParamSpec ReadOnly Required Self SupportsAbs SupportsFloat SupportsIndex SupportsInt SupportsRound Type"
    " TypeAlias TypeGuard TypeVar TypeVarTuple Union Unpack"
)
_ABSTRACT = (
    "Awaitable Callable Collection Container Coroutine Generator Hashable ItemsView Iterable Iterator KeysView Mapping"
    " MutableMapping MutableSequence MutableSet Reversible Sequence Sized ValuesView"
)


class Hint:
    """A hint: it can be subscripted, called and joined by `|`, and stays what it is."""

    def __call__(self, *_: Any, **__: Any) -> "Hint":
        """Stay what it is."""
        return self

    def __getitem__(self, _: Any) -> "Hint":
        return self

    def __or__(self, _: Any) -> "Hint":
        return self

    def __ror__(self, _: Any) -> "Hint":
        return self


class Generic:
    """A base class that can be subscripted, as can its subclasses."""

    def __class_getitem__(cls, _: Any) -> type:
        return cls


def _cast(_: Any, value: Any) -> Any:
    return value


def _new_type(_: Any, kind: Any) -> Callable[[Any], Any]:
    return lambda value: value


def _itself(decorated: Any) -> Any:
    return decorated


HINTS: dict[str, Any] = {
    **dict.fromkeys(_MEANINGLESS.split(), Hint()),
    **{name: getattr(collections.abc, name) for name in _ABSTRACT.split()},
    "Counter": collections.Counter,
    "DefaultDict": collections.defaultdict,
    "Deque": collections.deque,
    "Dict": dict,
    "FrozenSet": frozenset,
    "Generic": Generic,
    "List": list,
    "NewType": _new_type,
    "OrderedDict": collections.OrderedDict,
    "Protocol": Generic,
    "Set": set,
    "TYPE_CHECKING": False,
    "Text": str,
    "Tuple": tuple,
    "cast": _cast,
    "final": _itself,
    "runtime_checkable": _itself,
}

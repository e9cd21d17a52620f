"""Brings packages into a zygote, each from its own files: nothing else that is installed beside them can be imported.

Used once more by the probe that finds the shared libraries they map. It stays as lean as the zygote.
"""

import contextlib
import importlib
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pkgutil import iter_modules
from types import ModuleType

# What these libraries would do in threads, which a confined child may not start.
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "RAYON_NUM_THREADS")
# Parts that their packages load late, and most who use the package want.
_WANTED = (
    "dateutil.parser", "dateutil.relativedelta", "dateutil.rrule", "dateutil.tz", "numpy.fft", "numpy.linalg",
    "numpy.ma", "numpy.polynomial", "numpy.random", "rapidfuzz.distance", "rapidfuzz.fuzz", "rapidfuzz.process",
)  # fmt: skip
_NOT_FOR_USE = frozenset(("__main__", "conftest", "test", "tests"))


class PackageFinder(MetaPathFinder):
    """Finds top-level modules by the file of each: no folder is searched, or even listed."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = files

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where the module is; None when it is not one of those known."""
        file = self._files.get(fullname)
        if file is None or path is not None:
            return None
        folder, name = os.path.split(file)
        within = [folder] if name.startswith("__init__.") else None
        return spec_from_file_location(fullname, file, submodule_search_locations=within)


def bring_in(files: Mapping[str, str], offered: Sequence[str], *, whole: bool) -> None:
    """Import these modules, whose files are given by name; with `whole`, all that is below them too.

    Raises what an `offered` one raises. The others are those it may need, and are passed over where they do not load.
    """
    sys.meta_path.append(PackageFinder(files))
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))
    for name in offered:
        importlib.import_module(name)
    for name in (*files, *(name for name in _WANTED if name.partition(".")[0] in files)):
        _try(name)
    if whole:
        # Many parts only warn that they are old, and nobody reads what a zygote says once it serves.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name in files:
                _import_below(sys.modules.get(name))
    if "tzdata" in files:
        import zoneinfo

        # The time zones of the machine are out of reach, those of the package are not.
        zoneinfo.reset_tzpath(())
    if "numpy" in files:
        # Otherwise every child would draw the same numbers; `random` of the standard library sees to that itself.
        os.register_at_fork(after_in_child=sys.modules["numpy"].random.seed)
    for name in _ONE_THREAD:
        del os.environ[name]


def _import_below(module: ModuleType | None) -> None:
    for found in iter_modules(getattr(module, "__path__", ()), f"{module.__name__}." if module else ""):
        last = found.name.rpartition(".")[2]
        if last not in _NOT_FOR_USE and not last.startswith("test_"):
            _try(found.name)
            _import_below(sys.modules.get(found.name))


def _try(name: str) -> None:
    # Whatever a module of somebody else's does when it does not suit this machine.
    with contextlib.suppress(Exception, SystemExit):
        importlib.import_module(name)

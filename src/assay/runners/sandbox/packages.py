"""Which installed packages the code of evaluators may import, with the files of each and of all that it needs."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.machinery import all_suffixes
from importlib.metadata import Distribution, PackageNotFoundError, distribution, packages_distributions
from pathlib import Path

from assay.errors import ConfigurationError

DEFAULT_PACKAGES = ("numpy", "pandas", "jsonschema", "rapidfuzz", "regex", "python-dateutil")
_SETTING = "ASSAY_SANDBOX_PACKAGES"
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_EXTRA = re.compile(r"\bextra\s*==")
_NOT_FOR_USE = frozenset(("__pycache__", "conftest", "docs", "examples", "test", "tests"))
# A fork of a process that holds this one copies so many more pages that only those who import it should pay for it.
_HEAVY = "pandas"


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """An installed package by its distribution: its version, its top-level modules with their files, and its trees.

    `modules` and `trees` (files and folders, all real paths) include those of the distributions it needs; `own` are
    the names of its own modules, `needs` the normalised names of all distributions, its own among them.
    """

    name: str
    version: str
    own: tuple[str, ...]
    modules: tuple[tuple[str, str], ...]
    trees: tuple[str, ...]
    needs: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flavour:
    """What one kind of Python zygote holds beside the standard library; nothing at all is the lean one."""

    name: str = "python"
    packages: tuple[Package, ...] = ()

    @property
    def offered(self) -> tuple[str, ...]:
        """Return the modules of the packages themselves."""
        return tuple(sorted({name for package in self.packages for name in package.own}))

    @property
    def files(self) -> dict[str, str]:
        """Return the file of each top-level module that can be imported, by its name."""
        return {name: file for package in self.packages for name, file in package.modules}

    @property
    def trees(self) -> tuple[str, ...]:
        """Return the files and folders that may be read for them."""
        return tuple(dict.fromkeys(tree for package in self.packages for tree in package.trees))


LEAN = Flavour()


def installed_packages(names: Sequence[str] | None) -> tuple[Package, ...]:
    """Return the packages of these names (distributions, as pip has them); None: the default ones that are installed.

    Raises ConfigurationError for a name that is none, or of no installed package, or of one that has no files.
    """
    if names is not None:
        return tuple({_normalised(name): _named(name) for name in names}.values())
    found: list[Package] = []
    for name in DEFAULT_PACKAGES:
        try:
            found.append(_package(name, distribution(name)))
        except (PackageNotFoundError, ConfigurationError):
            continue
    return tuple(found)


def flavours(packages: Sequence[Package]) -> list[Flavour]:
    """Return the kinds of Python zygotes that offer these packages, the lighter first: none, one or two."""
    light = tuple(package for package in packages if _HEAVY not in package.needs)
    kinds = [Flavour(name="python with packages", packages=light)] if light else []
    if len(light) < len(packages):
        kinds.append(Flavour(name=f"python with {_HEAVY}", packages=tuple(packages)))
    return kinds


def _named(name: str) -> Package:
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{_SETTING}: {name!r} is no name of a package; write it as pip lists it, without version or path, like "
            '["numpy", "python-dateutil"].'
        )
    try:
        return _package(name, distribution(name))
    except PackageNotFoundError:
        brought_by = packages_distributions().get(name, [])
        hint = (
            f"the module of that name is brought by {' and '.join(sorted(set(brought_by)))}: name that instead"
            if brought_by
            else "install it beside Assay, or leave it out"
        )
        raise ConfigurationError(f"{_SETTING}: no package {name!r} is installed; {hint}.") from None


def _package(name: str, found: Distribution) -> Package:
    own = dict(_modules(found))
    if not own:
        raise ConfigurationError(
            f"{_SETTING}: the package {name!r} is installed without modules of its own that could be offered "
            "(as an editable or a namespace package); install it as usual, or leave it out."
        )
    closure = _closure(found)
    return Package(
        name=_normalised(name),
        version=found.version,
        own=tuple(sorted(own)),
        modules=tuple(sorted({module for part in closure.values() for module in _modules(part)})),
        trees=tuple(sorted({str(tree) for part in closure.values() for tree in _trees(part)})),
        needs=frozenset(closure),
    )


def _closure(found: Distribution) -> dict[str, Distribution]:
    """Return the distribution with those it needs and theirs, as far as they are installed, by normalised name."""
    closure: dict[str, Distribution] = {}
    waiting = [found]
    while waiting:
        part = waiting.pop()
        name = _normalised(part.metadata["Name"])
        if name in closure:
            continue
        closure[name] = part
        for requirement in part.requires or ():
            needed = _NAME.match(requirement)
            if needed is not None and not _EXTRA.search(requirement):
                try:
                    waiting.append(distribution(needed[0]))
                except PackageNotFoundError:
                    continue
    return closure


def _modules(found: Distribution) -> Iterable[tuple[str, str]]:
    """Return the top-level modules of a distribution, each with its file."""
    suffixes = tuple(all_suffixes())
    for path in found.files or ():
        is_package = len(path.parts) == 2 and path.name.startswith("__init__.")
        name = path.parts[0].partition(".")[0]
        if (is_package or len(path.parts) == 1) and path.name.endswith(suffixes):
            file = Path(str(found.locate_file(path))).resolve()
            if name.isidentifier() and name not in _NOT_FOR_USE and file.is_file():
                yield name, str(file)


def _trees(found: Distribution) -> Iterable[Path]:
    """Return the top-level files and folders of a distribution, without what only tells about it."""
    root = Path(str(found.locate_file(""))).resolve()
    for top in {path.parts[0] for path in found.files or ()}:
        tree = root / top
        if top not in ("..", "__pycache__") and not top.endswith((".dist-info", ".egg-info", ".pth")) and tree.exists():
            yield tree


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()

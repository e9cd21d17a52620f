"""Which packages are offered, with what they need, and which sources are taken to import one."""

import ast
from pathlib import Path

import pytest

from assay.errors import ConfigurationError
from assay.runners.children.inspection_imports import imported
from assay.runners.sandbox import packages
from assay.runners.sandbox.packages import DEFAULT_PACKAGES, flavours, installed_packages


def test_unless_told_otherwise_the_usual_ones_are_offered() -> None:
    assert [package.name for package in installed_packages(None)] == list(DEFAULT_PACKAGES)
    assert installed_packages([]) == ()


def test_of_the_usual_ones_those_that_are_not_installed_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "DEFAULT_PACKAGES", ("absent-package", "regex"))
    assert [package.name for package in installed_packages(None)] == ["regex"]


def test_a_package_comes_with_what_it_needs_and_nothing_else() -> None:
    [package] = installed_packages(["jsonschema"])
    modules = dict(package.modules)
    assert package.own == ("jsonschema",)
    assert {"attr", "attrs", "jsonschema_specifications", "referencing", "rpds"} <= modules.keys()
    assert {"numpy", "idna", "webcolors", "fastapi"}.isdisjoint(modules)
    assert all(Path(file).is_file() for file in modules.values())
    site_packages = Path(modules["jsonschema"]).parents[1]
    assert str(site_packages) not in package.trees
    assert all(Path(tree).parent == site_packages for tree in package.trees)


def test_shared_libraries_beside_a_package_are_among_its_trees() -> None:
    [package] = installed_packages(["numpy"])
    assert {Path(tree).name for tree in package.trees} == {"numpy", "numpy.libs"}


def test_a_name_may_be_written_as_pip_takes_it_and_twice() -> None:
    found = installed_packages(["Python_DateUtil", "python-dateutil"])
    assert [package.name for package in found] == ["python-dateutil"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("absent-package", "no package 'absent-package' is installed; install it beside Assay"),
        ("dateutil", "python-dateutil: name that instead"),
        ("numpy>=2", "no name of a package"),
        ("numpy.linalg[fast]", "no name of a package"),
        ("../numpy", "no name of a package"),
        ("", "no name of a package"),
        ("assay", "without modules of its own that could be offered"),
    ],
)
def test_what_cannot_be_offered_is_refused_with_the_remedy(name: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match="ASSAY_SANDBOX_PACKAGES") as refused:
        installed_packages(["numpy", name])
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("names", "kinds"),
    [
        ([], []),
        (["numpy", "regex"], [["numpy", "regex"]]),
        (["pandas"], [["pandas"]]),
        (["pandas", "regex"], [["regex"], ["pandas", "regex"]]),
    ],
)
def test_pandas_is_kept_from_those_who_do_not_import_it(names: list[str], kinds: list[list[str]]) -> None:
    found = flavours(installed_packages(names))
    assert [[package.name for package in kind.packages] for kind in found] == kinds


@pytest.mark.parametrize(
    "source",
    [
        "import numpy",
        "import numpy.linalg as la",
        "from numpy import *",
        "def f():\n    class A:\n        import numpy",
        "try:\n    import numpy\nexcept ImportError:\n    pass",
        "__import__('numpy')",
        "from importlib import import_module\nimport_module('numpy.linalg')",
        "exec('import numpy as np')",
        "eval(f'__import__(\"numpy\").pi')",
        "import sys\nsys.modules['numpy']",
        "from sys import modules as m\nm['numpy']",
        "__builtins__['__import__']('numpy')",
        "import pickle\npickle.loads(b'', encoding='numpy')",
    ],
)
def test_a_source_that_may_import_numpy_is_known_by_it(source: str) -> None:
    assert "numpy" in imported(ast.parse(source))


@pytest.mark.parametrize(
    "source",
    [
        "numpy = 1",
        "import sys\nx = 'numpy'",
        "x = 'numpy'",
        "import json, re  # numpy",
        "from . import numpy",
        "from a.numpy import b",
        "a.numpy",
    ],
)
def test_a_source_that_only_speaks_of_numpy_is_not(source: str) -> None:
    assert "numpy" not in imported(ast.parse(source))

"""Which code provably leaves its process as it was, so that nothing is put back after it: when in doubt, none."""

import marshal

import pytest

from assay.runners.children.inspection import inspect_source, plainly


def is_tame(source: str) -> bool:
    _, tame = marshal.loads(inspect_source(source.encode(), plainly)[1])
    return tame


@pytest.mark.parametrize(
    "source",
    [
        "def evaluate(i, o, t):\n    return len(o)",
        "import re\nWORD = re.compile('x')\ndef evaluate(i, o, t):\n    return bool(WORD.search(o))",
        "from dataclasses import dataclass\n@dataclass\nclass A:\n    b: int\ndef evaluate(i, o, t): return A(1).b",
        "def evaluate(i, o, t):\n    print(o)\n    return {'score': sum(x for x in t['spans'])}",
    ],
)
def test_ordinary_code_is_tame(source: str) -> None:
    assert is_tame(source)


@pytest.mark.parametrize(
    "body",
    [
        "import builtins; builtins.len = lambda x: 666",
        "import sys; sys.stdout = None",
        "import sys; sys.setrecursionlimit(10)",
        "__builtins__['len'] = lambda x: 666",
        "print.__self__.len = lambda x: 666",
        "import typing; typing.contextlib.redirect_stdout(None).__enter__()",
        "import statistics; statistics.sys.stdout.close()",
        "import importlib; importlib.import_module('builtins').len = None",
        "exec('import builtins')",
        "globals()['__builtins__'].len = None",
        "getattr(print, '__sel' + 'f__').len = None",
        "import contextlib; contextlib.redirect_stdout(None).__enter__()",
    ],
)
def test_code_that_could_reach_builtins_or_streams_is_not(body: str) -> None:
    assert not is_tame(f"def evaluate(i, o, t):\n    {body}")

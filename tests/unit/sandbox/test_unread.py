"""Which arguments a source provably never looks at: when in doubt, none."""

import pytest

from assay.runners.children.inspection import inspect_source, plainly


def unread(source: str, entry: str = "evaluate") -> list[int]:
    return inspect_source(source.encode(), plainly)[0]["unread"][entry]


@pytest.mark.parametrize(
    ("source", "positions"),
    [
        ("def evaluate(inputs, outputs, trace):\n    return len(outputs)", [0, 2]),
        ("import re\ndef evaluate(i, o, t):\n    return bool(re.compile('x').search(o))", [0, 2]),
        ("from collections import Counter\nasync def evaluate(i, o, t):\n    return Counter(o)['a']", [0, 2]),
        ("def evaluate(i, o, t):\n    def inner():\n        return t\n    return inner()", [0, 1]),
        ("def evaluate(i, o, t):\n    return [o for _ in range(3)]", [0, 2]),
        ("def evaluate(i, o, t):\n    return f'{o}'", [0, 2]),
    ],
)
def test_an_argument_that_is_never_named_is_not_shipped(source: str, positions: list[int]) -> None:
    assert unread(source) == positions


@pytest.mark.parametrize(
    "body",
    [
        "return locals()",
        "return vars()['t']",
        "return eval('t')",
        "exec('print(t)')",
        "return '{0.__globals__}'.format(evaluate)",
        "import sys; return sys._getframe().f_locals",
        "import inspect; return inspect.currentframe()",
        "import gc; return gc.get_objects()",
        "import statistics; return statistics.sys",
        "return getattr(o, 'x')",
        "try: 1 / 0\n    except Exception as e: return e.__traceback__.tb_frame.f_locals",
        "return (lambda: 0).__globals__",
        "import requests; return requests",
        "return o.format(i)",
    ],
)
def test_code_that_could_look_into_a_frame_gets_everything(body: str) -> None:
    assert unread(f"def evaluate(i, o, t):\n    {body}") == []


@pytest.mark.parametrize(
    "source",
    [
        "def evaluate(*arguments):\n    return 1",
        "def wrap(f): return f\n@wrap\ndef evaluate(i, o, t):\n    return 1",
        "evaluate = lambda i, o, t: 1",
        "def evaluate(i, o, t):\n    return 1\ndef evaluate(i, o, t):\n    return t",
        "def evaluate(i, o, t):\n    return 1\nevaluate = print",
        "if True:\n    def evaluate(i, o, t):\n        return 1",
        "class evaluate:\n    def __init__(self, i, o, t): pass",
    ],
)
def test_a_function_that_may_be_another_gets_everything(source: str) -> None:
    assert unread(source) == []


@pytest.mark.parametrize(
    ("source", "alone"),
    [
        ("import json\ndef evaluate(i, o, t):\n    json.dumps = None", True),
        ("import json.decoder\njson.decoder.JSONDecoder.decode = None", True),
        ("import json as j\ndel j.dumps", True),
        ("from decimal import getcontext\ngetcontext().prec = 5", True),
        ("import os\nos.environ['A'] = 'b'", True),
        ("import sys\nsys.left, other = 1, 2", True),
        ("import json\nfor json.dumps in [1]: pass", True),
        ("import json\nsetattr(json, 'dumps', 1)", True),
        ("import math\nmath.tau += 1", True),
        ("import builtins\nbuiltins.len = None", False),
        ("from collections import Counter\ndef evaluate(i, o, t):\n    seen = Counter()\n    seen['a'] += 1", False),
        ("class A:\n    def __init__(self):\n        self.x = 1\nA.y = 2", False),
        ("import re\ndef evaluate(i, o, t):\n    i['a'] = re.sub('a', 'b', o)", False),
    ],
)
def test_code_that_changes_what_it_imports_is_to_be_alone(source: str, alone: bool) -> None:
    assert inspect_source(source.encode(), plainly)[0]["alone"] is alone

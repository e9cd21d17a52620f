"""The restricted runner: how much of Python works in it, and what bounds it beside the language."""

from functools import partial
from typing import Any

import pytest

from assay.domain.outcome import Exceeded, Limits, Raised, Returned
from assay.runners.restricted.runner import RestrictedRunner
from assay.testing import RunnerConformance
from support.runners import module_runner
from support.sandbox import call_of, own_descendants, revision_of, run, value_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPANS = [
    {"span_id": "root", "type": "span", "model": None, "name": "root"},
    {"span_id": "llm", "type": "llm", "model": "m-1", "name": "llm"},
]


runner = module_runner(partial(RestrictedRunner.start, workers=2))


class TestConformance(RunnerConformance):
    pass


STATEMENTS: dict[str, tuple[str, Any]] = {
    "augmented name": ("x = 1; x += 2; x *= 5", 15),
    "augmented item": ("x = {'a': [1]}; x['a'] += [2]; x['a'][0] -= 3", {"a": [-2, 2]}),
    "augmented slice": ("x = [1, 2, 3]; x[1:] += [4]", [1, 2, 3, 4]),
    "unpacking": ("a, (b, *c), [d] = 1, (2, 3, 4), [5]; x = [a, b, c, d]", [1, 2, [3, 4], 5]),
    "unpacking in a loop": ("x = [k + str(v) for k, (v, _) in [('a', (1, 2))]]", ["a1"]),
    "swap": ("a, b = 1, 2; a, b = b, a; x = [a, b]", [2, 1]),
    "calls with stars": ("x = max(*[1, 2], **{'key': lambda n: -n})", 1),
    "comprehensions": (
        "x = [sorted({n % 2 for n in range(4)}), {k: v for k, v in [(1, 2)]} == {1: 2}]",
        [[0, 1], True],
    ),
    "generator": ("x = sum(n * n for n in range(4))", 14),
    "f-string": ("n = 1.5; x = f'{n!r:>5}|{n:.2f}|{n=}'", "  1.5|1.50|n=1.5"),
    "format": ("x = '{0}-{a[k]}-{a[k].real}-{1:>{2}}'.format(1, 2, 3, a={'k': 4})", "1-4-4-  2"),
    "format of an attribute": ("x = list(map('<{}>'.format, 'ab'))", ["<a>", "<b>"]),
    "format_map": ("x = '{a:04.1f}'.format_map({'a': 2.5})", "02.5"),
    "percent": ("x = '%s %(a)s' % {'a': 1} if False else '%d' % 3", "3"),
    "walrus": ("x = (n := 3) + n", 6),
    "ternary": ("x = 1 if trace else 2", 2),
    "annotations": ("n: int; x: list[int] = [1]", [1]),
    "slices": ("x = [1, 2, 3, 4][1::2]", [2, 4]),
    "delete": ("x = [1, 2]; del x[0]", [2]),
    "names with an underscore": ("_n = 1; x = [_n for _ in range(2)]", [1, 1]),
    "type": ("x = [type(1) is int, type('') == str, type(int) is type]", [True, True, True]),
    "attributes by name": (
        "x = [getattr('a', 'upper')(), getattr('a', 'nope', 1), hasattr([], 'append')]",
        ["A", 1, True],
    ),
    "name of the module": ("x = __name__", "evaluator"),
    "json": ("import json; x = json.loads(json.dumps({'a': [1, None]}))", {"a": [1, None]}),
    "re": (r"import re; x = re.sub(r'(\w)b', r'\1-', 'ab') + re.search('(?P<n>b)', 'ab')['n']", "a-b"),
    "datetime": (
        """
from datetime import datetime, timedelta
moment = datetime.strptime('2024-01-02', '%Y-%m-%d') + timedelta(1)
x = moment.strftime('%d/%m') + f'{moment:%Y}' + datetime.fromisoformat('2024-01-02').isoformat()[:4]
""",
        "03/0120242024",
    ),
    "statistics": ("import statistics; x = statistics.mean([1, 2, 3]) + statistics.stdev([1, 3]) ** 2", 4.0),
    "collections": (
        """
import collections
from collections.abc import Mapping
Point = collections.namedtuple('Point', 'a b')
counts = collections.defaultdict(int)
counts['a'] += 1
x = [collections.Counter('aab').most_common(1), Point(1, b=2)._asdict(), counts, isinstance({}, Mapping)]
""",
        [[["a", 2]], {"a": 1, "b": 2}, {"a": 1}, True],
    ),
    "itertools": ("import itertools; x = list(itertools.chain.from_iterable([[1], [2]]))", [1, 2]),
    "functools": (
        """
import functools
@functools.lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
x = functools.reduce(lambda a, b: a + b, [fib(20), 1])
""",
        6766,
    ),
    "functools.wraps": (
        """
import functools
def twice(function):
    @functools.wraps(function)
    def inner(*a, **k):
        return 2 * function(*a, **k)
    return inner
@twice
def one():
    return 1
x = one()
""",
        2,
    ),
    "string": ("import string; x = string.Template('$a').substitute(a=1) + string.digits[:2]", "101"),
    "random": (
        """
import random
random.seed(1)
n = random.random()
random.seed(1)
x = n == random.random()
""",
        True,
    ),
    "decimal": ("from decimal import Decimal, getcontext; getcontext().prec = 4; x = str(Decimal(1) / 3)", "0.3333"),
    "fractions": ("from fractions import Fraction; x = str(Fraction(1, 3) + 1)", "4/3"),
    "unicodedata": ("import unicodedata; x = unicodedata.category('a')", "Ll"),
    "difflib": ("import difflib; x = difflib.SequenceMatcher(None, 'ab', 'ab').ratio()", 1.0),
    "textwrap": ("import textwrap; x = textwrap.shorten('hello world', 8)", "[...]"),
    "hashlib": ("import hashlib; x = hashlib.sha256(b'x').hexdigest()[:4]", "2d71"),
    "math": ("import math; x = math.isclose(math.pi, 3.14159, rel_tol=1e-4)", True),
    "a name of a type": ("x = [type(1).__name__, type(None).__name__, len.__name__]", ["int", "NoneType", "len"]),
    "generic classes": (
        """
from typing import Dict, Generic, List, NewType, Optional, Protocol, TypeVar, Union, cast
T = TypeVar("T")
Id = NewType("Id", str)
Either = Union[int, Optional[str]] | None
class Shape(Protocol):
    def area(self) -> float: ...
class Box(Generic[T]):
    def __init__(self, held: T) -> None:
        self.held: T = held
    def both(self: "Box[T]", other: "undefined") -> Dict[str, List[T]]:
        return {"both": [self.held, cast(T, other)]}
x = Box[int](Id(1)).both(2)
""",
        {"both": [1, 2]},
    ),
    "typing": (
        """
from typing import Any, Optional
def f(a: Optional[dict[str, Any]] = None) -> int: return 1
x = f()
""",
        1,
    ),
    "a package that is not there": (
        """
try:
    import numpy
except ImportError:
    x = 'none'
""",
        "none",
    ),
    "exceptions": (
        """
class Mine(ValueError):
    def __init__(self, n):
        super().__init__(f'n={n}')
        self.n = n
try:
    raise Mine(3)
except (KeyError, ValueError) as error:
    x = [str(error), error.n, error.args]
else:
    x = None
finally:
    x.append('finally')
""",
        ["n=3", 3, ["n=3"], "finally"],
    ),
    "an error of compiled code": (
        """
import json
try:
    json.loads('{bad')
except json.JSONDecodeError as error:
    x = error.pos
""",
        1,
    ),
    "nonlocal": (
        """
def counter():
    n = 0
    def step():
        nonlocal n
        n += 1
        return n
    return step
step = counter()
step()
x = step()
""",
        2,
    ),
    "classes": (
        """
class Base:
    kind: str = 'base'
    def __init__(self, n):
        self._n = n
        self.calls = 0
    @property
    def n(self):
        self.calls += 1
        self._n += 1
        return self._n
    @classmethod
    def make(cls):
        return cls(1)
    @staticmethod
    def plain(n):
        return n
    def __repr__(self):
        return f'{self.kind}({self._n})'
class Child(Base):
    kind = 'child'
    def __init__(self, n):
        super().__init__(n)
        self.more = [n]
    def __len__(self):
        return 3
    def __eq__(self, other):
        return self._n == other._n
made = Child.make()
x = [made.n, made.n, made.calls, repr(made), len(made), made == Child(3), Child.plain(7)]
""",
        [2, 3, 2, "child(3)", 3, True, 7],
    ),
    "a class of a collection": (
        """
class Words(dict):
    def __missing__(self, key):
        return key
    def add(self, key):
        self[key] = 1
        return self
x = [Words().add('a'), Words()['b']]
""",
        [{"a": 1}, "b"],
    ),
    "order of an augmented assignment": (
        """
class Box:
    n = 1
box = Box()
def change():
    box.n = 10
    return 5
box.n += change()
x = box.n
""",
        6,
    ),
}


@pytest.mark.parametrize("name", STATEMENTS)
async def test_the_python_of_evaluators_works(runner: RestrictedRunner, name: str) -> None:
    statements, value = STATEMENTS[name]
    body = "\n".join(f"    {line}" for line in statements.splitlines())
    source = (
        f"from __future__ import annotations\n\ndef evaluate(inputs, outputs, trace):\n{body}\n    return {{'x': x}}"
    )
    assert await value_of(runner, source) == {"x": value}


async def test_what_a_module_holds_is_there_at_its_top(runner: RestrictedRunner) -> None:
    source = """
import re
from collections import Counter

WORD = re.compile(r"[a-z]+")
_seen = Counter()


def _words(text):
    global _seen
    _seen += Counter(WORD.findall(text))
    return list(_seen)


if __name__ == "__main__":
    print("never")


def evaluate(inputs, outputs, trace):
    print("saw", *_words(inputs), sep="-", end="!")
    return {"words": _words(inputs)}
"""
    first, second = await run(runner, source, "to be or", "not")
    assert isinstance(first, Returned)
    assert isinstance(second, Returned)
    assert (first.value, first.logs) == ({"words": ["to", "be", "or"]}, "saw-to-be-or!")
    assert second.value == {"words": ["not"]}


async def test_an_async_handler_awaits_the_spans(runner: RestrictedRunner) -> None:
    source = """
async def models(trace):
    return [span.model for span in await trace.get_spans(span_type="llm")]


async def handler(input, output, expected, metadata, trace):
    spans = await trace.get_spans()
    found = await models(trace)
    names = [span["name"] for span in spans]
    return {"score": 1.0, "metadata": {"names": names, "models": found, "got": metadata["k"]}}
"""
    call = call_of("hi", "hello", None, {"k": "v"}, SPANS)
    [outcome] = await runner.execute(revision_of(source, "handler"), [call], Limits())
    assert isinstance(outcome, Returned), outcome
    assert outcome.value == {"score": 1.0, "metadata": {"names": ["root", "llm"], "models": ["m-1"], "got": "v"}}


async def test_a_refusal_at_run_time_names_what_was_wanted_and_where(runner: RestrictedRunner) -> None:
    [outcome] = await run(runner, "def evaluate(i, o, t):\n    x = 1\n    return open('/etc/hostname').read()", None)
    assert isinstance(outcome, Raised)
    assert (outcome.kind, outcome.type, outcome.line) == ("sandbox-violation", "SandboxViolation", 3)
    assert outcome.message == "open() is not available in restricted code"


async def test_a_refusal_is_told_at_save_with_its_line_when_it_can_be_seen_in_the_source(
    runner: RestrictedRunner,
) -> None:
    source = "def evaluate(inputs, outputs, trace):\n    return ().__class__"
    inspection = await runner.inspect("python", source)
    assert inspection.defect is not None
    assert (inspection.defect.kind, inspection.defect.line) == ("sandbox-violation", 2)
    [outcome] = await run(runner, source, None)
    assert isinstance(outcome, Raised)
    assert (outcome.kind, outcome.line, outcome.message) == ("sandbox-violation", 2, inspection.defect.message)


async def test_an_unknown_module_is_refused_with_those_that_there_are(runner: RestrictedRunner) -> None:
    [outcome] = await run(runner, "import socket\ndef evaluate(i, o, t):\n    return 1", None)
    assert isinstance(outcome, Raised)
    assert (outcome.kind, outcome.line) == ("sandbox-violation", 1)
    assert "'socket'" in outcome.message
    assert "statistics" in outcome.message


@pytest.mark.parametrize(
    "statement",
    [
        "json.dumps = None",
        "setattr(json, 'dumps', None)",
        "json.JSONEncoder.default = None",
        "del json.dumps",
        "delattr(json, 'dumps')",
        "json.dumps += 1",
        "getattr.mine = 1",
        "Mapping.register(int)",
        "print.mine = 1",
        "trace.mine = 1",
    ],
)
async def test_nothing_that_others_share_can_be_changed(runner: RestrictedRunner, statement: str) -> None:
    source = (
        "import json\nfrom collections.abc import Mapping\n"
        f"def evaluate(inputs, outputs, trace):\n    trace = print\n    {statement}"
    )
    [outcome] = await run(runner, source, None)
    assert isinstance(outcome, Raised)
    assert outcome.kind == "sandbox-violation"


@pytest.mark.parametrize(
    ("statement", "budget"),
    [
        ("while inputs == 1: pass", "wall"),
        ("import re; re.match('(a+)+$', 'a' * 50 + 'b') if inputs == 1 else None", "wall"),
        ("10 ** 10 ** 8 if inputs == 1 else None", "wall"),
        ("'x' * 10 ** 10 if inputs == 1 else None", "memory"),
        ("list(range(10 ** 9)) if inputs == 1 else None", "memory"),
    ],
)
async def test_time_and_memory_are_bounded_without_harm_to_neighbours(
    runner: RestrictedRunner, statement: str, budget: str
) -> None:
    source = f"def evaluate(inputs, outputs, trace):\n    {statement}\n    return inputs"
    outcomes = await run(runner, source, 0, 1, 2)
    assert isinstance(outcomes[1], Exceeded)
    assert outcomes[1].budget == budget
    assert [outcome.value for outcome in outcomes if isinstance(outcome, Returned)] == [0, 2]


async def test_cpu_time_is_bounded_of_its_own(runner: RestrictedRunner) -> None:
    source = "def evaluate(inputs, outputs, trace):\n    while True: pass"
    [outcome] = await run(runner, source, 0, limits=Limits(wall_s=20, cpu_s=0.3))
    assert isinstance(outcome, Exceeded)
    assert outcome.budget == "cpu"


async def test_endless_recursion_is_the_authors_error(runner: RestrictedRunner) -> None:
    source = "def evaluate(inputs, outputs, trace):\n    return evaluate(inputs, outputs, trace) if inputs else 1"
    raised, returned = await run(runner, source, 1, 0)
    assert isinstance(raised, Raised)
    assert raised.type == "RecursionError"
    assert isinstance(returned, Returned)


async def test_logs_are_cut_at_their_limit(runner: RestrictedRunner) -> None:
    source = "def evaluate(inputs, outputs, trace):\n    print('x' * inputs)\n    return 1"
    [outcome] = await run(runner, source, 10**6, limits=Limits(log_bytes=100))
    assert outcome.logs.startswith("x" * 100 + "\n[logs cut")


async def test_an_evaluation_sees_nothing_of_the_one_before(runner: RestrictedRunner) -> None:
    source = """
seen = []

class Kept:
    seen = 0

def evaluate(inputs, outputs, trace):
    seen.append(inputs)
    Kept.seen += 1
    evaluate.calls = getattr(evaluate, "calls", 0) + 1
    return [len(seen), Kept.seen, evaluate.calls]
"""
    outcomes = await run(runner, source, 1, 2, 3)
    assert [outcome.value for outcome in outcomes if isinstance(outcome, Returned)] == [[1, 1, 1]] * 3


async def test_closing_leaves_no_process() -> None:
    before = own_descendants()
    started = await RestrictedRunner.start(workers=1)
    assert await value_of(started, "def evaluate(i, o, t):\n    return 1") == 1
    assert own_descendants() - before
    await started.close()
    assert not own_descendants() - before

"""Whatever an author returns is recorded truthfully, or is an error that says why: every kind, in every language.

All values of a language are evaluated in one batch, so that there can be many of them.
"""

import json
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from assay.domain.check import Check
from assay.domain.evaluator import Interface, Language
from assay.domain.outcome import Limits
from assay.domain.subject import Testcase as Row
from assay.engine import Engine
from assay.ports import Runner
from assay.runners.local.runner import LocalRunner
from assay.runners.sandbox.runner import SandboxRunner
from assay.testing import FixedClock
from support.runners import module_runner
from support.sandbox import revision_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

DOCS = Path(__file__).parents[2] / "docs/writing-evaluators.md"
SNIPPET = re.compile(r"`([^`]*)`")
# pandas imports pyarrow where it is installed, and maps 350 MB with it.
LIMITS = Limits(wall_s=8, memory_bytes=512 * 1024 * 1024)
PYTHON = """
import collections, dataclasses, enum, math, types
from collections import Counter, OrderedDict, deque, namedtuple
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from uuid import UUID

Point = namedtuple("Point", "x y")
Place = dataclasses.make_dataclass("Place", ["x"])
Text = type("Text", (str,), {})
Colour = enum.Enum("Colour", "RED")

class Half(float, enum.Enum):
    VALUE = 0.5

class Level(enum.IntEnum):
    HIGH = 3

class Odd(str):
    def __hash__(self): return 0
    def __eq__(self, other): return self is other

class Shy(dict):
    def items(self): return []
    def __iter__(self): return iter(())

class ShyList(list):
    def __iter__(self): return iter(())

@dataclasses.dataclass(slots=True)
class Slotted:
    a: int = 1
    b: list = dataclasses.field(default_factory=lambda: [Place(x=None)])

async def answer():
    return 1

def deep(levels):
    return [deep(levels - 1)] if levels > 2 else []

def endless():
    found = []
    found.append(found)
    return found

def node():
    found = Place(x=1)
    found.x = {"in": found}
    return found
"""
JAVASCRIPT = """
const deep = (levels) => levels > 2 ? [deep(levels - 1)] : [];
const endless = () => { const found = []; found.push(found); return found };
"""


class Case(NamedTuple):
    """An expression, and what is recorded of it: a value, or an error of this kind whose message holds some words."""

    expression: str
    value: Any = None
    kind: str | None = None
    mentions: Sequence[str] = ()


def error(expression: str, kind: str, *mentions: str) -> Case:
    return Case(expression, None, kind, mentions)


sandbox = module_runner(partial(SandboxRunner.start, workers=1, minimum="no-landlock"))


local = module_runner(partial(LocalRunner.start, workers=1))


async def checks_of(
    runner: Runner, language: Language, expressions: Sequence[str], interface: Interface = "evaluate"
) -> list[Check]:
    """Return the check of a function that returns each expression."""
    revision = revision_of(source_of(language, expressions, interface), interface, language=language)
    rows = [Row(inputs=number) for number in range(len(expressions))]
    checks = await Engine({language: runner}, FixedClock(), LIMITS).evaluate(revision, rows)
    return [check for check in checks if isinstance(check, Check)]


def source_of(language: Language, expressions: Sequence[str], interface: Interface) -> str:
    function = "handler" if interface == "handler" else "evaluate"
    if language == "python":
        packages = "\n".join(f"import {name}" for name in ("numpy", "pandas") if any(name in e for e in expressions))
        steps = "".join(f"    if number == {at}: return {each}\n" for at, each in enumerate(expressions))
        return f"{PYTHON}\n{packages}\ndef {function}(number, *others):\n{steps}"
    steps = "".join(f"  if (number === {at}) return {each};\n" for at, each in enumerate(expressions))
    typed = ": any" if language == "typescript" else ""
    return f"{JAVASCRIPT.replace('levels)', f'levels{typed})')}\nfunction {function}(number{typed}) {{\n{steps}}}"


def told(check: Check) -> str:
    assert check.reading.status == "errored", check.reading
    assert (check.reading.metrics, check.reading.verdict) == ({}, None)
    assert check.reading.error is not None
    return check.reading.error.message


def same(found: Any, wanted: Any) -> bool:
    """Tell whether they are the same JSON: True is not 1, and 1.0 is not 1 unless it is JavaScript's."""
    return json.dumps(found, sort_keys=True) == json.dumps(wanted, sort_keys=True)


def assert_recorded(case: Case, check: Check) -> None:
    if case.kind is None:
        assert check.reading.error is None, (case, check.reading.error)
        assert same(check.reading.metrics["value"], case.value), (case, check.reading.metrics)
        return
    message = told(check)
    assert check.reading.error is not None
    assert check.reading.error.kind == case.kind, (case, check.reading.error)
    for mention in case.mentions:
        assert mention in message, case


IN_PYTHON = [
    Case("True", True),
    Case("Level.HIGH", 3),
    Case("-0.0", -0.0),
    Case("5e-324", 5e-324),
    Case("2**63", 2**63),
    Case("-(2**64)", -(2**64)),
    Case("int('9' * 4300)", int("9" * 4300)),
    Case("[True, 1, 1.0]", [True, 1, 1.0]),
    Case("[]", []),
    Case("[Slotted()]", [{"a": 1, "b": [{"x": None}]}]),
    Case("[Shy(x=1)]", [{"x": 1}]),
    Case("ShyList([1, 2])", [1, 2]),
    Case("[{Text('a'): Text('b')}]", [{"a": "b"}]),
    Case("[Point(1, (2,))]", [[1, [2]]]),
    Case("[date(2026, 12, 1), time(1, 2, 3)]", ["2026-12-01", "01:02:03"]),
    Case("[datetime(2026, 12, 1, 1, 2, 3, 4)]", ["2026-12-01T01:02:03.000004"]),
    Case("(lambda a: [a, a])([1])", [[1], [1]]),
    Case("'\\x00\\u2028\\U0001f6a2'", "\x00\u2028\U0001f6a2"),
    error("[1, [math.nan]]", "non-finite", "'value.1.0'", "nan"),
    error("{'a': (1, -math.inf)}", "non-finite", "'value.a.1'", "-inf"),
    error("Half(math.inf) if False else float('1e999')", "non-finite", "inf"),
    error("10**5000", "not-json-serialisable", "thousands of digits"),
    error("{'a': {1, 2}}", "not-json-serialisable", "'value.a' is a set", "sorted()"),
    error("{'a': Decimal('NaN')}", "not-json-serialisable", "'value.a' is a Decimal", "float()"),
    error("map(str, [1])", "not-json-serialisable", "a map", "list()"),
    error("zip([1])", "not-json-serialisable", "a zip", "list()"),
    error("types.MappingProxyType({})", "not-json-serialisable", "a mappingproxy", "dict()"),
    error("memoryview(b'')", "not-json-serialisable", "a memoryview"),
    error("bytearray()", "not-json-serialisable", "a bytearray", ".decode()"),
    error("[answer()]", "not-json-serialisable", "'value.0' is a coroutine", "await"),
    error("(lambda: (yield))()", "not-json-serialisable", "a generator", "list()"),
    error("ValueError('x')", "not-json-serialisable", "a ValueError"),
    error("...", "not-json-serialisable", "an ellipsis"),
    error("math", "not-json-serialisable", "a module"),
    error("[{(1, 2): 3}]", "non-string-key", "(1, 2)", "tuple"),
    error("[{None: 3}]", "non-string-key", "None"),
    error("[{True: 3}]", "non-string-key", "bool"),
    error("[{Odd('a'): 1, 'a': 2}]", "not-json-serialisable", "two keys that are the same text"),
    error("{'a\\ud800': 1}", "bad-unicode", "'value'"),
    error("Text('\\udfff')", "bad-unicode", "'value'"),
    error("node()", "not-json-serialisable", "'value.x.in' contains itself"),
    error("deep(64)", "too-deep", "64 levels"),
]
IN_JAVASCRIPT = [
    Case("true", True),
    Case("-0", 0),
    Case("9007199254740993", float(2**53)),
    Case("[[], {}]", [[], {}]),
    Case("({ a: new Date(86400000) })", {"a": "1970-01-02T00:00:00.000Z"}),
    Case("Object.assign(Object.create(null), { a: 1 })", {"a": 1}),
    Case("new Proxy({ a: 1 }, {})", {"a": 1}),
    Case("new Proxy({ a: 1 }, { get: () => 2 })", {"a": 2}),
    Case("Object.defineProperty({ a: 1 }, 'toJSON', { value: () => ({ b: NaN }) })", {"a": 1}),
    Case("Object.freeze([Object.freeze({ a: 'x' })])", [{"a": "x"}]),
    Case("'\\u0000\\u2028\\u{1f6a2}'", "\x00\u2028\U0001f6a2"),
    Case("((a) => [a, a])([1])", [[1], [1]]),
    error("new Proxy({ a: 1 }, { get: () => NaN })", "non-finite", "'value.a' is NaN"),
    error("new Proxy({ a: 1 }, { get: () => undefined })", "not-json-serialisable", "'value.a' is undefined"),
    error("[1, [Infinity]]", "non-finite", "'value.1.0' is Infinity"),
    error("({ a: undefined })", "not-json-serialisable", "'value.a' is undefined"),
    error("[1, , 3]", "not-json-serialisable", "'value.1' is undefined"),
    error("Object.assign([], { length: 5 })", "not-json-serialisable", "'value.0' is undefined"),
    error("Object.assign([1], { extra: 2 })", "not-json-serialisable", "extra"),
    error("({ toJSON: () => ({ b: 1 }) })", "not-json-serialisable", "'value.toJSON' is a function"),
    error("new (class A { toJSON() { return 1 } })()", "not-json-serialisable", "an A"),
    error("new (class List extends Array {})()", "not-json-serialisable", "a List"),
    error("({ __proto__: { inherited: 1 } })", "not-json-serialisable"),
    error("new Float32Array([0.5])", "not-json-serialisable", "Float32Array"),
    error("new ArrayBuffer(1)", "not-json-serialisable", "ArrayBuffer"),
    error("Object(1n)", "not-json-serialisable", "BigInt"),
    error("new String('x')", "not-json-serialisable", "a String"),
    error("new Boolean(false)", "not-json-serialisable", "a Boolean"),
    error("new WeakRef({})", "not-json-serialisable", "WeakRef"),
    error("[].values()", "not-json-serialisable"),
    error("(function* () {})()", "not-json-serialisable"),
    error("globalThis", "not-json-serialisable"),
    error("Math", "non-string-key", "Symbol"),
    error("Promise.reject(1)", "not-json-serialisable", "await"),
    error("new Proxy(() => 1, {})", "not-json-serialisable", "a function"),
    error("(() => { throw new RangeError('mine') })()", "script-raised", "RangeError: mine"),
    error("({ get a() { throw new RangeError('mine') } })", "script-raised", "RangeError: mine"),
    error("((a) => { a.a = { a }; return a })({})", "not-json-serialisable", "'value.a.a' contains itself"),
    error("deep(64)", "too-deep", "64 levels"),
]
BY_ITSELF: dict[Language, list[Case]] = {
    "python": [
        Case("True", {"success": True}),
        Case("numpy.bool_(False)", {"success": False}),
        Case("numpy.float64(0.75)", {"score": 0.75, "success": True}),
        Case("numpy.int64(1)", {"score": 1.0, "success": True}),
        Case("Half.VALUE", {"score": 0.5, "success": True}),
        Case("Place(x=0.5)", {"x": 0.5}),
        Case("{'a': Place(x={'b': 1})}", {"a.x.b": 1}),
        Case("answer()", {"score": 1.0, "success": True}),
        error("None", "none-returned", "None"),
        error("(1, 2)", "unsupported-return-type", "list"),
        error("Point(1, 2)", "unsupported-return-type", "list"),
        error("'0.5'", "unsupported-return-type", "str 0.5"),
        error("Decimal('0.5')", "unsupported-return-type", "a Decimal", "float()"),
        error("date(2026, 12, 1)", "unsupported-return-type", "a date"),
        error("{1}", "unsupported-return-type", "a set"),
        error("(n for n in [1])", "unsupported-return-type", "a generator"),
        error("numpy.arange(3)", "unsupported-return-type", "a ndarray", ".tolist()"),
        error("numpy.float32('nan')", "non-finite", "nan"),
        error("{'value': numpy.longdouble(1)}", "not-json-serialisable", "longdouble", "float()"),
        error("{'value': numpy.datetime64(1, 'ns')}", "not-json-serialisable", "datetime64", "str()"),
        error("{'value': pandas.NaT}", "not-json-serialisable", "NaT"),
        error("{'value': pandas.NA}", "not-json-serialisable", "NA"),
        error("{'value': pandas.Series([1])}", "not-json-serialisable", "Series"),
        Case("{'value': pandas.Timestamp(1)}", {"value": "1970-01-01T00:00:00.000000001"}),
        Case("{'value': numpy.str_('x'), 'half': numpy.float16(0.5)}", {"value": "x", "half": 0.5}),
        error("math.nan", "non-finite", "nan"),
        error("10**400", "score-out-of-range", "bits"),
        error("{'a': {'b': 1}, 'a.b': 2}", "metric-name-collision", '"a.b"'),
        error("{'a': 'x' * (300 << 10)}", "result-too-large", "262144"),
    ],
    "javascript": [
        Case("true", {"success": True}),
        Case("0.75", {"score": 0.75, "success": True}),
        Case("Promise.resolve(1)", {"score": 1.0, "success": True}),
        Case("({ then(done) { done(1) } })", {"score": 1.0, "success": True}),
        error("undefined", "none-returned", "undefined"),
        error("null", "none-returned", "null"),
        error("[1, 2]", "unsupported-return-type", "array"),
        error("'0.5'", "unsupported-return-type", "string 0.5"),
        error("new Date(0)", "unsupported-return-type"),
        error("1n", "unsupported-return-type", "a BigInt"),
        error("Symbol('s')", "unsupported-return-type", "a symbol"),
        error("new Map([['a', 1]])", "unsupported-return-type", "a Map"),
        error("new Set()", "unsupported-return-type", "a Set"),
        error("() => 1", "unsupported-return-type", "a function"),
        error("NaN", "non-finite", "NaN"),
        error("Promise.resolve(NaN)", "non-finite", "NaN"),
        error("Promise.reject(new TypeError('mine'))", "script-raised", "TypeError: mine"),
        error("Promise.reject('mine')", "script-raised", "string: mine"),
        error("Promise.reject(undefined)", "script-raised", "undefined"),
        error("Promise.reject(null)", "script-raised", "null"),
        error("Promise.reject({ code: 7 })", "script-raised", "{code: 7}"),
        error("Promise.reject(Symbol('s'))", "script-raised", "Symbol(s)"),
        error("new Promise(() => {})", "unsupported-return-type", "never settles"),
        error("(async () => { await new Promise(() => {}) })()", "unsupported-return-type", "never settles"),
        error("({ a: { b: 1 }, 'a.b': 2 })", "metric-name-collision", '"a.b"'),
        error("({ a: 'x'.repeat(300 << 10) })", "result-too-large", "262144"),
    ],
}
BY_HANDLER: dict[Language, list[Case]] = {
    "python": [
        Case("None", "skipped"),
        Case("numpy.float64(0.5)", {"score": 0.5}),
        Case("{'score': numpy.int32(1), 'at': date(2026, 12, 1)}", {"score": 1.0, "at": "2026-12-01"}),
        error("True", "unsupported-return-type", "bool True"),
        error("numpy.bool_(True)", "unsupported-return-type", "bool True"),
        error("{'score': True}", "unsupported-return-type", "bool True"),
        error("[1]", "unsupported-return-type", "list"),
        error("{'a': 1}", "unsupported-return-type", "without"),
        error("{'score': 1, 'metadata': {'a': {1}}}", "not-json-serialisable", "'metadata.a' is a set"),
        error("{'score': math.nan}", "non-finite", "'score' is nan"),
    ],
    "javascript": [
        Case("null", "skipped"),
        Case("undefined", "skipped"),
        Case("Promise.resolve()", "skipped"),
        Case("({ score: 1 })", {"score": 1.0}),
        error("true", "unsupported-return-type", "boolean"),
        error("({ score: undefined })", "not-json-serialisable", "'score' is undefined"),
        error("({ score: 1, metadata: { a: new Map() } })", "not-json-serialisable", "'metadata.a' is a Map"),
        error("({ score: NaN })", "non-finite", "'score' is NaN"),
    ],
}
IN: dict[Language, list[Case]] = {"python": IN_PYTHON, "javascript": IN_JAVASCRIPT, "typescript": IN_JAVASCRIPT}
LANGUAGES: list[Language] = ["python", "javascript", "typescript"]


@pytest.mark.parametrize("language", LANGUAGES)
async def test_every_value_inside_a_result_is_recorded_as_it_is_or_named(
    sandbox: SandboxRunner, language: Language
) -> None:
    cases = IN[language]
    held = [wrapped(language, case.expression) for case in cases]
    checks = await checks_of(sandbox, language, held)
    assert len(checks) == len(cases)
    for case, check in zip(cases, checks, strict=True):
        assert_in_list(language, case, check)


def wrapped(language: Language, expression: str) -> str:
    """Return a dict that holds the value as a list, so that a dict stays one metric."""
    return f"{{'value': [{expression}]}}" if language == "python" else f"{{ value: [{expression}] }}"


def assert_in_list(language: Language, case: Case, check: Check) -> None:
    inside = Case(
        case.expression,
        [case.value],
        case.kind,
        [mention.replace("'value", "'value.0") for mention in case.mentions],
    )
    assert_recorded(inside, check)


@pytest.mark.parametrize("language", LANGUAGES)
async def test_what_a_function_returns_by_itself_is_read_by_its_interface(
    sandbox: SandboxRunner, local: LocalRunner, language: Language
) -> None:
    cases = BY_ITSELF["python" if language == "python" else "javascript"]
    checks = await checks_of(local if language == "python" else sandbox, language, [case.expression for case in cases])
    for case, check in zip(cases, checks, strict=True):
        if case.kind is None:
            assert same(check.reading.metrics, case.value), (case, check.reading)
        else:
            assert_recorded(case, check)


@pytest.mark.parametrize("language", LANGUAGES)
async def test_what_a_handler_returns_is_a_score_a_skip_or_an_error(
    sandbox: SandboxRunner, local: LocalRunner, language: Language
) -> None:
    cases = BY_HANDLER["python" if language == "python" else "javascript"]
    runner = local if language == "python" else sandbox
    checks = await checks_of(runner, language, [case.expression for case in cases], "handler")
    for case, check in zip(cases, checks, strict=True):
        if case.value == "skipped":
            assert (check.reading.status, check.reading.metrics) == ("skipped", {}), case
        elif case.kind is None:
            assert same(check.reading.metrics, case.value), (case, check.reading)
        else:
            assert_recorded(case, check)


class Promise(NamedTuple):
    """What a row of the page says of an expression."""

    language: Language
    expression: str
    becomes: str


def promises() -> list[Promise]:
    """Read the table of the page."""
    section = DOCS.read_text(encoding="utf-8").partition("## What may be returned")[2].partition("\n## ")[0]
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in section.splitlines() if line.startswith("| ")][2:]
    found: list[Promise] = []
    for python, javascript, becomes in rows:
        found += [Promise("python", snippet, becomes.strip()) for snippet in SNIPPET.findall(python)]
        for language in ("javascript", "typescript"):
            found += [Promise(language, snippet, becomes.strip()) for snippet in SNIPPET.findall(javascript)]
    return [promise for promise in found if promise.expression not in ("async def",)]


@pytest.mark.parametrize("language", LANGUAGES)
async def test_the_page_keeps_what_it_says_of_each_value(
    sandbox: SandboxRunner, local: LocalRunner, language: Language
) -> None:
    made = [promise for promise in promises() if promise.language == language]
    assert len(made) > 20
    held = [wrapped(language, promise.expression) for promise in made]
    checks = await checks_of(local if language == "python" else sandbox, language, held)
    assert len(checks) == len(made)
    for promise, check in zip(made, checks, strict=True):
        if promise.becomes.startswith("`"):
            assert check.reading.error is None, (promise, check.reading.error)
            assert same(check.reading.metrics["value"], [json.loads(SNIPPET.findall(promise.becomes)[0])]), promise
            continue
        assert promise.becomes.startswith("an error"), promise
        message = told(check)
        advice = promise.becomes.partition(":")[2].partition("; in Python")[0]
        if promise.language == "python":
            advice += promise.becomes.partition("; in Python")[2]
        for snippet in SNIPPET.findall(advice.partition("unless")[0]):
            assert snippet in message, (promise, message)

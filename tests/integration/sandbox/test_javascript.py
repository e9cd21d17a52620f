"""JavaScript in the sandbox: what goes in, what comes out, and what is said when it cannot."""

import asyncio
import json
from functools import partial
from typing import Any

import pytest

from assay.domain.evaluator import Language
from assay.domain.outcome import Exceeded, Limits, Outcome, Raised, Returned
from assay.runners.sandbox.runner import SandboxRunner
from support.runners import module_runner
from support.sandbox import call_of, calls_of, revision_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

ECHO = "const evaluate = (inputs) => inputs;"
SPANS: list[dict[str, Any]] = [
    {"name": "root", "type": "span", "model": None, "metadata": {}},
    {"name": "look", "type": "tool", "model": None, "metadata": {"x": 1}},
    {"name": "chat", "type": "llm", "model": "m", "metadata": {}},
]


runner = module_runner(partial(SandboxRunner.start, workers=1, minimum="no-landlock"))


async def run(
    runner: SandboxRunner,
    source: str,
    *inputs: Any,
    limits: Limits | None = None,
    language: Language = "javascript",
    number: int = 1,
) -> list[Outcome]:
    revision = revision_of(source, language=language, number=number)
    return await runner.execute(revision, calls_of(*inputs), limits or Limits())


async def handle(runner: SandboxRunner, source: str, *, language: Language = "javascript") -> Outcome:
    revision = revision_of(source, "handler", language=language)
    [outcome] = await runner.execute(revision, [call_of("in", "out", None, {"user": "u"}, SPANS)], Limits())
    return outcome


async def value_of(runner: SandboxRunner, source: str, given: Any = None) -> Any:
    [outcome] = await run(runner, source, given)
    assert isinstance(outcome, Returned), outcome
    return outcome.value


async def error_of(runner: SandboxRunner, source: str, given: Any = None, **fields: Any) -> Raised:
    [outcome] = await run(runner, source, given, **fields)
    assert isinstance(outcome, Raised), outcome
    return outcome


FORMS = [
    "function evaluate(inputs, outputs, trace) { return [inputs, outputs, trace] }",
    "async function evaluate(inputs, outputs, trace) { return [inputs, outputs, trace] }",
    "const evaluate = (...all) => all",
    "let evaluate = async (...all) => { await null; return all }",
    "var evaluate = function (...all) { return all }",
    "class Checks { static run(...all) { return all } }\nconst evaluate = Checks.run",
    "export function evaluate(...all) { return all }",
    "export const evaluate = (...all) => all",
    "export default function evaluate(...all) { return all }",
    "export default (...all) => all",
    "const run = (...all) => all;\nexport { run as default }",
    "const run = (...all) => all;\nconst evaluate = run;\nexport { evaluate }",
    "export const VERSION = 1;\nfunction evaluate(...all) { return all }",
    "const wait = await Promise.resolve(1);\nfunction evaluate(...all) { return all }",
    "'use strict'\nfunction evaluate(...all) { return all }",
    "function evaluate(...all) { return { then(settle) { settle(all) } } }",
    "#!/usr/bin/env node\nfunction evaluate(...all) { return all } // the end",
]


@pytest.mark.parametrize("source", FORMS)
async def test_every_form_of_a_function_is_called(runner: SandboxRunner, source: str) -> None:
    assert await value_of(runner, source, {"a": 1}) == [{"a": 1}, "an answer", None]


async def test_a_script_may_be_sloppy_and_a_module_is_strict(runner: SandboxRunner) -> None:
    assert await value_of(runner, "function evaluate() { total = 1; return total }") == 1
    error = await error_of(runner, "export function evaluate() { total = 1; return total }")
    assert (error.type, error.line) == ("ReferenceError", 1)


HANDLERS = [
    "async function handler(input, output, expected, metadata, trace) { return BODY }",
    "async function handler({ input, output, expected, metadata, trace }) { return BODY }",
    "const handler = async ({ trace, metadata = {}, expected = null, ...rest }) => "
    "{ const { input, output } = rest; return BODY }",
    "export default async ({ input, output, expected, metadata, trace } = {}) => { return BODY }",
    "export const handler = async function ({ input, output, expected, metadata, trace }) { return BODY }",
]


@pytest.mark.parametrize("form", HANDLERS)
async def test_a_handler_gets_its_arguments_listed_or_as_one_object(runner: SandboxRunner, form: str) -> None:
    body = """{ score: 1, name: "n", metadata: {
      arguments: [input, output, expected, metadata],
      all: (await trace.getSpans()).map((span) => span.name),
      some: (await trace.getSpans({ spanType: ["llm", "tool"] })).map((span) => span.name),
      one: (await trace.getSpans({ spanType: "llm" }))[0],
      none: await trace.getSpans({ spanType: [] }),
    } }"""
    outcome = await handle(runner, form.replace("BODY", body))
    assert isinstance(outcome, Returned), outcome
    assert outcome.value == {
        "score": 1,
        "name": "n",
        "metadata": {
            "arguments": ["in", "out", None, {"user": "u"}],
            "all": ["root", "look", "chat"],
            "some": ["look", "chat"],
            "one": SPANS[2],
            "none": [],
        },
    }


async def test_one_parameter_that_picks_other_names_is_the_input(runner: SandboxRunner) -> None:
    outcome = await handle(runner, "const handler = ({ length }) => ({ score: 1, metadata: { length } })")
    assert isinstance(outcome, Returned)
    assert outcome.value == {"score": 1, "metadata": {"length": 2}}


async def test_spans_are_copies(runner: SandboxRunner) -> None:
    source = """
async function handler({ trace }) {
  (await trace.getSpans())[0].name = "changed";
  (await trace.getSpans()).length = 0;
  return { score: 1, metadata: { names: (await trace.getSpans()).map((span) => span.name) } };
}"""
    outcome = await handle(runner, source)
    assert isinstance(outcome, Returned), outcome
    assert outcome.value == {"score": 1, "metadata": {"names": ["root", "look", "chat"]}}


@pytest.mark.parametrize("asked", ["'llm'", "{ type: 'llm' }", "['llm']", "{ spanType: 5 }", "null"])
async def test_spans_that_are_asked_for_wrongly_are_an_error_that_shows_how(runner: SandboxRunner, asked: str) -> None:
    outcome = await handle(runner, f"async function handler({{ trace }}) {{\n  await trace.getSpans({asked});\n}}")
    assert isinstance(outcome, Raised), outcome
    assert (outcome.type, outcome.line) == ("TypeError", 2)
    assert '{ spanType: "llm" }' in outcome.message


PLAIN: list[tuple[str, Any]] = [
    ("true", True), ("0.5", 0.5), ("-0", 0), ("null", None), ("undefined", None), ("'x'", "x"), ("[]", []),
    ("({})", {}),
    ("({ a: { b: [1, null, 'ü🚢\\u0000'] } })", {"a": {"b": [1, None, "ü🚢\0"]}}),
    ("Object.assign(Object.create(null), { a: 1 })", {"a": 1}),
    ("({ at: new Date(0) })", {"at": "1970-01-01T00:00:00.000Z"}),
    ("({ get a() { return 1 } })", {"a": 1}),
    ("JSON.parse('{\"__proto__\": {\"a\": 1}}')", {"__proto__": {"a": 1}}),
    ("Object.defineProperty({ a: 1 }, 'hidden', { value: 1n })", {"a": 1}),
    ("[1e21, 5e-324, 1.7976931348623157e308, 9007199254740991]", [1e21, 5e-324, 1.7976931348623157e308, 2**53 - 1]),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "value"), PLAIN)
async def test_plain_values_come_back(runner: SandboxRunner, expression: str, value: Any) -> None:
    assert await value_of(runner, f"function evaluate() {{ return {expression} }}") == value


UNFIT: list[tuple[str, str, str]] = [
    ("({ a: undefined })", "not-json-serialisable", "'a' is undefined"),
    ("[undefined]", "not-json-serialisable", "'0' is undefined"),
    ("[, 1]", "not-json-serialisable", "'0' is undefined"),
    ("({ a: { b: NaN } })", "non-finite", "'a.b' is NaN"),
    ("-1 / 0", "non-finite", "the returned value is -Infinity"),
    ("1n", "unsupported-return-type", "a BigInt"),
    ("({ a: 1n })", "not-json-serialisable", "'a' is a BigInt"),
    ("({ a: new Map([[1, 2]]) })", "not-json-serialisable", "'a' is a Map"),
    ("new Set([1])", "unsupported-return-type", "a Set"),
    ("({ a: new WeakMap() })", "not-json-serialisable", "a WeakMap"),
    ("({ a: Symbol('s') })", "not-json-serialisable", "a symbol"),
    ("({ [Symbol('s')]: 1 })", "non-string-key", "Symbol(s)"),
    ("({ a() {} })", "not-json-serialisable", "'a' is a function"),
    ("(() => 1)", "unsupported-return-type", "a function"),
    ("new (class Score { value = 1 })()", "unsupported-return-type", "a Score"),
    ("({ a: new (class Éclair {})() })", "not-json-serialisable", "Éclair"),
    ("({ a: /x/ })", "not-json-serialisable", "a RegExp"),
    ("({ a: new Error('x') })", "not-json-serialisable", "an Error"),
    ("({ a: new Uint8Array(2) })", "not-json-serialisable", "an Uint8Array"),
    ("({ a: new Number(1) })", "not-json-serialisable", "a Number"),
    ("({ a: Promise.resolve(1) })", "not-json-serialisable", "was an await forgotten"),
    ("({ a: new Date(NaN) })", "not-json-serialisable", "invalid Date"),
    ("'ab'.match(/a/)", "not-json-serialisable", "further key 'index'"),
    ("({ a: '\\ud800' })", "bad-unicode", "'a' has half of a surrogate pair"),
    ("({ '\\ud800': 1 })", "bad-unicode", "half of a surrogate pair"),
    ("(() => { const a = {}; a.a = [a]; return a })()", "not-json-serialisable", "'a.0' contains itself"),
    ("(() => { let a = []; for (let i = 0; i < 64; i++) a = [a]; return a })()", "too-deep", "64 levels"),
    ("new Promise(() => {})", "unsupported-return-type", "never settles"),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "kind", "mention"), UNFIT)
async def test_what_json_cannot_carry_is_named(runner: SandboxRunner, expression: str, kind: str, mention: str) -> None:
    error = await error_of(runner, f"function evaluate() {{ return {expression} }}")
    assert error.kind == kind
    assert mention in error.message


@pytest.mark.parametrize("text", ["a\0b", "\0", "\ud800", "é\n🚢", "", "\u2028"])
async def test_any_text_arrives_whole(runner: SandboxRunner, text: str) -> None:
    source = "const evaluate = (text) => [text.length, ...[...text].map((each) => each.codePointAt(0))]"
    units = len(text.encode("utf-16-le", "surrogatepass")) // 2
    assert await value_of(runner, source, text) == [units, *map(ord, text)]


async def test_a_payload_of_several_megabytes_passes_and_one_beyond_the_memory_budget_breaches_it_alone(
    runner: SandboxRunner,
) -> None:
    source = "const evaluate = (inputs) => inputs.length"
    outcomes = await run(runner, source, *["x" * 5_000_000] * 3)
    assert [outcome.value for outcome in outcomes if isinstance(outcome, Returned)] == [5_000_000] * 3
    limits = Limits(memory_bytes=64 << 20, payload_bytes=128 << 20)
    outcomes = await run(runner, source, "x", ["xy"] * 8_000_000, "xx", limits=limits)
    assert isinstance(outcomes[1], Exceeded), outcomes[1]
    assert outcomes[1].budget == "memory"
    assert [outcome.value for outcome in outcomes if isinstance(outcome, Returned)] == [1, 2]


async def test_numbers_are_those_of_javascript(runner: SandboxRunner) -> None:
    given = [2**31, -(2**40), 2**53, 2**60, 10**22, 1e308]
    assert await value_of(runner, ECHO, given) == [float(number) for number in given]
    assert await value_of(runner, ECHO, 2**53 + 1) == float(2**53)


async def test_sixty_four_levels_and_a_value_used_twice_are_fine(runner: SandboxRunner) -> None:
    source = "function evaluate() { let a = 1; for (let i = 0; i < 64; i++) a = [a]; return a }"
    assert json.dumps(await value_of(runner, source)).count("[") == 64
    assert await value_of(runner, "function evaluate() { const a = [1]; return { a, b: a } }") == {"a": [1], "b": [1]}


RAISED: list[tuple[str, str, str, int | None]] = [
    ("function evaluate(inputs) {\n  return inputs.a.b;\n}", "TypeError", "cannot read property 'b' of undefined", 2),
    ("const f = () => {\n throw new RangeError('no 9');\n};\nfunction evaluate() { f() }", "RangeError", "no 9", 2),
    ("async function evaluate() {\n  await null;\n  throw new Error('late');\n}", "Error", "late", 3),
    ("class Odd extends Error {\n}\nfunction evaluate() {\n  throw new Odd('mine');\n}", "Odd", "mine", 4),
    ("function evaluate() {}\nmissing();", "ReferenceError", "missing is not defined", 2),
    ("export function evaluate() {}\n\nmissing();", "ReferenceError", "missing is not defined", 3),
    ("function evaluate() { throw 'text' }", "string", "text", None),
    ("function evaluate() { return { get a() {\n throw new TypeError('getter') } } }", "TypeError", "getter", 2),
    ("function evaluate() { return Promise.reject(new Error('no')) }", "Error", "no", 1),
    ("function evaluate() {\n  const f = () => f();\n  return f();\n}", "RangeError", "call stack", 2),
]  # fmt: skip


@pytest.mark.parametrize(("source", "name", "message", "line"), RAISED)
async def test_an_exception_shows_type_message_and_the_authors_line(
    runner: SandboxRunner, source: str, name: str, message: str, line: int | None
) -> None:
    error = await error_of(runner, source, {})
    assert (error.kind, error.type, error.line) == ("script-raised", name, line)
    assert message in error.message
    assert "assay" not in (error.traceback or "")
    assert "<input>" not in (error.traceback or "")


async def test_a_traceback_shows_the_authors_steps(runner: SandboxRunner) -> None:
    source = "function inner(value) {\n  return value.a.b;\n}\nfunction evaluate(inputs) {\n  return inner(inputs);\n}"
    error = await error_of(runner, source, {})
    assert error.traceback is not None
    assert error.traceback.splitlines()[1:] == [
        "    at inner (line 2, column 10)",
        "        return value.a.b;",
        "    at evaluate (line 5, column 16)",
        "        return inner(inputs);",
    ]


async def test_the_console_is_kept_as_logs(runner: SandboxRunner) -> None:
    source = """
function evaluate(inputs) {
  console.log("a", 1, null, undefined, 5n, -0, Symbol("s"), () => 1);
  console.error({ a: [1, "x", new Map([[1, new Set([2])]])], d: new Date(0), e: new TypeError("t") });
  console.assert(1 === 2, "no"); console.assert(true, "unseen"); console.time("t"); console.table([[1]]);
  class Point { x = 1 }
  const loop = { name: "loop" }; loop.self = loop;
  console.info(new Point(), loop, { a: { b: { c: { d: { e: 1 } } } } }, /x/g, "\\ud800", [[]]);
  return true;
}"""
    [outcome] = await run(runner, source, None)
    assert isinstance(outcome, Returned)
    assert outcome.logs.splitlines() == [
        "a 1 null undefined 5n -0 Symbol(s) [Function: anonymous]",
        '{a: [1, "x", Map(1) {1 => Set(1) {2}}], d: 1970-01-01T00:00:00.000Z, e: TypeError: t}',
        "Assertion failed: no",
        "[[1]]",
        'Point {x: 1} {name: "loop", self: [Circular]} {a: {b: {c: {d: [Object]}}}} /x/g ? [[]]',
    ]


async def test_what_was_printed_before_a_hang_or_an_error_is_kept(runner: SandboxRunner) -> None:
    source = "function evaluate(i) { console.log('before', i); while (i === 1); if (i) throw new Error('x'); return 1 }"
    outcomes = await run(runner, source, 0, 1, 2, limits=Limits(wall_s=1))
    assert [outcome.logs for outcome in outcomes] == ["before 0\n", "before 1\n", "before 2\n"]
    assert [type(outcome) for outcome in outcomes] == [Returned, Exceeded, Raised]


async def test_each_evaluation_has_a_context_of_its_own(runner: SandboxRunner) -> None:
    source = "let count = 0; function evaluate() { globalThis.n = (globalThis.n ?? 0) + 1; return [++count, n] }"
    outcomes = await run(runner, source, *range(300))
    assert [outcome.value for outcome in outcomes if isinstance(outcome, Returned)] == [[1, 1]] * 300


async def test_random_numbers_differ_between_evaluations_and_batches(runner: SandboxRunner) -> None:
    source = "function evaluate() { return Math.random() }"
    values = [outcome for _ in range(3) for outcome in await run(runner, source, *range(20))]
    assert len({str(outcome.value) for outcome in values if isinstance(outcome, Returned)}) == 60


async def test_revisions_and_languages_run_side_by_side_without_mixing(runner: SandboxRunner) -> None:
    sources = [f"function evaluate(inputs) {{ return [{n}, inputs] }}" for n in range(4)]
    answers = await asyncio.gather(*[run(runner, source, *range(40), number=n) for n, source in enumerate(sources)])
    for n, outcomes in enumerate(answers):
        assert [outcome.value for outcome in outcomes if isinstance(outcome, Returned)] == [[n, i] for i in range(40)]


async def test_a_source_without_the_function_says_so(runner: SandboxRunner) -> None:
    error = await error_of(runner, "function check() {}")
    assert error.kind == "entry-point-missing"
    assert "'evaluate'" in error.message


DEFECTS: list[tuple[str, int, str]] = [
    ("let a = 1;\nlet b = ;", 2, "';'"),
    ("function evaluate( {", 1, ""),
    ("let a = 1;\nlet a = 2;", 2, "redefinition"),
    ("'use strict';\nwith (a) {}", 2, ""),
    ("export const a = 1;\nlet b = ;", 2, "';'"),
    ("import x from 'lodash';\nfunction evaluate() {}", 1, "'lodash'"),
    ("const a = '\0';", 1, "NUL"),
    ("const a = 1;\nconst b = '\ud800';", 2, "surrogate"),
    ("return 5", 1, ""),
]


@pytest.mark.parametrize(("source", "line", "mention"), DEFECTS)
async def test_a_defect_is_reported_with_its_line(runner: SandboxRunner, source: str, line: int, mention: str) -> None:
    defect = (await runner.inspect("javascript", source)).defect
    assert defect is not None
    assert (defect.kind, defect.line) == ("syntax-error", line)
    assert mention in defect.message
    error = await error_of(runner, source)
    assert (error.kind, error.type, error.line) == ("syntax-error", "SyntaxError", line)


@pytest.mark.parametrize(
    "source",
    ["[" * 200_000, "let a = " + "-" * 200_000 + "1", "`${" * 60_000, "=/[" * 80_000, "let a=function " * 15_000],
    ids=["brackets", "signs", "templates", "patterns", "functions"],
)
async def test_a_source_made_to_take_long_is_a_defect_at_once(runner: SandboxRunner, source: str) -> None:
    defect = (await runner.inspect("javascript", source)).defect
    assert defect is not None
    assert "within the limits" not in defect.message


async def test_inspection_runs_nothing(runner: SandboxRunner) -> None:
    source = "for (;;) {}\nfunction evaluate(a, b) {}\nconst handler = await 1"
    assert (await runner.inspect("javascript", source)).names == {"evaluate": 2, "handler": None}


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("export default async ({ input }) => 1", {"handler": 1}),
        ("export default async (a) => 1", {"evaluate": 1, "handler": 1}),
        ("if (true) { var evaluate = (a) => a }", {"evaluate": None}),
        ("const check = (a) => a;\nexport { check as default }", {"check": 1, "evaluate": 1, "handler": 1}),
        ("const a = (x) => x, b = 1", {"a": 1, "b": None}),
    ],
)
async def test_inspection_names_what_a_source_binds(
    runner: SandboxRunner, source: str, names: dict[str, int | None]
) -> None:
    inspection = await runner.inspect("javascript", source)
    assert (inspection.names, inspection.defect) == (names, None)


async def test_the_process_that_runs_javascript_cannot_be_seen_by_python(runner: SandboxRunner) -> None:
    await run(runner, ECHO, 1)
    source = """
import os, sys
def evaluate(inputs, outputs, trace):
    folder = os.path.dirname(os.path.dirname(sys.modules["orjson"].__file__))
    return ["_quickjs" in sys.modules, any(os.path.exists(f"{folder}/{name}") for name in inputs)]
"""
    names = ["_quickjs.abi3.so", "quickjs_rs/_transform.wasm", "wasmtime/__init__.py"]
    [outcome] = await run(runner, source, names, language="python")
    assert isinstance(outcome, Returned), outcome
    assert outcome.value[0] is False  # type: ignore[index]

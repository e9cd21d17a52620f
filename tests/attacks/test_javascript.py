"""Attacks in JavaScript: on what surrounds the engine, on resources, on the harness, and on other evaluations.

All of them are TypeScript too, and are tried as such where the least layers hold them.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio

from assay.domain.evaluator import Language
from assay.domain.outcome import Exceeded, Limits, Outcome, Raised, Returned
from assay.errors import SandboxUnavailableError
from assay.runners.sandbox.runner import SandboxRunner
from support.sandbox import IMPATIENT, LADDER, calls_of, revision_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

HARMLESS = "const evaluate = (inputs, outputs) => outputs.length;"
SMALL = Limits(wall_s=6, memory_bytes=64 * 1024 * 1024)


@dataclass(frozen=True)
class Target:
    """A sandbox, and the language in which it is attacked."""

    sandbox: SandboxRunner
    language: Language


@pytest_asyncio.fixture(
    scope="module",
    loop_scope="module",
    params=[*((rung, "javascript") for rung in LADDER), (LADDER[-1], "typescript")],
    ids=lambda param: f"{param[0].name}-{param[1]}",
)
async def target(request: pytest.FixtureRequest) -> AsyncIterator[Target]:
    rung, language = request.param
    try:
        started = await SandboxRunner.start_on(rung, workers=1)
    except SandboxUnavailableError as error:
        pytest.skip(f"{rung.description}: {error}")
    try:
        yield Target(started, language)
    finally:
        await started.close()


@pytest_asyncio.fixture(loop_scope="module")
async def runner(target: Target) -> AsyncIterator[Target]:
    """The runner, held to go on after the attack with the same zygotes."""
    await run(target, HARMLESS, None)
    zygotes = target.sandbox.zygote_pids
    yield target
    [outcome] = await run(target, HARMLESS, None, number=99)
    assert isinstance(outcome, Returned), outcome
    assert outcome.value == len("an answer")
    assert target.sandbox.zygote_pids == zygotes


async def run(
    target: Target, source: str, *inputs: object, limits: Limits = IMPATIENT, number: int = 1
) -> list[Outcome]:
    revision = revision_of(source, language=target.language, number=number)
    return await target.sandbox.execute(revision, calls_of(*inputs), limits)


OUT_OF_REACH = [
    "require", "process", "module", "exports", "global", "window", "self", "std", "os", "bjson", "scriptArgs", "print",
    "load", "loadScript", "gc", "fetch", "XMLHttpRequest", "WebSocket", "Worker", "Deno", "Bun", "java", "WebAssembly",
    "setTimeout", "navigator", "part", "quickjs", "__dirname", "importScripts", "python",
]  # fmt: skip


async def test_nothing_of_a_host_is_in_reach(runner: Target) -> None:
    source = f"function evaluate() {{ return {OUT_OF_REACH!r}.filter((name) => name in globalThis) }}"
    [outcome] = await run(runner, source, None)
    assert isinstance(outcome, Returned), outcome
    assert outcome.value == []


FAR = {
    "the Function constructor": "Function('return typeof require + typeof process + typeof part')()",
    "the constructor of an argument": "inputs.constructor.constructor('return typeof part + typeof std + typeof os')()",
    "the constructor of the console": "console.log.constructor('return typeof part + typeof tell')()",
    "the constructor of an async function": "typeof (async () => {}).constructor('return part')",
    "the constructor of a generator": "[...(function* () {}).constructor('yield typeof part')()][0]",
    "indirect eval": "(0, eval)('typeof part + typeof kept')",
    "direct eval": "eval('typeof part + typeof kept')",
    "the caller of the function": "String(evaluate.caller) + String(evaluate.arguments)",
    "the global object": "Reflect.ownKeys(globalThis).filter((key) => /assay|part|host/.test(String(key))).join()",
    "the text of the console": "String(console.log).includes('/work') || String(console.log).includes('python')",
}
ABSENT = ("undefined", "null", "", False, "function")


@pytest.mark.parametrize("how", FAR)
async def test_no_way_leads_out_of_the_context(runner: Target, how: str) -> None:
    source = f"function evaluate(inputs) {{ return {{ found: {FAR[how]} }} }}"
    [outcome] = await run(runner, source, {})
    if isinstance(outcome, Raised):
        assert outcome.type in ("TypeError", "ReferenceError")
    else:
        assert isinstance(outcome, Returned), outcome
        assert isinstance(outcome.value, dict)
        found = outcome.value["found"]
        assert found in ABSENT or set(str(found).split("undefined")) == {""}


MODULES = [
    "os", "std", "qjs:std", "bjson", "fs", "node:fs", "/etc/passwd", "./evaluator.js", "file:///etc/passwd",
    "data:text/javascript,1",
]  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
async def test_no_module_can_be_loaded(runner: Target, name: str) -> None:
    source = f"async function evaluate() {{ await import({name!r}); return true }}"
    [outcome] = await run(runner, source, None)
    assert isinstance(outcome, Raised), outcome
    assert "could not load module" in outcome.message


STEPS = """
function steps() {
  const before = Error.prepareStackTrace;
  let found = [];
  Error.prepareStackTrace = (error, sites) => { found = sites; return "" };
  new Error("").stack;
  Error.prepareStackTrace = before;
  return found.map((site) => site.getFunction && site.getFunction()).filter((each) => typeof each === "function");
}
"""


async def test_the_harness_found_in_the_stack_gives_nothing_away(runner: Target) -> None:
    source = f"""{STEPS}
function evaluate(inputs) {{
  const answers = [];
  for (const step of steps()) {{
    if (step === evaluate || step === steps) continue;
    for (const given of [[], ["/etc/passwd"], [null, 1], [{{}}], ["part"], [() => 1, 1]]) {{
      try {{ answers.push(String(step(...given))) }} catch (error) {{ answers.push(String(error)) }}
    }}
  }}
  return {{ leaked: answers.filter((text) => /root:|Traceback|python|site-packages/.test(text)) }};
}}"""
    [outcome] = await run(runner, source, None)
    if isinstance(outcome, Returned):
        assert outcome.value in ({"leaked": []}, 1, None)


HANGS = {
    "an endless loop": "for (;;) {}",
    "an endless loop of awaits": "return (async () => { for (;;) await null })()",
    "a chain of microtasks": "const next = () => queueMicrotask(next); next(); return new Promise(() => {})",
    "a catastrophic regular expression": "/^(a+)+$/.test('a'.repeat(60) + 'b')",
    "a comparison that never ends": "[3, 1, 2].sort(() => { for (;;) {} })",
    "a getter in the result": "return { get score() { for (;;) {} } }",
    "a proxy as the result": "return new Proxy({}, { ownKeys() { for (;;) {} } })",
    "a proxy without end": "return new Proxy({}, { get: () => 1, ownKeys: () => { let n = 0; for (;;) n++ } })",
    "toISOString of a date": "const d = new Date(0); d.toISOString = () => { for (;;) {} }; for (;;) d.toISOString()",
    "the message of an error": "throw { get message() { for (;;) {} } }",
    "the then of a result": "return { get then() { for (;;) {} } }",
    "a thenable that spins": "return { then() { for (;;) {} } }",
    "swallowing every exception": "for (;;) { try { for (;;) {} } catch {} }",
    "a finally that begins again": "const f = () => { try { return f() } finally { for (;;) {} } }; f()",
    "a key whose text never comes": "({})[{ toString() { for (;;) {} } }]",
    "an iterator without end": "for (const _ of (function* () { for (;;) yield 1 })()) {}",
    "a replacement that never ends": "'aa'.replace(/a/g, () => { for (;;) {} })",
    "a wide graph that is walked again and again":
        "let a = {}; for (let i = 0; i < 60; i++) a = { l: a, r: a }; return { a, n: 0n, ...a }",
    "printing what never ends": "console.log({ get a() { for (;;) {} } })",
}  # fmt: skip


@pytest.mark.parametrize("how", HANGS)
async def test_what_hangs_is_killed_and_alone_blamed(runner: Target, how: str) -> None:
    source = f"function evaluate(inputs) {{ if (inputs) {{ {HANGS[how]} }} return true }}"
    outcomes = await run(runner, source, 0, 1, 0, limits=Limits(wall_s=1))
    assert isinstance(outcomes[1], Exceeded), outcomes[1]
    assert outcomes[1].budget in ("wall", "result", "memory")
    assert [type(outcomes[index]) for index in (0, 2)] == [Returned, Returned]


async def test_a_source_that_hangs_while_it_is_loaded_is_killed_each_time(runner: Target) -> None:
    for source in ("for (;;) {}", "class A { static { for (;;) {} } }", "await null; for (;;) {}"):
        outcomes = await run(runner, f"{source}\n{HARMLESS}", 0, limits=Limits(wall_s=0.5))
        assert isinstance(outcomes[0], Exceeded)
        assert outcomes[0].budget == "wall"


async def test_cpu_time_is_a_budget_of_its_own(runner: Target) -> None:
    source = "function evaluate(inputs) { while (inputs) {} return 1 }"
    outcomes = await run(runner, source, 1, 0, limits=Limits(wall_s=20, cpu_s=0.5))
    assert isinstance(outcomes[0], Exceeded)
    assert outcomes[0].budget == "cpu"
    assert isinstance(outcomes[1], Returned)


GREED = {
    "an array": "const a = []; for (;;) a.push(new Array(1000).fill(1.5))",
    "a string": "let s = 'xy'; for (;;) s += s + Math.random()",
    "a map": "const m = new Map(); for (let i = 0; ; i++) m.set(i, { i })",
    "buffers": "const a = []; for (;;) a.push(new ArrayBuffer(1 << 20))",
    "a typed array": "const a = []; for (;;) a.push(new Float64Array(1 << 18).fill(1))",
    "closures": "let f = () => 0; for (;;) { const g = f; f = () => g() }",
    "promises": "const a = []; for (;;) a.push(new Promise(() => {}))",
    "symbols": "const a = []; for (;;) a.push(Symbol('x'.repeat(1000)))",
    "a spread without end": "return [...(function* () { for (;;) yield {} })()]",
    "big integers": "let n = 3n; for (;;) n *= n",
    "memory that is caught": "const a = []; for (;;) { try { for (;;) a.push(new Array(1000).fill(1.5)) } catch { } }",
    "source text": "let s = 'a'; for (;;) { s += '+a'.repeat(100000); Function('a', 'return ' + s) }",
    "regular expressions": "const a = []; for (let i = 0; ; i++) a.push(new RegExp('a{' + i + ',' + (i + 1000) + '}'))",
}


@pytest.mark.parametrize("how", GREED)
async def test_greed_for_memory_ends_within_its_budgets(runner: Target, how: str) -> None:
    source = f"function evaluate(inputs) {{ if (inputs) {{ {GREED[how]} }} return true }}"
    outcomes = await run(runner, source, 0, 1, 0, limits=SMALL)
    if isinstance(outcomes[1], Raised):
        assert outcomes[1].type in ("RangeError", "InternalError", "SyntaxError"), outcomes[1]
    else:
        assert isinstance(outcomes[1], Exceeded), outcomes[1]
        assert outcomes[1].budget in ("memory", "wall")
    assert [type(outcomes[index]) for index in (0, 2)] == [Returned, Returned]


REFUSED_AT_ONCE = {
    "endless recursion": "const f = () => f() + 1; f()",
    "recursion through a getter": "const o = { get a() { return this.a } }; o.a",
    "recursion through JSON": "const o = { toJSON() { return JSON.stringify(o) } }; JSON.stringify(o)",
    "recursion through a proxy": "const p = new Proxy({}, {}); Object.setPrototypeOf(p, p)",
    "recursion through sort": "const f = () => [2, 1].sort(f); f()",
    "recursion through replace": "const f = () => 'a'.replace('a', f); f()",
    "a deep pattern": "RegExp('('.repeat(100000))",
    "deep brackets": "Function('return ' + '['.repeat(200000) + ']'.repeat(200000))",
    "deep JSON": "JSON.parse('['.repeat(1000000))",
    "a string too long": "'x'.repeat(2 ** 31)",
    "an array too long": "new Array(-1)",
    "a buffer too large": "new ArrayBuffer(2 ** 53)",
    "a huge power": "10n ** 10n ** 9n",
    "waiting": "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)",
}


@pytest.mark.parametrize("how", REFUSED_AT_ONCE)
async def test_what_the_engine_refuses_is_the_error_of_that_evaluation(runner: Target, how: str) -> None:
    source = (
        f"function evaluate(inputs) {{ if (inputs) {{ {REFUSED_AT_ONCE[how]}; throw new Error('done') }} return true }}"
    )
    outcomes = await run(runner, source, 0, 1, 0, limits=SMALL)
    assert isinstance(outcomes[1], Raised | Exceeded), outcomes[1]
    assert [type(outcomes[index]) for index in (0, 2)] == [Returned, Returned]


async def test_output_without_end_is_cut_and_a_result_without_end_is_refused(runner: Target) -> None:
    source = """
function evaluate(inputs) {
  for (let i = 0; i < 2000; i++) console.log("x".repeat(1000));
  return inputs ? "y".repeat(1 << 20) : { list: new Array(1 << 20).fill(0) };
}"""
    outcomes = await run(runner, source, 0, 1, limits=Limits(wall_s=20, log_bytes=1000))
    assert [outcome.budget for outcome in outcomes if isinstance(outcome, Exceeded)] == ["result", "result"]
    for outcome in outcomes:
        assert "2002000 bytes were printed, 1000 are kept" in outcome.logs


TRAPS = """
function lay(prototype, ...keys) {
  const trap = { set() { throw new Error("seen") }, get() {}, configurable: true };
  for (const key of keys) Object.defineProperty(prototype, key, trap);
}
"""
TAMPERING = {
    "JSON": "JSON.stringify = () => '1'; JSON.parse = () => 1; delete globalThis.JSON",
    "Reflect": "for (const key of Reflect.ownKeys(Reflect)) { try { Reflect[key] = () => [] } catch {} }",
    "Array": "Array.isArray = () => false; Array.prototype[Symbol.iterator] = function* () {}",
    "the prototype of arrays": "const p = Array.prototype; for (const k of Reflect.ownKeys(p)) { try "
    "{ p[k] = () => 1 } catch {} }",
    "strings": "String.prototype.isWellFormed = () => false; globalThis.String = () => 'x'",
    "promises": "Promise.prototype.then = () => {}; Promise.resolve = () => {}; globalThis.Promise = class {}",
    "the console": "console.log = null; globalThis.console = null",
    "the getter of the console": "Object.defineProperty(globalThis, 'console', { get() { throw 1 } })",
    "functions": "Function.prototype.call = Function.prototype.apply = () => 1",
    "eval": "globalThis.eval = () => 1",
    "symbols": "Object.defineProperty(Object.prototype, Symbol.toPrimitive, { value: () => 'x' })",
    "setters on the prototype of objects": "lay(Object.prototype, 'kind', 'type', 'message', 'stack', 'then', "
    "'get', 'value')",
    "setters on the prototype of arrays": "lay(Array.prototype, 0, 1, 2, 4, 5)",
}  # fmt: skip


@pytest.mark.parametrize("what", TAMPERING)
async def test_a_language_that_is_tampered_with_spoils_no_other_evaluation(runner: Target, what: str) -> None:
    source = f"""{TRAPS}
function evaluate(inputs) {{
  if (inputs === 1) {{ {TAMPERING[what]} }}
  return {{ score: 0.5, list: [inputs] }};
}}"""
    outcomes = await run(runner, source, 0, 1, 2)
    assert [outcome.value for outcome in outcomes[::2] if isinstance(outcome, Returned)] == [
        {"score": 0.5, "list": [0]},
        {"score": 0.5, "list": [2]},
    ]
    if isinstance(outcomes[1], Returned):
        assert outcomes[1].value == {"score": 0.5, "list": [1]}
    else:
        assert isinstance(outcomes[1], Raised)


POLLUTION = {
    "the prototype of objects": "Object.prototype.polluted = 1",
    "__proto__": "({}).__proto__.polluted = 1",
    "the prototype of a constructor": "inputs.constructor.prototype.polluted = 1",
    "a merge of JSON": "Object.assign({}.__proto__, JSON.parse('{\"polluted\": 1}'))",
    "the global object": "globalThis.polluted = 1",
    "an undeclared variable": "polluted = 1",
    "a frozen world": "Object.freeze(Object.prototype); globalThis.polluted = 1",
    "toJSON": "Object.prototype.toJSON = () => 0.99; globalThis.polluted = 1",
    "a registered symbol": "Object.prototype[Symbol.for('polluted')] = 1; globalThis.polluted = 1",
    "a shared buffer": "globalThis.polluted = new SharedArrayBuffer(8)",
    "a timer of garbage": "globalThis.polluted = new FinalizationRegistry(() => { "
    "({}).__proto__.polluted = 1 }); polluted.register({}, 1)",
    "a job left behind": "Promise.resolve().then(() => { globalThis.polluted = 1 })",
}


@pytest.mark.parametrize("what", POLLUTION)
async def test_pollution_is_not_seen_by_the_next_evaluation(runner: Target, what: str) -> None:
    source = f"""
function evaluate(inputs) {{
  const seen = "polluted" in {{}} || "polluted" in globalThis || ({{}})[Symbol.for("polluted")] === 1;
  {POLLUTION[what]};
  return seen;
}}"""
    outcomes = await run(runner, source, {}, {}, {})
    for outcome in outcomes:
        if isinstance(outcome, Returned):
            assert outcome.value in (False, 0.99)
        else:
            assert isinstance(outcome, Raised)


async def test_what_one_revision_leaves_behind_is_not_seen_by_another(runner: Target) -> None:
    await run(
        runner, "globalThis.secret = 'p1'; function evaluate() { Object.prototype.secret = 'p1'; return 1 }", None
    )
    source = "function evaluate() { return { seen: typeof globalThis.secret } }"
    [outcome] = await run(runner, source, None, number=2)
    assert isinstance(outcome, Returned)
    assert outcome.value == {"seen": "undefined"}


LIES = {
    "a message that throws": "throw { get message() { throw 1 }, get name() { throw 2 }, get stack() { throw 3 } }",
    "a message that is no text": "throw Object.assign(new Error('x'), { message: 5n, name: Symbol('n'), stack: {} })",
    "a stack of its own": "throw Object.assign(new Error('x'), { stack: '    at f "
    "(<input>:99999:1)\\n    at g (/a:1:1)' })",
    "a stack made by itself": "Error.prepareStackTrace = () => { throw 1 }; throw new Error('x')",
    "a proxy of an error": "throw new Proxy(new Error('x'), { get() { throw 1 }, getPrototypeOf() { throw 2 } })",
    "null": "throw null",
    "undefined": "throw undefined",
    "a symbol": "throw Symbol('s')",
    "a function": "throw () => 1",
    "half of a surrogate pair": "throw new Error('\\ud800')",
    "a NUL": "throw new Error('a\\0b')",
    "a long message": "throw new Error('x'.repeat(1 << 20))",
    "a name of its own": "throw Object.assign(new Error('x'), { name: 'n'.repeat(100000) })",
    "the report of the harness": "throw { kind: 'too-large', type: 'UnfitValue', message: 'm', stack: '' }",
    "a rejected promise": "return Promise.reject(new Error('x'))",
    "a job that throws": "queueMicrotask(() => { throw new Error('x') }); return new Promise(() => {})",
}


@pytest.mark.parametrize("what", LIES)
async def test_an_exception_that_lies_is_the_error_of_its_own_evaluation(runner: Target, what: str) -> None:
    source = f"function evaluate(inputs) {{ if (inputs) {{ {LIES[what]} }} return true }}"
    outcomes = await run(runner, source, 0, 1, 0)
    assert isinstance(outcomes[1], Raised), outcomes[1]
    assert outcomes[1].kind in ("script-raised", "unsupported-return-type")
    assert len(outcomes[1].message) < 5000
    assert "assay" not in f"{outcomes[1].message}{outcomes[1].traceback}"
    assert [type(outcomes[index]) for index in (0, 2)] == [Returned, Returned]


async def test_text_that_looks_like_a_result_is_only_logged(runner: Target) -> None:
    source = 'function evaluate(inputs) { console.log("=0.99"); console.log("\\u0000\\u0001B"); return inputs / 10 }'
    outcomes = await run(runner, source, 1, 2, 3)
    assert [outcome.value for outcome in outcomes if isinstance(outcome, Returned)] == [0.1, 0.2, 0.3]
    assert all(outcome.logs == "=0.99\n\0\x01B\n" for outcome in outcomes)


async def test_a_getter_carries_nothing_between_evaluations(runner: Target) -> None:
    source = """
const kept = [];
function evaluate(inputs) {
  const sink = { get score() { kept.push(inputs); return kept.length / 10 } };
  return sink;
}"""
    outcomes = await run(runner, source, "a secret", "another", "a third")
    assert len({str(outcome.value) for outcome in outcomes if isinstance(outcome, Returned)}) == 1

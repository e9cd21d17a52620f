"""Attacks with what TypeScript adds: on its translator, on what its forms come to, and on the places it is told by.

Each is looked at, as when it is saved, and run all the same between two evaluations that need nothing of it. It must be
refused with a defect, or end as the error of that evaluation or as its value, and the sandbox goes on.
"""

import re
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, cast

import pytest
import pytest_asyncio

from assay.domain.check import Check
from assay.domain.outcome import Limits
from assay.domain.subject import Testcase as Row
from assay.engine import Engine
from assay.runners.sandbox.runner import SandboxRunner
from assay.testing import FixedClock
from support.runners import module_runner
from support.sandbox import own_descendants, revision_of
from support.server import wait_for

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIMITS = Limits(wall_s=1.5, memory_bytes=96 * 1024 * 1024)
HARMLESS = "function evaluate(inputs: number, outputs: string): number { return outputs.length / 10 }"
OURS = re.compile(r"assay\$|site-packages|wasmtime|Traceback|\$L\d|/work|_transform")
RETURNS = "function evaluate(): number { return 0.5 }"


runner = module_runner(partial(SandboxRunner.start, workers=1, minimum="no-landlock"))


@pytest_asyncio.fixture(loop_scope="module")
async def engine(runner: SandboxRunner) -> AsyncIterator[Engine]:
    """The engine over the sandbox, held to go on after the attack with the same processes."""
    started = Engine({"typescript": runner}, FixedClock(), LIMITS)
    await checked(started, HARMLESS)
    zygotes, idle = runner.zygote_pids, len(own_descendants())
    yield started
    [check] = await checked(started, HARMLESS)
    assert check.reading.metrics == {"score": 0.9, "success": True}
    assert runner.zygote_pids == zygotes
    wait_for(lambda: len(own_descendants()) <= idle, "the children to end")


async def checked(engine: Engine, source: str, count: int = 1) -> list[Check]:
    rows = [Row(inputs=number, outputs="an answer") for number in range(count)]
    checks = await engine.evaluate(revision_of(source, language="typescript"), rows)
    assert all(isinstance(check, Check) for check in checks), checks
    return [check for check in checks if isinstance(check, Check)]


def times(count: int, before: str, middle: str = "", after: str = "") -> str:
    return before * count + middle + after * count


DEEP = 30_000
BOMBS: dict[str, str] = {
    "parentheses": f"const a = {times(DEEP, '(', '1', ')')};",
    "brackets of a type": f"type A = {times(DEEP, '[', '1', ']')};",
    "parentheses of a type": f"type A = {times(DEEP, '(', '1', ')')};",
    "arguments of a generic": f"type A<T> = T; let a: {times(DEEP, 'A<', '1', '>')};",
    "conditional types": f"type A = {times(10_000, 'X extends Y ? Z : ', 'never')};",
    "function types": f"type A = {times(DEEP, '() => ', 'void')};",
    "object types": f"type A = {times(DEEP, '{a:', '1', '}')};",
    "template types": f"type A = {times(8_000, '`${', '1', '}`')};",
    "assertions": f"const a = 1 {times(20_000, 'as any ')};",
    "satisfactions": f"const a = 1 {times(15_000, 'satisfies any ')};",
    "old assertions": f"const a = {times(DEEP, '<any>', '1')};",
    "non-null marks": f"const a: any = 1; const b = a{times(200_000, '!')};",
    "array marks": f"let a: any{times(100_000, '[]')};",
    "keys of keys": f"type A = {times(30_000, 'keyof ', 'any')};",
    "a giant union": f"type A = {' | '.join(str(n) for n in range(32_000))};",
    "a giant intersection": f"type A = {' & '.join(f'B{n}' for n in range(30_000))};",
    "a giant tuple": f"type A = [{','.join('1' for _ in range(120_000))}];",
    "a giant interface": f"interface A {{ {''.join(f'a{n}: {n};' for n in range(18_000))} }}",
    "a giant enum": f"enum A {{ {','.join(f'a{n}' for n in range(25_000))} }}",
    "an enum of sums": f"enum A {{ a = {times(60_000, '1+', '1')} }}",
    "an enum of one text after the other": "enum A { a0 = 'xxxxxxxxxxxxxxxx', "
    + ",".join(f"a{n} = `${{a{n - 1}}}${{a{n - 1}}}`" for n in range(1, 60))
    + " }",
    "an enum of sums of texts": "enum A { a0 = 'xxxxxxxxxxxxxxxx', "
    + ",".join(f"a{n} = a{n - 1} + a{n - 1}" for n in range(1, 60))
    + " }",
    "an enum of shifts": "enum A { " + ",".join(f"a{n} = (1 << 31) ** {n}" for n in range(5_000)) + " }",
    "namespaces within namespaces": f"namespace {'.'.join(f'A{n}' for n in range(20_000))} {{ export const a = 1 }}",
    "nested namespaces": times(6_000, "namespace A { export ", "const a = 1", " }"),
    "a namespace many times": times(7_500, "namespace A { export var a = 1 } "),
    "overloads": times(9_000, "function f(a: 1): void; ") + "function f(a: any) {}",
    "parameter properties": f"class A {{ constructor({','.join(f'private a{n}: any' for n in range(13_000))}) {{}} }}",
    "type parameters": f"function f<{','.join(f'T{n}' for n in range(38_000))}>() {{}}",
    "arrows": f"const a = {times(20_000, '(a) => ', '1')};",
    "classes within classes": times(4_000, "class A { static a = ", "1", " }"),
    "declarations": times(14_000, "declare let a: 1; "),
    "empty statements": ";" * 250_000,
    "line ends": "\n" * 250_000,
    "carriage returns": "\r" * 250_000,
    "separators of lines": "\u2028" * 80_000,
    "a name": f"let {'a' * 250_000}: any;",
    "a number": f"const a: any = {'9' * 250_000}n;",
    "a comment": f"/*{'*' * 250_000}*/",
    "comments": "/**/" * 60_000,
    "an open comment": "/*" * 120_000,
    "an open text": "const a = '" + "x" * 250_000,
    "an open template": "const a = `${" * 20_000,
    "an open type": "type A = {" * 25_000,
    "open generics": "let a: A<" * 25_000,
    "signs of less": "<" * 250_000,
    "questions": f"const a = {times(36_000, '1 ? ', '1', ': 1')};",
    "optional chains": f"const a: any = null; const b = a{times(60_000, '?.a')};",
    "marks of ours": f"const a = 1; {times(20_000, '$L1$; ')}",
    "marks in a text": f"const a = '{'$L1$' * 50_000}';",
    "decorators": f"{times(30_000, '@a ')} class A {{}}",
    "an expression in a pattern": f"const a = /{'(' * 100_000}/;",
}


@pytest.mark.parametrize("what", BOMBS)
async def test_a_bomb_for_the_translator_is_a_defect_or_nothing(
    engine: Engine, runner: SandboxRunner, what: str
) -> None:
    source = f"{BOMBS[what]}\n{RETURNS}"
    assert len(source.encode()) <= LIMITS.source_bytes, what
    inspection = await runner.inspect("typescript", source)
    [check] = await checked(engine, source)
    if inspection.defect is not None:
        assert check.reading.error is not None
        assert check.reading.error.kind == "syntax-error"
        assert len(inspection.defect.message) < 2000
        assert not OURS.search(inspection.defect.message.replace("`$L1$`", "")), inspection.defect
    elif check.reading.error is not None:
        assert check.reading.error.kind in ("memory-exceeded", "timeout", "script-raised", "script-crashed"), check
    else:
        assert check.reading.metrics == {"score": 0.5, "success": True}


# What an attack comes to: a value, or an error of one of these kinds with these words in its message.
FORMS: dict[str, tuple[str, Any]] = {
    "declare gives nothing of the harness": (
        "declare const part: any, kept: any, process: any;\nfunction evaluate() "
        "{ return [typeof part, typeof kept, typeof process].join() === 'undefined,undefined,undefined' }",
        True,
    ),
    "a declared function is not there": (
        "declare function part(name: string): string;\nfunction evaluate() { return part('telling') }",
        ("script-raised", "part is not defined"),
    ),
    "declare global gives nothing": (
        "export {};\ndeclare global { var std: any }\n"
        "export function evaluate() { return std.loadFile('/etc/passwd') }",
        ("script-raised", "std is not defined"),
    ),
    "an ambient module cannot be loaded": (
        "declare module 'os' { export const a: string }\nimport { a } from 'os';\nexport const evaluate = () => a;",
        ("syntax-error", "cannot import"),
    ),
    "a module at run time cannot be loaded": (
        "async function evaluate() { const os = await import('os' as string); return os }",
        ("script-raised", "could not load module"),
    ),
    "a required module": (
        "import fs = require('fs');\nfunction evaluate() { return fs }",
        ("syntax-error", "CommonJS"),
    ),
    "an export of everything": ("function evaluate() {}\nexport = evaluate;", ("syntax-error", "CommonJS")),
    "a reference to a file": (f'/// <reference path="/etc/passwd" />\n{RETURNS}', 0.5),
    "a source map of a file": (f"{RETURNS}\n//# sourceMappingURL=file:///etc/passwd", 0.5),
    "a source map in the source": (
        "//# sourceMappingURL=data:application/json;base64,eyJ2ZXJzaW9uIjozLCJzb3VyY2VzIjpbIi9ldGMvcGFzc3dkIl19\n"
        "function evaluate() { throw new Error('x') }",
        ("script-raised", "Error: x"),
    ),
    "a source map that never ends": (f"{RETURNS}\n//# sourceMappingURL=data:,{'A' * 100_000}", 0.5),
    "a pragma": (f"// @ts-nocheck\n/** @jsx part */\n{RETURNS}", 0.5),
    "markup": ("const a = <div></div>;", ("syntax-error", "")),
    "a namespace over Object": (
        "namespace Object { export const keys = () => ['stolen'] }\nfunction evaluate() { return { a: 1 } }",
        {"a": 1},
    ),
    "a namespace over JSON": (
        "namespace JSON { export const stringify = () => '0.99' }\nfunction evaluate() { return { a: 1 } }",
        {"a": 1},
    ),
    "a namespace that patches prototypes": (
        "namespace N { (Object.prototype as any).polluted = 1 }\n"
        "function evaluate(inputs: number) { return { seen: 'polluted' in {}, inputs } }",
        {"seen": True, "inputs": 1},
    ),
    "an enum over a global": (
        "enum Reflect { apply, ownKeys }\nfunction evaluate() { return { a: Reflect.apply } }",
        {"a": 0},
    ),
    "an enum with __proto__": (
        "enum E { __proto__ = 1, b = 2 }\nfunction evaluate() { return { polluted: 'b' in {}, b: E.b } }",
        {"polluted": False, "b": 2},
    ),
    "an enum that computes without end": (
        "enum E { a = (() => { for (;;) {} })() as any }\n" + RETURNS,
        ("timeout", "longer than 1.5 s"),
    ),
    "an enum of itself": ("enum E { a = E.b as any, b = E.a as any }\nfunction evaluate() { return { a: E.a } }", None),
    "a static block without end": (f"class A {{ static {{ for (;;) {{}} }} }}\n{RETURNS}", ("timeout", "1.5 s")),
    "a parameter property called __proto__": (
        "class A { constructor(public __proto__: any) {} }\n"
        "function evaluate() { new A({ polluted: 1 }); return { seen: 'polluted' in {} } }",
        {"seen": False},
    ),
    "a parameter property called constructor": (
        "class A { constructor(public constructor: any) {} }\n"
        "function evaluate() { return { a: new A(1).constructor } }",
        ("syntax-error", "'constructor'"),
    ),
    "an accessor that escapes": (
        "class A { get value(): any { return this.constructor.constructor('return typeof part')() } }\n"
        "function evaluate() { return { found: new A().value } }",
        {"found": "undefined"},
    ),
    "decorators": (
        "function d(t: any, c: any) { return () => 0.99 }\nclass A { @d m() { return 0 } }\n" + RETURNS,
        ("syntax-error", ""),
    ),
    "a using declaration": ("function evaluate() { using a = { [Symbol.dispose]() {} } as any; return 0.5 }", None),
    "this as a parameter": ("function evaluate(this: any) { return { own: this === globalThis } }", None),
    "a cast to anything": (
        "function evaluate(inputs: any) { return (inputs as unknown as { secret: string }).secret }",
        ("none-returned", "undefined"),
    ),
    "types that lie": ("function evaluate(): number { return 'text' as any as number }", ("unsupported", "string")),
    "an undefined that types deny": ("function evaluate() { return { a: undefined! } }", ("not-json", "'a' is undef")),
    "a bigint that types deny": ("function evaluate() { return { a: 1n as any as number } }", ("not-json", "BigInt")),
    "an abstract class made all the same": (
        "abstract class A { abstract a(): number }\nfunction evaluate() { return new (A as any)().a() }",
        ("script-raised", "TypeError"),
    ),
    "a private field by its name": (
        "class A { private secret = 1; #own = 2 }\nfunction evaluate() { return { all: JSON.stringify(new A()) } }",
        {"all": '{"secret":1}'},
    ),
    "half of a surrogate pair": (f"const a = '\ud800';\n{RETURNS}", ("syntax-error", "surrogate")),
    "a NUL": (f"const a = '\0';\n{RETURNS}", ("syntax-error", "NUL")),
    "a mark of byte order within": (f"const \ufeffa = 1;\n{RETURNS}", 0.5),
    "names in escapes": ("function ev\\u0061luate(): number { return 0.5 }", None),
    "a name turned around": (f"const a\u202e = 1;\n{RETURNS}", ("syntax-error", "")),
    "separators of lines": ("const a = '\u2028';\u2028function evaluate() { throw new Error('x') }", ("script-", "x")),
    "markup comments": (f"<!-- a comment\n{RETURNS}", None),
    "marks of ours": (
        "const $L1$ = 1, $LL2$ = 2, $L = 3;\nfunction evaluate() { return { sum: $L1$ + $LL2$ + $L } }",
        {"sum": 6},
    ),
    "marks of ours in an exception": (
        "function $L9$(): never {\n  throw new Error('$L7$');\n}\nfunction evaluate() { $L9$() }",
        ("script-raised", "Error: $L7$"),
    ),
    "a stack made up": (
        "function evaluate() { const e = new Error('x'); e.stack = '    at f (<input>:99999:1)'; throw e }",
        ("script-raised", "Error: x"),
    ),
    "an answer in the log": ("function evaluate() { console.log('=0.99'); return 0.5 }", 0.5),
    "code made at run time": (
        "function evaluate() { return new Function('return typeof part + typeof require')() === 'undefinedundefined' }",
        True,
    ),
    "types made at run time": ("function evaluate() { return eval('1 as number') }", ("script-raised", "SyntaxError")),
}


@pytest.mark.parametrize("what", FORMS)
async def test_what_a_form_of_typescript_comes_to_is_told_truthfully(engine: Engine, what: str) -> None:
    source, expected = FORMS[what]
    checks = await checked(engine, source, 3)
    for inputs, check in enumerate(checks):
        error = check.reading.error
        told = f"{error and (error.message, error.traceback)}{check.logs}"
        assert not OURS.search(re.sub(r"\$L[79]\$", "", told)), told
        match expected:
            case (str() as kind, str() as words):
                assert error is not None, check.reading
                assert error.kind.startswith(kind), error
                assert words in error.message, error
            case bool():
                assert check.reading.metrics == {"success": expected}, check.reading
            case float():
                assert check.reading.metrics == {"score": expected, "success": True}, check.reading
            case dict():
                wanted = cast("dict[str, Any]", expected)
                own = {"inputs": inputs} if "inputs" in wanted else {}
                assert check.reading.metrics == {**wanted, **own}, check.reading
            case _:
                assert error is None or error.kind in ("syntax-error", "script-raised", "not-json-serialisable"), error

"""TypeScript in the sandbox: translated whole or refused, and always told in the author's own lines."""

from typing import Any

import pytest

from assay.domain.outcome import Limits, Outcome, Raised, Returned
from assay.runners.sandbox.runner import SandboxRunner
from support.runners import ladder_runner
from support.sandbox import calls_of, revision_of

pytestmark = pytest.mark.asyncio(loop_scope="module")


runner = ladder_runner(workers=1)


async def run(runner: SandboxRunner, source: str, *inputs: Any) -> list[Outcome]:
    return await runner.execute(revision_of(source, language="typescript"), calls_of(*inputs), Limits())


async def value_of(runner: SandboxRunner, source: str, given: Any = None) -> Any:
    [outcome] = await run(runner, source, given)
    assert isinstance(outcome, Returned), outcome
    return outcome.value


WHOLE = '''
import type { Nothing } from "./nothing";
import { type Other } from "elsewhere";
enum Grade { Low = 1, High = Low << 1,
  Top = High + 5 }
const enum Word { A = "a" }
interface Row<T> { value: T; tags?: readonly string[] }
type Alias = { [key in keyof Row<number>]: string };
namespace Outer.Inner {
  export const one = 1;
  export function two(): number { return one + one }
}
class Base<T extends object> {
  #secret = 1;
  static count: number = 0;
  declare ghost: string;
  constructor(private readonly a: number, public b = 2, protected c?: T) {}
  get sum(): number { return this.a + this.b + this.#secret }
}
abstract class Shape { abstract area(): number; twice(): number { return this.area() * 2 } }
class Square extends Shape { override area(): number { return 9 } }
const NAMES = ["low", "high"] as const;
function pick<T, K extends keyof T>(o: T, k: K): T[K] { return o[k] }
function over(a: string): string;
function over(a: number): string;
function over(a: unknown): string { return typeof a }
function sure(a: unknown): asserts a is string { if (typeof a !== "string") throw new Error("no") }
const limits = { max: 5 } satisfies Record<string, number>;
let later!: string;
const arrow = async <T,>(x: T): Promise<T> => x;

async function evaluate(this: void, inputs: Row<number>, outputs: string, trace?: unknown): Promise<Record<string, unknown>> {
  const g: Grade = pick(inputs, "value") > limits.max ? Grade.High : Grade.Low;
  sure(outputs); later = <string>outputs;
  return {
    grade: g, top: Grade.Top, label: Grade[g], word: Word.A, tags: inputs.tags!.length, two: Outer.Inner.two(),
    sum: new Base(3).sum, b: new Base(3).b, square: new Square().twice(), over: over(1), later, name: NAMES[g - 1],
    arrow: await arrow(inputs?.value ?? 0),
  };
}
'''  # fmt: skip  # noqa: E501


async def test_the_whole_language_comes_to_what_it_means(runner: SandboxRunner) -> None:
    assert await value_of(runner, WHOLE, {"value": 9, "tags": ["x"]}) == {
        "grade": 2, "top": 7, "label": "High", "word": "a", "tags": 1, "two": 2, "sum": 6, "b": 2, "square": 18,
        "over": "number", "later": "an answer", "name": "high", "arrow": 9,
    }  # fmt: skip


HERE = "// here"
LINES = [
    """
interface A {
  x: number;
}

function evaluate(inputs: A): number {
  throw new Error("x"); // here
}""",
    """
type A =
  | 1
  | 2;
const evaluate = (
  inputs: A,
  outputs: string,
): number => inputs.a.b; // here""",
    """
enum E {
  A,
  B,
}
namespace N {
  export function f(): never {
    throw new Error("x"); // here
  }
}
function evaluate() {
  return N.f();
}""",
    """
class P {
  constructor(
    private a: any,
  ) {}
  get(): number {
    const { a } = this;
    return a.b.c; // here
  }
}
function evaluate() { return new P({}).get() }""",
    """
// a comment
/* and
another */
function evaluate(inputs: any) {
  const list = inputs
    .map((x: any): any => x)
    .filter((x: any): any => x.a.b); // here
  return list;
}""",
    """
declare const a: string;
abstract class Q {
  abstract m(): void;
}
function o(a: string): void;
function o(a: number): void;
function o(a: any): void {
  a.b.c(); // here
}
function evaluate() {
  o({} as any);
}""",
    """
import type { A } from 'a';
import { B } from 'b';
const x: A | B = 1;
export function evaluate() {
  return (x as any).a.b; // here
}""",
    """
async function evaluate(): Promise<number> {
  await null;

  throw new Error("late"); // here
}""",
    """
const t = `$L9$
${"$LL8$" as string}
c`;
function evaluate() {
  return (t as any).a.b; // here
}""",
]


@pytest.mark.parametrize("source", LINES)
async def test_an_exception_shows_the_line_of_the_typescript(runner: SandboxRunner, source: str) -> None:
    [outcome] = await run(runner, source, [1])
    assert isinstance(outcome, Raised), outcome
    [line] = [number for number, text in enumerate(source.split("\n"), 1) if HERE in text]
    assert outcome.line == line
    assert outcome.traceback is not None
    assert HERE in outcome.traceback


DEFECTS: list[tuple[str, int, int | None]] = [
    ("let x: = 5", 1, 8),
    ("const a = 1;\nlet y: number = 3 4;\nfunction evaluate() {}", 2, 19),
    ("const a = 1\nconst b: number = (\n", 2, 19),
    ("function evaluate(): number {\n  return 1 +;\n}", 2, 13),
    ("interface A { x: number\nfunction evaluate() {}", 2, 21),
    ("enum A { x = }", 1, 14),
    ("function evaluate(a?: string) { return 1\n}}", 2, 2),
    ("type X = { a: number;;\n b: };", 1, 22),
    ("let x = 'abc\nlet y = 2", 1, 9),
    ("interface A {\n}\nlet a: number = 1;\nlet a: number = 2;", 4, None),
    ("interface A {\n}\nclass B { @dec m() {} }\nfunction evaluate() {}", 3, None),
    ("import { y } from 'lodash';\nfunction evaluate() { return y }", 1, None),
    ("const a = 1;\nexport = a;", 2, None),
    ("import fs = require('fs');\nfunction evaluate() { return fs }", 1, None),
]


@pytest.mark.parametrize(("source", "line", "column"), DEFECTS)
async def test_a_defect_is_reported_with_its_line_and_column(
    runner: SandboxRunner, source: str, line: int, column: int | None
) -> None:
    defect = (await runner.inspect("typescript", source)).defect
    assert defect is not None
    assert (defect.kind, defect.line, defect.column) == ("syntax-error", line, column)


@pytest.mark.parametrize("source", ["(" * 20_000, "type A = " + "[" * 20_000, "let a: " + "A<" * 20_000])
async def test_a_source_that_is_nested_too_deeply_is_a_defect(runner: SandboxRunner, source: str) -> None:
    assert (await runner.inspect("typescript", source)).defect is not None
    assert (await runner.inspect("typescript", "function evaluate() {}")).defect is None


async def test_a_large_source_is_translated_within_its_limits(runner: SandboxRunner) -> None:
    part = "let a{}: number = {};\nfunction f{}(x: string): void {{ if (x) {{ console.log(x) }} }}\n"
    source = "".join(part.format(n, n, n) for n in range(3000)) + "function evaluate(): number { return a2999 }"
    inspection = await runner.inspect("typescript", source)
    assert inspection.defect is None
    assert len(inspection.names) == 6001
    assert await value_of(runner, source) == 2999
    broken = await runner.inspect("typescript", source.replace("let a2500: number", "let a2500: = number"))
    assert broken.defect is not None
    assert broken.defect.line == 5001

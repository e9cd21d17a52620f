"""What the tokens of a script say about what it binds."""

import pytest

from assay.runners.children.javascript_text import bindings_of, tokens_of

NAMES: list[tuple[str, dict[str, int | None]]] = [
    ("function evaluate(inputs, outputs, trace) { return true }", {"evaluate": 3}),
    ("export default async function handler({input, output}) {}", {"handler": 1, "default": 1}),
    ("export default async ({input}) => 1", {"default": 1}),
    ("export default class {}", {"default": None}),
    ("const evaluate = (a, b = [1, 2], ...rest) => a", {"evaluate": 2}),
    ("export const handler = async x => 1", {"handler": 1}),
    ("let handler = async function named(a, {b, c}) {}, other = 1", {"handler": 2, "other": None}),
    ("// function evaluate(a) {}\n/* function evaluate() {} */ 'function evaluate() {}'", {}),
    ("function evaluate() {}", {"evaluate": 0}),
    ("function* evaluate(a) {}\nasync function* handler(a, b) {}", {"evaluate": 1, "handler": 2}),
    ("function a() { function b() {} const c = 1 }", {"a": 0}),
    ("const {a, b: c, ...d} = f(), [e, g] = h()", {"a": None, "c": None, "d": None, "e": None, "g": None}),
    ("var a = 1\nvar b = 2", {"a": None, "b": None}),
    ("const a = b\n  .c(function d() {})\nconst e = 1", {"a": None, "e": None}),
    ("const re = /function evaluate() {/g\nfunction evaluate(a) {}", {"re": None, "evaluate": 1}),
    ("const x = a / b / c\nfunction evaluate(a) {}", {"x": None, "evaluate": 1}),
    ("if (a) /}/.test(b)\nfunction evaluate(a) {}", {"evaluate": 1}),
    ("const t = `a ${ {b: `}`} } function evaluate() {`\nfunction evaluate(a) {}", {"t": None, "evaluate": 1}),
    ("const v = (function () { return 1 })(), w = function () {}()", {"v": None, "w": None}),
    ("class A extends B { evaluate() {} }\nfunction evaluate(a) {}", {"A": None, "evaluate": 1}),
    ("const f = (a) => a;\nexport { f as evaluate, f }", {"f": 1, "evaluate": 1}),
    ("#!/usr/bin/env x\nfunction evaluate(a) {}", {"evaluate": 1}),
    ("let größe = 1; const $ = (a) => a, _1 = async () => {}", {"größe": None, "$": 1, "_1": 0}),
]


@pytest.mark.parametrize(("source", "names"), NAMES)
def test_the_names_of_the_top_level_are_found(source: str, names: dict[str, int | None]) -> None:
    assert bindings_of(tokens_of(source)).names == names


def test_every_character_of_a_text_is_in_a_token_or_between() -> None:
    source = "const a = `x${1 + `${b}`}y`; // c\nlet d = '\\'' + \"e\\\"\" / 2 ** 3 ?? /[/]\\//u;"
    tokens = tokens_of(source)
    rebuilt = list(source)
    for token in tokens:
        assert source.startswith(token.text, token.start)
        rebuilt[token.start : token.start + len(token.text)] = " " * len(token.text)
    assert "".join(rebuilt).split() == ["//", "c"]


def test_what_looks_like_a_pattern_without_end_takes_no_time() -> None:
    assert len(tokens_of("=/[" * 80_000)) == 240_000


BROKEN = [
    "`", "'", '"', "/", "`${", "}", "(((", "/*", "\\", "a = /", "`${`${", "\x00", "function", "const", "export",
    "export default", "export {", "export { a as", "async", "const {", "let a =", "let a = function", "let a = (",
]  # fmt: skip


@pytest.mark.parametrize("source", BROKEN)
def test_any_text_has_tokens_and_bindings(source: str) -> None:
    bindings_of(tokens_of(source))

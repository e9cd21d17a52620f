"""What a TypeScript source defines, and the JavaScript it comes to. Runs inside a confined child."""

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from assay.runners.children.inspection_javascript import SourceDefectError, defect, examined, text_of
from assay.runners.children.javascript_text import Token, tokens_of
from assay.runners.children.places import Places, line_at
from assay.runners.children.transpiler import RefusedSyntaxError

Transpile: TypeAlias = Callable[[str], str]

# Words that mean something in some place, so that another spelling would mean something else.
_KEPT = frozenset((
    "abstract", "accessor", "any", "arguments", "as", "assert", "asserts", "async", "await", "bigint", "boolean",
    "break", "case", "catch", "class", "const", "constructor", "continue", "debugger", "declare", "default", "defer",
    "delete", "do", "else", "enum", "eval", "export", "extends", "false", "finally", "for", "from", "function", "get",
    "global", "if", "implements", "import", "in", "infer", "instanceof", "interface", "intrinsic", "is", "keyof",
    "let", "meta", "module", "namespace", "never", "new", "null", "number", "object", "of", "out", "override",
    "package", "private", "protected", "public", "readonly", "require", "return", "satisfies", "set", "source",
    "static", "string", "super", "switch", "symbol", "target", "this", "throw", "true", "try", "type", "typeof",
    "undefined", "unique", "unknown", "using", "var", "void", "while", "with", "yield",
))  # fmt: skip
_QUOTED = re.compile(r"'(.*?)'")
_AT_THE_END = "found `EOF`"
# Whatever follows a wrong token, the parser says the same; what follows a right one changes its mind.
_ENDINGS = ("", "\n0", "\n;", "\n)", "\n}", "\na")
_MOST_PROBED = 64 * 1024


def inspect_typescript(source: bytes, transpile: Transpile) -> tuple[dict[str, Any], bytes]:
    """Return a description of the source (names or defect), and what a worker runs for each entry point."""
    try:
        return _examined(text_of(source), transpile)
    except SourceDefectError as error:
        return defect(error), b""


def _examined(text: str, transpile: Transpile) -> tuple[dict[str, Any], bytes]:
    _refuse_commonjs(text)
    try:
        script = transpile(text)
    except RefusedSyntaxError as error:
        raise _placed(text, str(error), transpile) from None
    places = _places(text, script, transpile)
    try:
        return examined(script, places)
    except SourceDefectError as error:
        line = line_at(places, error.line or 0, error.column or 1)
        raise SourceDefectError(str(error), line) from None


def _places(text: str, script: str, transpile: Transpile) -> Places:
    """Find where each line of the JavaScript comes from, by translating the source once more with marked names.

    OXC tells no positions, but what it writes does not depend on how names are spelt: where each name carries its
    line, the result says which line it came from. Empty when the two translations do not correspond after all.
    """
    sign = "$L"
    while sign in text:
        sign += "L"
    try:
        marked = transpile(_with_marks(text, sign)).split("\n")
    except RefusedSyntaxError:
        return []
    if len(marked) != script.count("\n") + 1:
        return []
    pattern = re.compile(rf"{re.escape(sign)}(\d+)\$")
    places: Places = []
    latest = 1
    for line in marked:
        here: list[tuple[int, int]] = []
        removed = 0
        for mark in pattern.finditer(line):
            here.append((mark.start() - removed + 1, int(mark[1])))
            removed += len(mark[0])
        # A name is told by its end; what stands before it on the line belongs to it.
        starts = [1, *[column for column, _ in here]]
        places.append([(start, line) for start, (_, line) in zip(starts, here, strict=False)] or [(1, latest)])
        latest = places[-1][-1][1]
    return places


def _with_marks(text: str, sign: str) -> str:
    parts: list[str] = []
    written = 0
    tokens = tokens_of(text)
    kept = _KEPT | _imported(tokens)
    for token in tokens:
        if token.kind == "word" and token.text not in kept and not token.text.startswith("#"):
            end = token.start + len(token.text)
            parts += (text[written:end], f"{sign}{token.line}$")
            written = end
    return "".join([*parts, text[written:]])


def _refuse_commonjs(text: str) -> None:
    """Refuse the two forms that come to calls of a module system which is not there, or vanish."""
    tokens = [token for token in tokens_of(text) if token.level == 0]
    for token, second, third in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if token.text == "export" and second.text == "=":
            raise SourceDefectError("`export =` is of CommonJS; write `export default` instead", token.line)
        if token.text == "import" and third.text == "=":
            raise SourceDefectError("`import ... =` is of CommonJS, and an evaluator cannot import", token.line)


def _imported(tokens: Sequence[Token]) -> set[str]:
    """Return the words of import declarations: an import that seems to be unused would be left out."""
    words: set[str] = set()
    inside = False
    for token in tokens:
        if token.level == 0 and token.kind == "word":
            inside = token.text == "import" or (inside and token.text != "from")
        if inside:
            words.add(token.text)
    return words


def _placed(text: str, message: str, transpile: Transpile) -> SourceDefectError:
    """Return the defect with its place: the first token after which nothing that follows changes the message."""
    tokens = tokens_of(text)
    if not tokens:
        return SourceDefectError(message)
    last = tokens[-1]
    if message.endswith(_AT_THE_END):
        return _defect_at(text, message, last.start + len(last.text) - 1, last.line)
    endings = _ENDINGS if len(text) <= _MOST_PROBED else _ENDINGS[:2]

    def decided(token_end: int) -> bool:
        return all(_complaint(text[:token_end] + ending, transpile) == message for ending in endings)

    ends = [token.start + len(token.text) for token in tokens]
    found = bisect_left(ends, True, key=decided)
    if found == len(tokens):
        named = _QUOTED.search(message)
        found = next((at for at, token in enumerate(tokens) if named and token.text == named[1]), None)
        if found is None:
            return SourceDefectError(message)
    return _defect_at(text, message, tokens[found].start, tokens[found].line)


def _complaint(text: str, transpile: Transpile) -> str | None:
    try:
        transpile(text)
    except RefusedSyntaxError as error:
        return str(error)
    return None


def _defect_at(text: str, message: str, position: int, line: int) -> SourceDefectError:
    return SourceDefectError(message, line, position - text.rfind("\n", 0, position))

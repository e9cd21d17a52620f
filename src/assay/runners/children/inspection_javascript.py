"""What a JavaScript source defines, and whether it parses, found without running it. Runs inside a confined child."""

import contextlib
import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any

import _quickjs
import orjson

from assay.runners.children.javascript_text import DEFAULT, Token, bindings_of, tokens_of
from assay.runners.children.places import Places

ENTRIES = ("evaluate", "handler")
_HANDED = ("input", "output", "expected", "metadata", "trace")
_PLACE = re.compile(r"\n    at <input>:(\d+):(\d+)")
# A script that throws this before anything else is parsed whole and runs nothing; a module that imports what nobody
# has is parsed whole and never begins.
_HALT = ";throw 0;"
_HALTED = "0\nundefined"
_NOWHERE = "(assay)"
_UNLOADABLE = re.compile(r"could not load module '(.*)'")
_ALIAS = "(assay)"
_ONLY_IN_MODULES = frozenset(("import", "export", "await"))


class SourceDefectError(Exception):
    """The source cannot be used: the message says why; line and column (1-based) where that is known."""

    def __init__(self, message: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


def inspect_javascript(source: bytes) -> tuple[dict[str, Any], bytes]:
    """Return a description of the source (names or defect), and what a worker runs for each entry point."""
    try:
        return examined(text_of(source))
    except SourceDefectError as error:
        return defect(error), b""


def defect(error: SourceDefectError) -> dict[str, Any]:
    """Return the description of a source with a defect."""
    at = {"kind": "syntax-error", "message": str(error), "line": error.line, "column": error.column}
    return {"names": {}, "unread": {}, "defect": at}


def text_of(source: bytes) -> str:
    """Return the text of a source. Raises SourceDefectError where no engine could read it."""
    text = source.decode("utf-8", "surrogatepass").removeprefix("\ufeff")
    if text.startswith("#!"):
        text = f"//{text[2:]}"
    for number, line in enumerate(text.split("\n"), 1):
        if "\0" in line:
            raise SourceDefectError("the source has a NUL character", number, line.index("\0") + 1)
        if any("\ud800" <= character <= "\udfff" for character in line):
            raise SourceDefectError("the source has half of a surrogate pair: not valid text", number)
    return text


def examined(text: str, places: Places | None = None) -> tuple[dict[str, Any], bytes]:
    """Return the description of a text, and what a worker runs for each entry point; `places` say where it comes from.

    Raises SourceDefectError.
    """
    tokens = tokens_of(text)
    is_module = _is_module(text, tokens)
    bindings = bindings_of(tokens)
    names = dict(bindings.names)
    if not is_module:
        _add_late_names(_halted(text, tokens), names)
    programs: dict[str, Any] = {}
    unread: dict[str, list[int]] = {}
    for entry in ENTRIES:
        is_local = _module_binds(text, entry) if is_module else entry in names
        bound = entry if is_local or entry in names else DEFAULT
        programs[entry] = {
            "text": _module(text, entry, is_local) if is_module else _script(text, entry),
            "export": (_ALIAS if is_local else bound) if is_module else None,
            "shape": _shape(entry, bindings.parameters.get(bound, [])),
            "places": places,
        }
        unread[entry] = _unread(text, bound, bindings.parameters.get(bound, []), programs[entry]["shape"])
        is_other = entry == "evaluate" and bound == DEFAULT and _is_bundled(bindings.parameters.get(bound, []))
        if (is_local or bound in names) and not is_other:
            names.setdefault(entry, names.get(bound))
    names.pop(DEFAULT, None)
    return {"names": names, "unread": unread, "defect": None}, orjson.dumps(programs)


def _script(text: str, entry: str) -> str:
    return f"{text}\n;typeof {entry} === 'undefined' ? undefined : {entry}"


def _module(text: str, entry: str, is_local: bool) -> str:
    return f"{text}\n;export {{ {entry} as '{_ALIAS}' }};" if is_local else text


def _is_module(text: str, tokens: Sequence[Token]) -> bool:
    """Parse the text, as a script if it is one; tell whether it is a module. Raises SourceDefectError if neither."""
    halted = _halted(text, tokens)
    said = _said(lambda context: context.eval(halted))
    if said == _HALTED:
        return False
    if any(token.level == 0 and token.text in _ONLY_IN_MODULES for token in tokens):
        _parse_module(text, tokens)
        return True
    start = halted.index(_HALT)
    line = text.count("\n", 0, start) + 1
    raise _defect_of(said, shifted_line=line, from_column=start - text.rfind("\n", 0, start), shift=len(_HALT))


def _halted(text: str, tokens: Sequence[Token]) -> str:
    """Return the script with a halt before its first statement."""
    start = _after_directives(tokens)
    return text[:start] + _HALT + text[start:]


def _add_late_names(halted: str, names: dict[str, int | None]) -> None:
    """Note entry points that only the engine saw being bound."""
    for entry in ENTRIES:
        if entry in names:
            continue
        context = _quickjs.Context()
        with contextlib.suppress(_quickjs.JSException):
            context.eval(halted)
        try:
            if context.eval(f"typeof {entry} !== 'undefined' || '{entry}' in globalThis"):
                names[entry] = None
        except _quickjs.JSException:
            names[entry] = None


def _parse_module(text: str, tokens: Sequence[Token]) -> None:
    said = _said(lambda context: context.module(f'{text}\n;import "{_NOWHERE}";'))
    missing = _UNLOADABLE.search(said)
    if missing is None:
        raise _defect_of(said)
    if missing[1] != _NOWHERE:
        line = next((token.line for token in tokens if token.text[1:-1] == missing[1]), None)
        raise SourceDefectError(f"an evaluator cannot import modules, and this imports '{missing[1]}'", line)


def _module_binds(text: str, name: str) -> bool:
    said = _said(lambda context: context.module(f'{text}\n;import "{_NOWHERE}";export {{ {name} as "{_ALIAS}" }};'))
    return _UNLOADABLE.search(said) is not None


def _said(parse: Callable[[_quickjs.Context], object]) -> str:
    try:
        parse(_quickjs.Context())
    except _quickjs.JSException as error:
        return str(error)
    return ""


def _defect_of(said: str, *, shifted_line: int = 0, from_column: int = 0, shift: int = 0) -> SourceDefectError:
    place = _PLACE.search(said)
    message = said.partition("\n")[0].removeprefix("SyntaxError: ")
    if place is None:
        return SourceDefectError(message)
    line, column = int(place[1]), int(place[2])
    if line == shifted_line and column >= from_column + shift:
        column -= shift
    return SourceDefectError(message, line, column)


def _after_directives(tokens: Sequence[Token]) -> int:
    """Return the position after directives like "use strict", where a statement can be put."""
    end = 0
    for token in tokens:
        if not (token.kind == "text" and token.text[0] in "\"'") and token.text != ";":
            break
        end = token.start + len(token.text)
    return end


def _shape(entry: str, parameters: list[list[Token]]) -> str:
    """Return how the arguments are handed over; one parameter that picks some of a handler's by name takes them all."""
    if entry != "handler":
        return ""
    return "bundled" if _is_bundled(parameters) else "listed"


def _is_bundled(parameters: list[list[Token]]) -> bool:
    if len(parameters) != 1 or parameters[0][0].text != "{":
        return False
    keys = _picked(parameters[0])
    return bool(keys) and keys.issubset(_HANDED)


def _picked(pattern: list[Token]) -> set[str]:
    """Return the names that a destructuring parameter picks."""
    level = pattern[0].level + 1
    pairs = itertools.pairwise(pattern)
    return {
        token.text
        for before, token in pairs
        if token.kind == "word" and token.level == level and before.text in ("{", ",")
    }


def _unread(text: str, bound: str, parameters: list[list[Token]], shape: str) -> list[int]:
    """Return the positions of arguments that the entry point provably never looks at; when in doubt, none.

    A name that stands nowhere but among the parameters is not read, unless the text can come to it by other means.
    """
    if _occurs(text, bound) != 1 or "\\u" in text or any(_occurs(text, word) for word in ("arguments", "eval")):
        return []
    if shape == "bundled":
        pattern = parameters[0]
        has_rest = any(token.text == "..." and token.level == pattern[0].level + 1 for token in pattern)
        picked = _picked(pattern)
        return [] if has_rest else [at for at, name in enumerate(_HANDED) if name not in picked]
    return [
        at
        for at, part in enumerate(parameters)
        if len(part) == 1 and part[0].kind == "word" and _occurs(text, part[0].text) == 1
    ]


def _occurs(text: str, word: str) -> int:
    return len(re.findall(rf"(?<![\w$]){re.escape(word)}(?![\w$])", text))

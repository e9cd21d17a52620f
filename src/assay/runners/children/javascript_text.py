"""The tokens of JavaScript (and TypeScript), and what a text of them binds at its top level.

It reads texts that a real parser has accepted, so it need not refuse anything.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["word", "number", "text", "punctuation"]

_ESCAPE = r"\\u[0-9a-fA-F]{4}|\\u\{[0-9a-fA-F]+\}"
_WORD = rf"\#?(?:[^\W\d]|[$\u200c\u200d]|{_ESCAPE})(?:[\w$\u200c\u200d]|{_ESCAPE})*"
_TOKEN = re.compile(
    rf"""
    (?P<skip>[\s\ufeff]+|//[^\n\r\u2028\u2029]*|/\*.*?(?:\*/|\Z)|\A\#![^\n]*)
    |(?P<word>{_WORD})
    |(?P<number>\.?\d(?:[eE][+-]|[\w.])*)
    |(?P<text>"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?)
    |(?P<punctuation>=>|\.\.\.|\?\.(?!\d)|\?\?=?|&&=?|\|\|=?|\*\*=?|[=!]==?|<=|>=|\+\+|--|[-+*%&|^]=|.)
    """,
    re.DOTALL | re.VERBOSE,
)
_REGEX = re.compile(r"/(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/\w*")
_TEMPLATE_PIECE = re.compile(r"(?:[^`\\$]|\\.|\$(?!\{))*(?:`|\$\{|\Z)", re.DOTALL)
_BEFORE_REGEX = frozenset((
    "return", "typeof", "case", "in", "of", "delete", "void", "throw", "new", "do", "else", "instanceof", "yield",
    "await", "default", "extends",
))  # fmt: skip
_CONDITIONS = frozenset(("if", "while", "for", "with"))
_GOES_ON = frozenset(("in", "instanceof", "of"))
_KINDS: dict[str | None, Kind] = {"word": "word", "number": "number", "text": "text"}
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")
_NO_END = frozenset(
    ("=", "=>", ",", "+", "-", "*", "/", "%", "(", "[", "{", ".", "?.", "?", ":", "&&", "||", "??", "!")
)


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the text; `line` is 1-based, `level` how many brackets are open around it."""

    kind: Kind
    text: str
    start: int
    line: int
    level: int


def tokens_of(text: str) -> list[Token]:
    """Return the tokens of a text: no comments; a template literal as its pieces and the tokens between."""
    return _Lexer(text).run()


class _Lexer:
    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._line = 1
        self._level = 0
        self._tokens: list[Token] = []
        self._templates: list[int] = []
        self._parentheses: list[bool] = []
        self._after_condition = False
        self._no_regex_before = 0

    def run(self) -> list[Token]:
        while self._position < len(self._text):
            self._next()
        return self._tokens

    def _next(self) -> None:
        character = self._text[self._position]
        if character == "`":
            self._template()
            return
        if character == "}" and self._templates and self._templates[-1] == self._level:
            self._templates.pop()
            self._level -= 1
            self._template()
            return
        if character == "/" and self._position >= self._no_regex_before and self._may_be_regex():
            found = _REGEX.match(self._text, self._position)
            if found is not None and found[0][1] not in "/*":
                self._add("text", found[0])
                return
            if found is None:
                # One that does not end in its line is none; nor is it looked for again, which would take forever.
                end = self._text.find("\n", self._position)
                self._no_regex_before = end if end >= 0 else len(self._text)
        found = _TOKEN.match(self._text, self._position)
        assert found is not None
        if found.lastgroup == "skip":
            self._advance(found[0])
            return
        if found.lastgroup == "punctuation":
            self._bracketed(found[0])
        else:
            self._add(_KINDS[found.lastgroup], found[0])

    def _bracketed(self, text: str) -> None:
        if text in _CLOSING:
            self._level = max(0, self._level - 1)
            if text == ")":
                self._after_condition = self._parentheses.pop() if self._parentheses else False
        elif text == "(":
            self._parentheses.append(bool(self._tokens) and self._tokens[-1].text in _CONDITIONS)
        self._add("punctuation", text)
        if text in _OPENING:
            self._level += 1

    def _template(self) -> None:
        found = _TEMPLATE_PIECE.match(self._text, self._position + 1)
        assert found is not None
        self._add("text", self._text[self._position : found.end()])
        if found[0].endswith("${"):
            self._level += 1
            self._templates.append(self._level)

    def _add(self, kind: Kind, text: str) -> None:
        self._tokens.append(Token(kind, text, self._position, self._line, self._level))
        self._advance(text)

    def _advance(self, text: str) -> None:
        self._position += len(text)
        self._line += text.count("\n")

    def _may_be_regex(self) -> bool:
        if not self._tokens:
            return True
        last = self._tokens[-1]
        if last.kind == "word":
            return last.text in _BEFORE_REGEX
        if last.kind != "punctuation":
            return False
        if last.text == ")":
            return self._after_condition
        if last.text == "}":
            return last.line < self._line
        return last.text not in ("]", "++", "--")


@dataclass(frozen=True, slots=True)
class Bindings:
    """What a text binds at its top level: parameter counts of functions, and the parameters themselves."""

    names: dict[str, int | None]
    parameters: dict[str, list[list[Token]]]


DEFAULT = "default"


def bindings_of(tokens: Sequence[Token]) -> Bindings:
    """Return what these tokens bind at their top level; an export without a name is bound as `default`."""
    return _Binder(tokens).run()


class _Binder:
    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._names: dict[str, int | None] = {}
        self._parameters: dict[str, list[list[Token]]] = {}
        self._aliases: dict[str, str] = {}

    def run(self) -> Bindings:
        while self._at < len(self._tokens):
            if self._tokens[self._at].level == 0 and self._begins_statement():
                self._statement()
            else:
                self._at += 1
        for exported, local in self._aliases.items():
            self._names.setdefault(exported, self._names.get(local))
            self._parameters.setdefault(exported, self._parameters.get(local, []))
        return Bindings(self._names, self._parameters)

    def _text(self, offset: int = 0) -> str:
        at = self._at + offset
        return self._tokens[at].text if at < len(self._tokens) else ""

    def _begins_statement(self) -> bool:
        if self._at == 0:
            return True
        return self._tokens[self._at - 1].text in (";", "}") or self._follows_a_line_end()

    def _follows_a_line_end(self) -> bool:
        """Tell whether the end of the line before ends a statement, as far as one can see without a grammar."""
        last, here = self._tokens[self._at - 1], self._tokens[self._at]
        return last.line < here.line and last.text not in _NO_END and here.kind == "word" and here.text not in _GOES_ON

    def _statement(self) -> None:
        default = False
        if self._text() == "export":
            self._at += 1
            if self._text() == "{":
                self._export_list()
                return
            if self._text() == "default":
                default = True
                self._at += 1
        offset = 1 if self._text() == "async" and self._text(1) == "function" else 0
        if self._text(offset) == "function":
            self._at += offset + 1
            self._at += self._text() == "*"
            self._function(default)
        elif self._text() == "class":
            self._at += 1
            if self._tokens[self._at : self._at + 1] and self._tokens[self._at].kind == "word":
                self._bind(self._text(), None, default)
            elif default:
                self._names[DEFAULT] = None
            self._at += 1
        elif self._text() in ("const", "let", "var"):
            self._at += 1
            self._declarators()
        elif default:
            self._bind_value(DEFAULT)
        else:
            self._at += 1

    def _export_list(self) -> None:
        for part in self._list(self._at):
            self._aliases[part[-1].text] = part[0].text
        self._at = self._close(self._at) + 1

    def _function(self, default: bool) -> None:
        name = DEFAULT
        if self._text() != "(":
            name = self._text()
            self._at += 1
        self._bind(name, self._list(self._at), default)

    def _bind(self, name: str, parameters: list[list[Token]] | None, default: bool) -> None:
        for bound in {name, DEFAULT} if default else {name}:
            self._names[bound] = None if parameters is None else _count(parameters)
            if parameters is not None:
                self._parameters[bound] = parameters

    def _declarators(self) -> None:
        while self._at < len(self._tokens):
            if self._tokens[self._at].kind == "word":
                name = self._text()
                self._at += 1
                if self._text() == "=":
                    self._at += 1
                    self._bind_value(name)
                else:
                    self._names[name] = None
            else:
                self._pattern()
            while self._at < len(self._tokens) and not (self._tokens[self._at].level == 0 and self._ends()):
                self._at += 1
            if self._text() != ",":
                return
            self._at += 1

    def _ends(self) -> bool:
        return self._text() in (",", ";") or self._follows_a_line_end()

    def _pattern(self) -> None:
        """Bind the names of a destructuring pattern."""
        level = self._tokens[self._at].level
        self._at += 1
        while self._at < len(self._tokens) and self._tokens[self._at].level > level:
            if self._tokens[self._at].kind == "word" and self._text(1) in (",", "}", "]", "="):
                self._names[self._text()] = None
            self._at += 1
        self._at += 1

    def _bind_value(self, name: str) -> None:
        """Bind a name to the value that begins here, a function or not."""
        at = self._at + (self._text() == "async" and self._text(1) != "=>")
        start = self._tokens[at : at + 1]
        parameters = None
        if start and start[0].text == "function":
            at += 1
            while at < len(self._tokens) and self._tokens[at].text != "(":
                at += 1
            parameters = self._list(at)
            if self._is_used(self._close(self._close(at) + 1) + 1):
                parameters = None
        elif start and start[0].text == "(":
            end = self._close(at)
            if self._tokens[end + 1 : end + 2] and self._tokens[end + 1].text == "=>":
                parameters = self._list(at)
        elif start and start[0].kind == "word" and self._tokens[at + 1 : at + 2] and self._tokens[at + 1].text == "=>":
            parameters = [[start[0]]]
        self._bind(name, parameters, default=False)

    def _is_used(self, at: int) -> bool:
        """Tell whether the function before this token is called or looked into, so that another value is bound."""
        return at < len(self._tokens) and self._tokens[at].text in ("(", ".", "?.", "[")

    def _close(self, at: int) -> int:
        if at >= len(self._tokens):
            return at
        level = self._tokens[at].level
        end = at + 1
        while end < len(self._tokens) and self._tokens[end].level > level:
            end += 1
        return end

    def _list(self, at: int) -> list[list[Token]]:
        """Return what stands between the commas of the parentheses that open here."""
        if at >= len(self._tokens):
            return []
        parts: list[list[Token]] = [[]]
        level = self._tokens[at].level + 1
        for token in self._tokens[at + 1 : self._close(at)]:
            if token.text == "," and token.level == level:
                parts.append([])
            else:
                parts[-1].append(token)
        return [part for part in parts if part]


def _count(parameters: list[list[Token]]) -> int:
    return sum(part[0].text != "..." for part in parameters)

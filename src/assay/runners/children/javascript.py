"""What a JavaScript or TypeScript source defines, by a cheap look at its text."""

import re

from assay.domain.outcome import Inspection

_COMMENT = re.compile(r"/\*.*?\*/|(?<!:)//[^\n]*", re.DOTALL)
_NAME = r"(?P<name>evaluate|handler)\b"
_PREFIX = r"^(?:export\s+)?(?:default\s+)?"
_FUNCTION = re.compile(rf"{_PREFIX}(?:async\s+)?function\s*\*?\s*{_NAME}[^(]*(?=\()", re.MULTILINE)
_ASSIGNED = re.compile(
    rf"{_PREFIX}(?:const|let|var)\s+{_NAME}[^=]*=\s*(?:async\s*)?(?:function\b[^(]*)?(?:(?=\()|(?P<bare>\w+)\s*=>)",
    re.MULTILINE,
)


def inspect_text(source: str) -> Inspection:
    """Return the entry points among the functions of the source's top level, with their parameter counts."""
    text = _COMMENT.sub(" ", source)
    names: dict[str, int | None] = {}
    for pattern in (_FUNCTION, _ASSIGNED):
        for found in pattern.finditer(text):
            bare = found.groupdict().get("bare")
            names[found["name"]] = 1 if bare else _parameters(text, found.end())
    return Inspection(names=names)


def _parameters(text: str, start: int) -> int:
    """Return the number of parameters in the parentheses that open at `start`."""
    depth, commas, some = 0, 0, False
    for character in text[start + 1 :]:
        if depth == 0 and character == ")":
            break
        if character in "([{<":
            depth += 1
        elif character in ")]}>":
            depth -= 1
        if depth == 0 and character == ",":
            commas, some = commas + 1, False
        elif not character.isspace():
            some = True
    return commas + some

"""Which modules a source may import, found without running it: too many rather than too few."""

import ast
import re

_WORD = re.compile(r"[^\W\d]\w{0,99}")
# Names by which a module can be imported that no import statement names.
_BY_TEXT = frozenset(("__import__", "__loader__", "__spec__", "compile", "eval", "exec", "modules"))
_BY_TEXT_MODULES = frozenset(("builtins", "code", "imp", "importlib", "pickle", "pkgutil", "pydoc", "runpy"))


def imported(tree: ast.Module) -> set[str]:
    """Return the top-level names of all modules that are imported anywhere in the source.

    Where one can be imported by text, every word of every text counts as the name of a module.
    """
    found: set[str] = set()
    words: set[str] = set()
    by_text = False
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.module and not node.level:
                found.add(node.module.partition(".")[0])
            by_text |= any(alias.name in _BY_TEXT for alias in node.names)
        elif isinstance(node, ast.Name):
            by_text |= node.id in _BY_TEXT
        elif isinstance(node, ast.Attribute):
            by_text |= node.attr in _BY_TEXT
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            words.update(_WORD.findall(node.value))
    return found | words if by_text or found & _BY_TEXT_MODULES or words & _BY_TEXT else found

"""What a source defines and reads, found without running it. Runs inside a confined child."""

import ast
import marshal
import sys
import types
from collections.abc import Callable
from typing import Any, TypeAlias, cast

from assay.runners.children.faults import RefusedCodeError
from assay.runners.children.frames import FILE_NAME
from assay.runners.children.inspection_imports import imported

Compile: TypeAlias = Callable[[ast.Module], types.CodeType]

# Modules that give no way to the frames of a running function by the names allowed below.
_HARMLESS_MODULES = frozenset((
    "__future__", "base64", "bisect", "collections", "collections.abc", "copy", "dataclasses", "datetime",
    "decimal", "difflib", "enum", "fractions", "functools", "hashlib", "heapq", "html", "itertools", "json",
    "math", "random", "re", "statistics", "string", "textwrap", "time", "typing", "unicodedata",
    "urllib.parse", "uuid", "zlib",
))  # fmt: skip
# With any of these names or attributes a local variable could be seen without being named.
_REVEALING = frozenset((
    "locals", "vars", "eval", "exec", "dir", "globals", "compile", "getattr", "breakpoint", "help", "sys",
    "os", "gc", "inspect", "builtins", "types", "modules", "traceback", "frame", "settrace", "setprofile",
    "attrgetter", "methodcaller", "Formatter", "format_map", "ag_frame", "cr_frame", "gi_frame", "f_back",
    "f_locals", "tb_frame", "tb_next",
))  # fmt: skip
_HARMLESS_DUNDERS = frozenset(("__name__", "__init__", "__post_init__", "__future__", "__call__"))
_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def plainly(tree: ast.Module) -> types.CodeType:
    """Compile the whole language."""
    return compile(tree, FILE_NAME, "exec", dont_inherit=True)


def inspect_source(source: bytes, compile_tree: Compile) -> tuple[dict[str, Any], bytes]:
    """Return a description of the source (or of its defect), and what a worker loads.

    It says which names are bound and imported, how many arguments functions need, which ones an entry point never
    reads, and whether each evaluation must be alone in its process, because the code changes what others share.
    What a worker loads is the marshalled pair of the code and whether it is tame. Line and column of a defect are
    1-based and the author's own.
    """
    try:
        text = source.decode("utf-8", "surrogatepass").removeprefix("\ufeff")
        tree = ast.parse(text, FILE_NAME)
        bound: dict[str, ast.arguments | None] = {}
        _bind(tree.body, bound)
        names = {name: arguments and _most(arguments) for name, arguments in bound.items()}
        needed = {name: _least(arguments) for name, arguments in bound.items() if arguments}
        unread = {entry: _unread(tree, entry) for entry in ("evaluate", "handler")}
        tame = _is_tame(tree)
        alone = _changes_imports(tree)
        imports = sorted(imported(tree))
        code = compile_tree(tree)
    except RefusedCodeError as error:
        return _defect(str(error), error.line, None, kind="sandbox-violation"), b""
    except SyntaxError as error:
        return _defect(error.msg, error.lineno, error.offset), b""
    except (ValueError, RecursionError, MemoryError) as error:
        return _defect(str(error) or f"the source is too deeply nested ({type(error).__name__})", None, None), b""
    description = {"names": names, "imported": imports, "needed": needed, "unread": unread, "alone": alone}
    return {**description, "defect": None}, marshal.dumps((code, tame))


def _defect(message: str, line: int | None, column: int | None, kind: str = "syntax-error") -> dict[str, Any]:
    at = {"kind": kind, "message": message, "line": line, "column": column if column and column > 0 else None}
    return {"names": {}, "needed": {}, "unread": {}, "defect": at}


def _bind(body: list[ast.stmt], names: dict[str, ast.arguments | None]) -> None:
    """Add the names that these statements bind, without entering functions and classes.

    A function comes with its parameters, unless a decorator may have made it take others.
    """
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            names[statement.name] = None if statement.decorator_list else statement.args
        elif isinstance(statement, ast.ClassDef):
            names[statement.name] = None
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            for alias in statement.names:
                names[alias.asname or alias.name.partition(".")[0]] = None
        else:
            _bind_nested(statement, names)


def _bind_nested(statement: ast.stmt, names: dict[str, ast.arguments | None]) -> None:
    value = getattr(statement, "value", None)
    arguments = value.args if isinstance(value, ast.Lambda) else None
    for field in ("targets", "target"):
        for target in _as_list(getattr(statement, field, None)):
            for node in ast.walk(target):
                if isinstance(node, ast.Name):
                    names[node.id] = arguments
    for node in _as_list(getattr(statement, "items", None)):
        if isinstance(node.optional_vars, ast.Name):
            names[node.optional_vars.id] = None
    for field in ("body", "orelse", "finalbody"):
        _bind(_as_list(getattr(statement, field, None)), names)
    for part in [*_as_list(getattr(statement, "handlers", None)), *_as_list(getattr(statement, "cases", None))]:
        _bind(part.body, names)


def _as_list(value: Any) -> list[Any]:
    if isinstance(value, list):
        return cast("list[Any]", value)
    return [] if value is None else [value]


def _most(arguments: ast.arguments) -> int | None:
    """Return how many positional arguments it takes at most; None for any number."""
    return None if arguments.vararg else len(arguments.posonlyargs) + len(arguments.args)


def _least(arguments: ast.arguments) -> int:
    """Return how many arguments it cannot be called without."""
    named = sum(default is None for default in arguments.kw_defaults)
    return len(arguments.posonlyargs) + len(arguments.args) - len(arguments.defaults) + named


def _unread(tree: ast.Module, entry: str) -> list[int]:
    """Return the positions of arguments that the entry point provably never looks at; when in doubt, none."""
    binders = [node for node in ast.walk(tree) if _binds(node, entry)]
    if len(binders) != 1 or binders[0] not in tree.body:
        return []
    function = binders[0]
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return []
    if function.decorator_list or function.args.vararg or any(_reveals(node) for node in ast.walk(tree)):
        return []
    read = {node.id for part in function.body for node in ast.walk(part) if isinstance(node, ast.Name)}
    for part in function.body:
        for node in ast.walk(part):
            if isinstance(node, (ast.Global, ast.Nonlocal)):
                read.update(node.names)
            elif isinstance(node, _NAMED):
                read.add(node.name)
    parameters = [*function.args.posonlyargs, *function.args.args]
    return [index for index, parameter in enumerate(parameters) if parameter.arg not in read]


def _binds(node: ast.AST, entry: str) -> bool:
    if isinstance(node, _NAMED):
        return node.name == entry
    if isinstance(node, ast.Name):
        return node.id == entry and not isinstance(node.ctx, ast.Load)
    if isinstance(node, ast.alias):
        return (node.asname or node.name) in (entry, "*")
    if isinstance(node, (ast.Global, ast.Nonlocal)):
        return entry in node.names
    if isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
        return node.name == entry
    return isinstance(node, ast.MatchMapping) and node.rest == entry


def _reveals(node: ast.AST) -> bool:
    """Tell whether this node may look into a frame by other means than a variable's name."""
    if isinstance(node, ast.Name):
        return _suspicious(node.id)
    if isinstance(node, ast.Attribute):
        formats = node.attr == "format" and not isinstance(node.value, ast.Constant)
        suspicious = (
            _suspicious(node.attr) and node.attr != "compile"
        )  # re.compile; the builtin needs a suspicious name
        return formats or suspicious or (node.attr.startswith("_") and not _is_self(node.value))
    if isinstance(node, ast.Import):
        return any(alias.name not in _HARMLESS_MODULES for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        names = any(_suspicious(alias.name) or alias.name.startswith("_") for alias in node.names)
        return node.module not in _HARMLESS_MODULES or names
    if isinstance(node, ast.MatchClass):
        return any(_suspicious(name) or name.startswith("_") for name in node.kwd_attrs)
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and "__" in node.value


def _is_tame(tree: ast.Module) -> bool:
    """Tell whether the code provably leaves builtins, streams and limits of its process alone; when in doubt, not.

    Beside what reveals, a module can lead to them that another one has imported, as in `typing.contextlib`.
    """
    return not any(
        _reveals(node) or (isinstance(node, ast.Attribute) and node.attr in sys.stdlib_module_names)
        for node in ast.walk(tree)
    )


def _changes_imports(tree: ast.Module) -> bool:
    """Tell whether the code sets or deletes something of what it imports, as in `json.dumps = mine`.

    `builtins` is left out, since it is restored before every evaluation.
    """
    names = {
        alias.asname or alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    } - {"builtins"}
    return any(_root_of(target) in names for node in ast.walk(tree) for target in _changed(node))


def _changed(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
        return [node.value]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("setattr", "delattr"):
        return node.args[:1]
    return []


def _root_of(node: ast.expr) -> str | None:
    while not isinstance(node, ast.Name):
        if isinstance(node, (ast.Attribute, ast.Subscript)):
            node = node.value
        elif isinstance(node, ast.Call):
            node = node.func
        else:
            return None
    return node.id


def _suspicious(name: str) -> bool:
    return name in _REVEALING or (name.startswith("__") and name not in _HARMLESS_DUNDERS)


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"

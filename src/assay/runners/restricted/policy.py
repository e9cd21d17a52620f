"""Which Python the restricted runner compiles, and how attributes come under guard: nothing unknown gets through.

RestrictedPython refuses every construct that has no rule, which is the ground this stands on. Its rules are widened
here where the guards make that safe: nothing that can be reached by subscript or iteration needs guarding, because no
container of the host is within reach, so that only attributes, classes, imports and names are watched.
"""

import ast
import types
from collections.abc import Iterator

from RestrictedPython.transformer import INSPECT_ATTRIBUTES, RestrictingNodeTransformer

from assay.runners.children.faults import RefusedCodeError
from assay.runners.children.frames import FILE_NAME

# What leads from an object to frames, code or the graph of classes.
HIDDEN = frozenset((*INSPECT_ATTRIBUTES, "mro", "tb_lasti", "gi_suspended"))
_OPERATORS = (
    "add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and", "or", "xor",
)  # fmt: skip
# Special methods an author may define: none that decides how attributes are found, or that is handed a frame.
SPECIAL_METHODS = frozenset((
    "__init__", "__repr__", "__str__", "__len__", "__bool__", "__hash__", "__call__", "__contains__",
    "__iter__", "__next__", "__reversed__", "__getitem__", "__setitem__", "__delitem__", "__missing__",
    "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__",
    "__neg__", "__pos__", "__abs__", "__invert__", "__int__", "__float__", "__index__", "__round__",
    *(f"__{kind}{name}__" for name in _OPERATORS for kind in ("", "r", "i")),
))  # fmt: skip


def compile_restricted(tree: ast.Module) -> types.CodeType:
    """Compile a tree, which is changed on the way. Raises RefusedCodeError, and SyntaxError as compile does."""
    _Policy().visit(tree)
    return compile(ast.fix_missing_locations(tree), FILE_NAME, "exec", dont_inherit=True)


class _Policy(RestrictingNodeTransformer):
    """Turns reads of attributes into `_getattr_`, writes into `_write_`, and has classes made by `__metaclass__`."""

    def error(self, node: ast.AST, info: str) -> None:
        """Refuse the source at the first thing that is not allowed."""
        raise RefusedCodeError(info, getattr(node, "lineno", None))

    def not_allowed(self, node: ast.AST) -> None:
        """Refuse a construct there is no rule for."""
        self.error(node, f"{type(node).__name__} is not available in restricted code")

    def check_name(self, node: ast.AST, name: str | None, allow_magic_methods: bool = False) -> None:
        """Refuse to bind or read names that are the guards' own, or the interpreter's."""
        if name is None or name == "_":
            return
        if allow_magic_methods and name in SPECIAL_METHODS and getattr(node, "col_offset", 0):
            return
        if name == "super" or name.startswith(("__", "_tmp")) or (name[0] == name[-1] == "_"):
            self.error(node, f"the name {name!r} is not available in restricted code")

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Check a name, but for two that may be read and never bound."""
        if not (isinstance(node.ctx, ast.Load) and node.id in ("super", "__name__")):
            self.check_name(node, node.id)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Put reads and writes under guard; a name with one underscore is left for the guard to decide."""
        self._check_attribute(node)
        value = self.visit(node.value)
        if isinstance(node.ctx, ast.Load):
            guarded: ast.expr = _call("_getattr_", value, ast.Constant(node.attr))
        else:
            guarded = ast.Attribute(_call("_write_", value), node.attr, node.ctx)
        return ast.copy_location(guarded, node)

    def _check_attribute(self, node: ast.Attribute) -> None:
        if node.attr == "__name__" and isinstance(node.ctx, ast.Load):
            return
        if node.attr in HIDDEN or node.attr.startswith("__"):
            self.error(node, f"the attribute {node.attr!r} is not available in restricted code")

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Let a special method be called on `super()`, which is how classes build on each other."""
        function = node.func
        if not (isinstance(function, ast.Attribute) and _is_super(function.value) and function.attr in SPECIAL_METHODS):
            return self.node_contents_visit(node)
        self.node_contents_visit(function.value)
        node.args = [self.visit(argument) for argument in node.args]
        node.keywords = [self.visit(keyword) for keyword in node.keywords]
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        """Allow it everywhere; on an attribute, hold its object and its value, then update it, in Python's order."""
        target = node.target
        if not isinstance(target, ast.Attribute):
            return self.node_contents_visit(node)
        self._check_attribute(target)
        held = _call("_hold_", self.visit(target.value), ast.Constant(target.attr))
        operation = ast.Constant(type(node.op).__name__)
        return ast.copy_location(ast.Expr(_call("_update_", held, operation, self.visit(node.value))), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """Leave the annotation out: nothing here can ask for it."""
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        return self.visit(ast.copy_location(ast.Assign([node.target], node.value), node))

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Have the class made by a metaclass of ours."""
        self.check_name(node, node.name)
        if node.keywords:
            self.error(node, "a class statement takes no keyword in restricted code")
        self.node_contents_visit(node)
        node.keywords = [ast.keyword("metaclass", ast.Name("__metaclass__", ast.Load()))]
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Check the names that a function binds."""
        self.check_name(node, node.name, allow_magic_methods=True)
        self.check_function_argument_names(node)
        node.returns = None
        return self.node_contents_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        """Leave the annotation out, as everywhere."""
        node.annotation = None
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        """Allow coroutines, whose frames are hidden like those of generators; not generators that are both."""
        self.check_name(node, node.name)
        self.check_function_argument_names(node)
        for inner in _own_nodes(node.body):
            if isinstance(inner, ast.Yield):
                self.error(inner, "yield in an async function is not available in restricted code")
        node.returns = None
        return self.node_contents_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        """Allow what does not iterate asynchronously."""
        if node.is_async:
            self.error(node.target, "async comprehensions are not available in restricted code")
        return self.node_contents_visit(node)

    def visit_Global(self, node: ast.Global) -> ast.AST:
        """Check the names."""
        return self._check_declared(node)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.AST:
        """Check the names."""
        return self._check_declared(node)

    def _check_declared(self, node: ast.Global | ast.Nonlocal) -> ast.AST:
        for name in node.names:
            self.check_name(node, name)
        return node

    def _allow(self, node: ast.AST) -> ast.AST:
        return self.node_contents_visit(node)

    visit_Module = visit_Await = visit_Assign = visit_For = visit_With = visit_Subscript = _allow


def _call(guard: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(guard, ast.Load()), list(arguments), [])


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"


def _own_nodes(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Yield what is in these statements and not in a function inside them."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            waiting += ast.iter_child_nodes(node)

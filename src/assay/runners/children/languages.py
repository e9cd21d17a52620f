"""What a zygote can be warm for. Each language is imported only by the zygote that speaks it."""

import ast
import types
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from assay.runners.children.zygote import Speech


def python(
    compile_tree: Callable[[ast.Module], types.CodeType] | None = None, offered: Mapping[str, Any] | None = None
) -> Speech:
    """Return Python; `compile_tree` and `offered` narrow what of it may be used: the syntax, and the builtins."""
    from assay.runners.children.inspection import inspect_source, plainly
    from assay.runners.children.worker_python import PythonWorker

    return Speech(
        inspect=partial(inspect_source, compile_tree=compile_tree or plainly),
        worker=partial(PythonWorker, offered=offered),
    )


def javascript() -> Speech:
    """Return JavaScript. Raises ImportError where there is no QuickJS."""
    from assay.runners.children.inspection_javascript import inspect_javascript
    from assay.runners.children.worker_javascript import JavaScriptWorker

    return Speech(inspect=inspect_javascript, worker=JavaScriptWorker)


def typescript() -> Speech:
    """Return TypeScript, which is only looked at: what it comes to is run as JavaScript. Raises ImportError."""
    from assay.runners.children.inspection_typescript import inspect_typescript
    from assay.runners.children.transpiler import Transpiler
    from assay.runners.children.worker_javascript import JavaScriptWorker

    return Speech(inspect=partial(inspect_typescript, transpile=Transpiler()), worker=JavaScriptWorker)


def named(language: str) -> Speech:
    """Return the whole of a language by its name. Raises KeyError."""
    return {"python": python, "javascript": javascript, "typescript": typescript}[language]()

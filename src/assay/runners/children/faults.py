"""What went wrong in the author's code, told in their terms: their lines only, none of the harness."""

from typing import Any

from assay.runners.children.frames import FILE_NAME

_traceback_of = BaseException.__dict__["__traceback__"].__get__
_cause_of = BaseException.__dict__["__cause__"].__get__

VIOLATION = "SandboxViolation"
_MESSAGE_LIMIT = 4000
_FRAMES_KEPT = 12


class SandboxViolationError(Exception):
    """The code asked for what the sandbox keeps from it: the message names it."""


class RefusedCodeError(SandboxViolationError):
    """The code cannot be compiled, because it asks for what the sandbox keeps from it; `line` is 1-based."""

    def __init__(self, message: str, line: int | None) -> None:
        super().__init__(message)
        self.line = line


def describe(error: BaseException, source: bytes) -> dict[str, Any]:
    """Return kind, type, message, line (1-based) and traceback of whatever the code raised."""
    kind = "script-raised"
    name = _name_of(error)
    message = _message_of(error)
    if isinstance(error, SystemExit):
        kind, message = "script-exited", f"the code called sys.exit({message}) instead of returning a value"
    elif isinstance(error, SandboxViolationError):
        kind, name = "sandbox-violation", VIOLATION
    cause = _cause_of(error)
    # What a coroutine raises as StopIteration, Python replaces by an error without the author's lines.
    steps = _steps(error) or (_steps(cause) if cause is not None else [])
    return {
        "kind": kind,
        "type": name,
        "message": message,
        "line": steps[-1][0] if steps else None,
        "traceback": _traceback(steps, source, f"{name}: {message}") if steps else None,
    }


def missing_entry_point(entry: str, namespace: dict[str, Any]) -> dict[str, Any]:
    """Return the report of a source that does not define the function its interface calls."""
    defined = sorted(name for name in namespace if not name.startswith("__"))
    found = f"it defines {', '.join(defined[:20])}" if defined else "it defines nothing"
    message = f"the code must define a function named {entry!r}; {found}"
    return {"kind": "entry-point-missing", "type": "NameError", "message": message, "line": None, "traceback": None}


def _steps(error: BaseException) -> list[tuple[int, str]]:
    steps: list[tuple[int, str]] = []
    step = _traceback_of(error)
    while step is not None:
        code = step.tb_frame.f_code
        if code.co_filename == FILE_NAME:
            steps.append((step.tb_lineno, code.co_name))
        step = step.tb_next
    return steps


def _traceback(steps: list[tuple[int, str]], source: bytes, last: str) -> str:
    lines = source.decode("utf-8", "replace").removeprefix("\ufeff").splitlines()
    shown = ["Traceback (most recent call last):"]
    for line, name in steps if len(steps) <= _FRAMES_KEPT else [*steps[:4], *steps[4 - _FRAMES_KEPT :]]:
        shown.append(f'  File "{FILE_NAME}", line {line}, in {name}')
        if line <= len(lines):
            shown.append(f"    {lines[line - 1].strip()[:200]}")
    if len(steps) > _FRAMES_KEPT:
        shown.insert(9, f"  [{len(steps) - _FRAMES_KEPT} more frames]")
    return "\n".join([*shown, last])


def _name_of(error: BaseException) -> str:
    name = type.__dict__["__name__"].__get__(type(error))
    return _clean(name)


def _message_of(error: BaseException) -> str:
    try:
        return _clean(str(error))
    except BaseException as second:
        return f"(its message could not be read: {_name_of(second)})"


def _clean(text: str) -> str:
    text = str.__str__(text)
    if len(text) > _MESSAGE_LIMIT:
        text = text[:_MESSAGE_LIMIT] + "…"
    return text.encode("utf-8", "backslashreplace").decode()

"""What a child's frames say, as outcomes. A frame comes from a process that ran hostile code: it is checked first."""

from typing import Any, Literal, cast

import msgspec

from assay.domain.outcome import Exceeded, Limits, Outcome, Raised, Returned
from assay.runners.children import frames
from assay.runners.children.breaches import Used, out_of_memory

_MAX_DEPTH = 65


_OwnKind = Literal[
    "script-raised",
    "script-exited",
    "sandbox-violation",
    "entry-point-missing",
    "unsupported-return-type",
    "not-json-serialisable",
    "non-finite",
    "non-string-key",
    "too-deep",
    "bad-unicode",
]


class _Report(msgspec.Struct, frozen=True):
    kind: _OwnKind
    type: str
    message: str
    line: int | None
    traceback: str | None


_decode_value = msgspec.json.Decoder().decode
_decode_report = msgspec.json.Decoder(_Report).decode


def outcome_of(status: int, value: bytes, logs: bytes, written: int, spent_s: float, limits: Limits) -> Outcome | None:
    """Return the outcome a result frame tells; None when the harness cannot have written it."""
    text = shown_logs(logs, written) if written else ""
    duration_s = spent_s if 0.0 <= spent_s <= limits.wall_s else limits.wall_s
    try:
        if status == frames.STATUS_RETURNED:
            if len(value) > limits.result_bytes or _is_too_deep(value):
                return None
            return Returned(value=_decode_value(value), logs=text, duration_s=duration_s)
        if status == frames.STATUS_RAISED:
            report = _decode_report(value)
            return Raised(
                kind=report.kind,
                type=report.type,
                message=report.message,
                line=report.line,
                traceback=report.traceback,
                logs=text,
                duration_s=duration_s,
            )
        if status == frames.STATUS_MEMORY:
            return out_of_memory(text, limits, Used(ran_s=duration_s))
        if status == frames.STATUS_RESULT:
            found = int(value) or f"more than {limits.result_bytes}"
            message = f"the result has {found} bytes of JSON; at most {limits.result_bytes} are allowed"
            return Exceeded(budget="result", message=message, logs=text, duration_s=duration_s)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError):
        return None
    return None


def forger() -> Outcome:
    """Return the outcome of an evaluation that wrote into the harness's own channel."""
    message = "the code wrote to the channel that carries results; what came through it cannot be believed"
    return Raised(kind="script-crashed", type="ForgedResult", message=message)


def shown_logs(logs: bytes, written: int) -> str:
    """Return logs as text, with a mark where they were cut."""
    text = logs.decode("utf-8", "ignore" if written > len(logs) else "replace")
    return f"{text}\n[logs cut: {written} bytes were printed, {len(logs)} are kept]" if written > len(logs) else text


def _is_too_deep(raw: bytes) -> bool:
    if len(raw) <= 2 * _MAX_DEPTH or raw.count(b"[") + raw.count(b"{") <= _MAX_DEPTH:
        return False
    waiting: list[tuple[Any, int]] = [(_decode_value(raw), 1)]
    while waiting:
        value, depth = waiting.pop()
        if depth > _MAX_DEPTH:
            return True
        if isinstance(value, dict):
            waiting += [(each, depth + 1) for each in cast("dict[str, Any]", value).values()]
        elif isinstance(value, list):
            waiting += [(each, depth + 1) for each in cast("list[Any]", value)]
    return False

"""What came of running the author's code once: theirs, or ours."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias, assert_never

from assay.domain.credentials import SealedCredentials
from assay.domain.json_value import JsonValue

Budget = Literal["wall", "cpu", "memory", "result", "payload"]
RaisedKind = Literal[
    "script-raised",
    "script-exited",
    "script-crashed",
    "sandbox-violation",
    "syntax-error",
    "entry-point-missing",
    "unsupported-return-type",
    "not-json-serialisable",
    "non-finite",
    "non-string-key",
    "metric-name-collision",
    "too-deep",
    "bad-unicode",
    "timeout",
    "connection",
    "tls",
    "http_status",
    "too_large",
    "not_json",
    "malformed",
    "blocked_address",
    "redirect",
    "credentials",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one evaluation may use; breaching one is the author's error and names it."""

    wall_s: float = 8.0
    cpu_s: float = 8.0
    memory_bytes: int = 256 * 1024 * 1024
    source_bytes: int = 256 * 1024
    payload_bytes: int = 6 * 1024 * 1024
    result_bytes: int = 256 * 1024
    log_bytes: int = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """What an endpoint answered to a draft, as far as it got, without what it was sent as a secret.

    `version` is HTTP/1.1 or HTTP/2. `body` is decompressed and decoded text, whatever was wrong with it. The times
    count from the call: until the status and headers were there, and until the last byte.
    """

    version: str
    status: int
    headers: tuple[tuple[str, str], ...]
    body: str
    headers_s: float
    duration_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """The code returned this, already plain JSON."""

    value: JsonValue
    logs: str = ""
    duration_s: float = 0.0
    answer: HttpAnswer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """The code failed: `type` and `message` are its own, `line` is in its source (1-based) where known."""

    kind: RaisedKind
    type: str
    message: str
    line: int | None = None
    traceback: str | None = None
    logs: str = ""
    duration_s: float = 0.0
    answer: HttpAnswer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exceeded:
    """The code used more than a budget allows; `message` says which, the limit, and by how much where known."""

    budget: Budget
    message: str
    logs: str = ""
    duration_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Unavailable:
    """It could not be run now, by our fault or that of a passing failure; retried, and never shown as the author's.

    The next attempt is wanted no sooner than `after_s`, in seconds. `is_given_up`: the runner left it, because calls
    of the same revision before it crashed one after the other.
    """

    cause: str
    after_s: float = 0.0
    is_given_up: bool = False
    logs: str = ""
    duration_s: float = 0.0


Outcome: TypeAlias = Returned | Raised | Exceeded | Unavailable


def is_crash(outcome: Outcome) -> bool:
    """Tell whether the code cost its process or a deadline: worse than any exception, since it holds up others."""
    match outcome:
        case Exceeded():
            return outcome.budget in ("wall", "cpu", "memory")
        case Raised():
            return outcome.kind == "script-crashed"
        case Returned() | Unavailable():
            return False
        case _:
            assert_never(outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The arguments of one evaluation in the order of its interface, each as JSON text.

    For `handler` the last one is the list of span records that `trace.get_spans` serves. `key` is the id of the check,
    the same whenever it is delivered again; None when nobody would deliver it again. `credentials` go to an endpoint.
    """

    arguments: tuple[bytes, ...]
    key: str | None = None
    credentials: SealedCredentials | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """What is wrong with a source before it ever runs; line and column are the author's own, 1-based."""

    kind: Literal["syntax-error", "sandbox-violation", "entry-point-missing"]
    message: str
    line: int | None = None
    column: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What a source defines: names bound at module level, with the parameter count of functions that have one.

    `needed` says how many arguments a function cannot be called without, where the runner can tell.
    """

    names: dict[str, int | None]
    needed: dict[str, int] = field(default_factory=dict[str, int])
    defect: Defect | None = None

"""What a remote supervisor printed, as answers. It comes from a machine that ran hostile code: it is checked first."""

import base64
import binascii
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec

from assay.domain.outcome import Defect, Inspection, Limits, Outcome
from assay.runners.children import frames
from assay.runners.children.answers import forger, outcome_of, shown_logs
from assay.runners.children.breaches import Used, out_of_cpu, out_of_memory, out_of_time, outcome_of_death


@dataclass(frozen=True, slots=True)
class Silent:
    """The supervisor was ended before it could answer: only the author's code can do that from inside."""


@dataclass(frozen=True, slots=True)
class Lacking:
    """The snapshot lacks something: the cause says what."""

    cause: str


@dataclass(frozen=True, slots=True)
class Ran:
    """The outcomes of the first calls of the batch."""

    outcomes: list[Outcome]


Answer: TypeAlias = Ran | Inspection | Lacking | Silent


class _At(msgspec.Struct, frozen=True):
    kind: Literal["syntax-error"]
    message: str
    line: int | None = None
    column: int | None = None


_Answered: TypeAlias = tuple[
    Literal["answered", "died", "wall", "cpu", "memory"], int, float, str, str, int, float | None, int | None
]
"""How it ended, status, seconds spent, value and logs (base64), bytes logged in all; and what is known of the CPU time
it used, in seconds, and of the most memory its process held, in bytes."""


class _Printed(msgspec.Struct, frozen=True):
    answers: list[_Answered] | None = None
    names: dict[str, int | None] | None = None
    needed: dict[str, int] | None = None
    defect: _At | None = None
    lacking: str | None = None


_decode = msgspec.json.Decoder(_Printed).decode


def read(token: str, exit_code: int, printed: str, limits: Limits, most: int) -> Answer:
    """Return what the supervisor says behind the token, of at most `most` calls."""
    _, found, rest = printed.partition(token)
    if not found:
        # A shell tells of a signal by 128 and its number; some services by -1.
        if exit_code < 0 or exit_code > 128:
            return Silent()
        return Lacking(f"the remote sandbox could not run the batch (exit code {exit_code}): {printed.strip()[-300:]}")
    try:
        said = _decode(rest.partition("\n")[0])
        if said.lacking is not None:
            return Lacking(said.lacking)
        if said.answers is not None:
            return Ran([_outcome(answer, limits) for answer in said.answers[:most]])
    except (msgspec.MsgspecError, binascii.Error, UnicodeError):
        return Silent()
    at = said.defect and Defect(
        kind="syntax-error", message=said.defect.message, line=said.defect.line, column=said.defect.column
    )
    return Inspection(names=said.names or {}, needed=said.needed or {}, defect=at)


def _outcome(answer: _Answered, limits: Limits) -> Outcome:
    ended, status, spent_s, value_text, logs_text, written, cpu_s, peak_bytes = answer
    used = Used(ran_s=spent_s, cpu_s=cpu_s, peak_bytes=peak_bytes)
    value, logs = base64.b64decode(value_text), base64.b64decode(logs_text)[: limits.log_bytes]
    shown = shown_logs(logs, written) if written else ""
    if ended == "answered" and status != frames.STATUS_MEMORY:
        return outcome_of(status, value, logs, written, spent_s, limits) or forger()
    if ended == "wall":
        return out_of_time(shown, limits, used)
    if ended == "cpu":
        return out_of_cpu(shown, limits, used)
    if ended in ("memory", "answered"):
        return out_of_memory(shown, limits, used)
    return outcome_of_death(status, shown, limits, used)

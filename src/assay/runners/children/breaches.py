"""What an author is told of an evaluation that was stopped: which budget, and what it had used by then."""

import os
import signal
from dataclasses import dataclass

from assay.domain.outcome import Exceeded, Limits, Outcome, Raised

_MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What an evaluation had used at its end, as far as that is known (None: it is not).

    `ran_s` by the server's clock. By the kernel's count, `cpu_s`, which is no more than a bound where `cpu_is_bound`,
    and `peak_bytes`, the most that its process ever held, its interpreter included.
    """

    ran_s: float | None = None
    cpu_s: float | None = None
    cpu_is_bound: bool = False
    peak_bytes: int | None = None


def out_of_time(logs: str, limits: Limits, used: Used) -> Outcome:
    """Return the outcome of an evaluation that was killed at its deadline."""
    message = f"the evaluation ran longer than {limits.wall_s:g} s"
    if used.ran_s is not None:
        message += f": it was stopped after {_shown_s(used.ran_s)}"
        if used.cpu_s is not None:
            message += f", with {_cpu(used)} of CPU time used"
    return Exceeded(budget="wall", message=message, logs=logs, duration_s=used.ran_s or limits.wall_s)


def out_of_cpu(logs: str, limits: Limits, used: Used) -> Outcome:
    """Return the outcome of an evaluation that was killed for the CPU time it used.

    The timer that ends it counts in ticks and may be a little early; a figure below the limit would say nothing.
    """
    message = f"the evaluation used more than {limits.cpu_s:g} s of CPU time"
    if used.ran_s is not None:
        message += f": it was stopped after {_shown_s(used.ran_s)}"
        if used.cpu_s is not None and used.cpu_s >= limits.cpu_s:
            message += f", with {_cpu(used)} of CPU time used"
    return Exceeded(budget="cpu", message=message, logs=logs, duration_s=used.ran_s or limits.cpu_s)


def out_of_memory(logs: str, limits: Limits, used: Used) -> Outcome:
    """Return the outcome of an evaluation that was refused memory."""
    message = f"the evaluation needed more than {limits.memory_bytes / _MEBIBYTE:g} MiB of memory"
    if used.peak_bytes is not None:
        held = f"{used.peak_bytes / _MEBIBYTE:.1f} MiB"
        message += f": its process held {held} at the most, the interpreter included, before it was refused more"
    return Exceeded(budget="memory", message=message, logs=logs, duration_s=used.ran_s or 0.0)


def outcome_of_death(status: int, logs: str, limits: Limits, used: Used) -> Outcome:
    """Return the outcome of an evaluation that ended its process, from the wait status."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == signal.SIGPROF:
            return out_of_cpu(logs, limits, used)
        how = f"was ended by {_signal_name(number)}"
    else:
        how = f"ended itself with status {os.waitstatus_to_exitcode(status)}"
    message = f"the process {how} before the code returned"
    duration_s = used.ran_s or 0.0
    return Raised(kind="script-crashed", type="ProcessEnded", message=message, logs=logs, duration_s=duration_s)


def _cpu(used: Used) -> str:
    assert used.cpu_s is not None
    return f"at most {_shown_s(used.cpu_s)}" if used.cpu_is_bound else _shown_s(used.cpu_s)


def _shown_s(seconds: float) -> str:
    return f"{seconds:.2f} s"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

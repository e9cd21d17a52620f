"""Watches a process that runs one evaluation: reads what it answers and prints, and kills it beyond its budgets."""

import contextlib
import os
import select
import signal
import struct
import time
from dataclasses import dataclass, field

# Status, duration in seconds, length of the value that follows.
HEAD = struct.Struct("<BdI")
_POLL_S = 0.05
# One that used up nearly all its CPU time by its deadline has a little longer to use up the rest.
_NEARLY, _A_LITTLE_LONGER = 0.9, 1.1
_CHUNK = 65536
_MOST_ROUNDS = 100
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass
class Seen:
    """What came of one evaluation: `ended` is "answered", the budget it was killed for, or "died".

    `cpu_s` and `peak_bytes` are what its process was last seen to have used; None when it was never looked at.
    """

    ended: str = "died"
    status: int = 0
    spent_s: float = 0.0
    value: bytes = b""
    logs: bytearray = field(default_factory=bytearray)
    written: int = 0
    cpu_s: "float | None" = None
    peak_bytes: "int | None" = None


@dataclass(frozen=True)
class Budgets:
    """What one evaluation may use; `memory_bytes` None where the process bounds its own memory."""

    wall_s: float
    cpu_s: float
    result_bytes: int
    log_bytes: int
    memory_bytes: "int | None" = None


def watch(pid: int, answers: int, logs: int, budgets: Budgets) -> Seen:
    """Return what comes of the evaluation that has just begun; a process beyond its budgets is killed, not reaped."""
    seen, raw = Seen(), bytearray()
    began, cpu_before, memory_before = time.monotonic(), _cpu_s(pid), _memory(pid)
    open_ends = {answers, logs}
    while True:
        ready, _, _ = select.select(list(open_ends), [], [], _POLL_S)
        for end in ready:
            chunk = os.read(end, _CHUNK)
            if not chunk:
                open_ends.discard(end)
            elif end == logs:
                _keep(seen, chunk, budgets.log_bytes)
            else:
                raw += chunk
        spent = time.monotonic() - began
        if _answered(seen, raw, budgets):
            break
        if answers not in open_ends:
            seen.spent_s = spent
            break
        over = _exceeded(pid, seen, spent, cpu_before, memory_before, budgets)
        if over is not None:
            end_session(pid)
            seen.ended, seen.spent_s = over, spent
            break
    if logs in open_ends:
        _drain(seen, logs, budgets.log_bytes)
    return seen


def end_session(pid: int) -> None:
    """Kill a process that leads a session, and those of its session."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


def end_strays() -> None:
    """Kill what evaluations started and left: a process that adopts its orphans has no other children by then."""
    for _ in range(_MOST_ROUNDS):
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        for pid in _children():
            end_session(pid)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _children() -> "list[int]":
    found: list[int] = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                if int(file.read().rpartition(b")")[2].split()[1]) == os.getpid():
                    found.append(int(name))
    return found


def _answered(seen: Seen, raw: bytearray, budgets: Budgets) -> bool:
    if len(raw) < HEAD.size:
        return False
    status, spent_s, length = HEAD.unpack_from(raw)
    # No harness writes more than a result or a report; what claims to be longer is cut, and not believed.
    length = min(length, budgets.result_bytes + 4 * _CHUNK)
    if len(raw) < HEAD.size + length:
        return False
    seen.ended, seen.status, seen.spent_s = "answered", status, spent_s
    seen.value = bytes(raw[HEAD.size : HEAD.size + length])
    return True


def _exceeded(
    pid: int, seen: Seen, spent: float, cpu_before: float, memory_before: int, budgets: Budgets
) -> "str | None":
    cpu_s = max(_cpu_s(pid) - cpu_before, seen.cpu_s or 0.0)
    seen.cpu_s, seen.peak_bytes = cpu_s, _peak(pid) or seen.peak_bytes
    if cpu_s > budgets.cpu_s:
        return "cpu"
    is_busy = cpu_s >= _NEARLY * budgets.cpu_s
    if spent > budgets.wall_s * (_A_LITTLE_LONGER if is_busy else 1.0):
        return "wall"
    if budgets.memory_bytes is not None and _memory(pid) - memory_before > budgets.memory_bytes:
        return "memory"
    return None


def _keep(seen: Seen, chunk: bytes, most: int) -> None:
    seen.logs += chunk[: max(0, most - len(seen.logs))]
    seen.written += len(chunk)


def _drain(seen: Seen, logs: int, most: int) -> None:
    for _ in range(64):
        if not select.select([logs], [], [], 0)[0]:
            return
        chunk = os.read(logs, _CHUNK)
        if not chunk:
            return
        _keep(seen, chunk, most)


def _cpu_s(pid: int) -> float:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _peak(pid: int) -> "int | None":
    """Return the most memory that the process has held, in bytes."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            words = file.read().partition(b"VmHWM:")[2].split(maxsplit=1)
    except OSError:
        return None
    return int(words[0]) * 1024 if words else None


def _memory(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE
    except OSError:
        return 0

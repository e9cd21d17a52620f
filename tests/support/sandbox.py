"""Evaluators and calls for the sandbox, and a look at the processes it leaves."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from assay.domain.evaluator import Interface, Language, Revision
from assay.domain.outcome import Call, Limits, Outcome, Returned
from assay.ports import Runner
from assay.runners.sandbox.doctor import RUNGS
from support.server import wait_for

LADDER = [RUNGS[0], RUNGS[1], RUNGS[3]]
IMPATIENT = Limits(wall_s=4.0)


def revision_of(
    source: str,
    interface: Interface = "evaluate",
    project_id: str = "p",
    number: int = 1,
    language: Language = "python",
) -> Revision:
    return Revision(
        id=f"evl_{number}",
        evaluator_id="evl",
        project_id=project_id,
        number=number,
        created_at_ns=0,
        evaluator_name="check",
        kind="code",
        language=language,
        interface=interface,
        source=source,
    )


def call_of(*arguments: Any) -> Call:
    return Call(arguments=tuple(json.dumps(argument).encode() for argument in arguments))


def calls_of(*inputs: Any) -> list[Call]:
    """Return a call of `evaluate` for each value of its first argument."""
    return [call_of(value, "an answer", None) for value in inputs]


async def run(runner: Runner, source: str, *inputs: Any, limits: Limits = IMPATIENT, **fields: Any) -> list[Outcome]:
    """Run `evaluate` once for each value of its first argument."""
    return await runner.execute(revision_of(source, **fields), calls_of(*inputs), limits)


async def value_of(runner: Runner, source: str, given: Any = None, **fields: Any) -> Any:
    """Return what one evaluation returned."""
    [outcome] = await run(runner, source, given, **fields)
    assert isinstance(outcome, Returned), outcome
    return outcome.value


def descendants(pid: int) -> set[int]:
    """Return the ids of all processes below this one that are no zombies."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            except OSError:
                continue
            if state != "Z":
                children.setdefault(int(parent), []).append(int(entry.name))
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        for child in children.get(waiting.pop(), []):
            found.add(child)
            waiting.append(child)
    return found


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def own_descendants() -> set[int]:
    return descendants(os.getpid())


def demand_that_all_ends_with(command: Sequence[str], fewest: int) -> None:
    """Start a server of at least so many processes, kill it, and hold that none of them outlives it."""
    with subprocess.Popen(command) as server:
        try:
            below = wait_for(
                lambda: found if len(found := descendants(server.pid)) >= fewest else None, "the children", 30
            )
        finally:
            server.kill()
    wait_for(lambda: not any(is_running(pid) for pid in below), "the sandbox to end", 10)

"""The sandbox beside what is used instead: unconfined `exec` in the server, and a `python3` process for each check.

The first is the local runner of the public `agenta` package, installed from the registry by `make bench` into an
environment of its own, since it pins older versions of some of the same libraries. It runs in the process of its
server; here it also gets as many processes as the sandbox has, which it has not by itself.
"""

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import IO

import uvloop
from bench_sandbox import READ, UNREAD, WORKERS, payload, sandboxed_per_s

from assay.runners.sandbox.runner import SandboxRunner

ROUNDS = 7
ITEMS = 8192
AGENTA_ITEMS = 512
COLD_STARTS = 24
AGENTA = Path(sys.prefix, "bench", "bin", "python")
COLD = """
import json, sys
arguments = sys.stdin.buffer.read().splitlines()
print(json.dumps(evaluate(*map(json.loads, arguments))))
"""


class Agenta:
    """Processes with the `agenta` package's local runner."""

    def __init__(self) -> None:
        command = [str(AGENTA), str(Path(__file__).with_name("agenta_local.py"))]
        self._processes = [
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
            for _ in range(WORKERS)
        ]

    def per_s(self, arguments: tuple[bytes, ...], processes: int, source: str) -> float:
        """Return evaluations a second over so many of the processes."""
        task = json.dumps([source, [argument.decode() for argument in arguments], AGENTA_ITEMS]) + "\n"
        asked = [(_stream(one.stdin), _stream(one.stdout)) for one in self._processes[:processes]]
        for questions, _ in asked:
            questions.write(task)
            questions.flush()
        return sum(AGENTA_ITEMS / float(answers.readline()) for _, answers in asked)

    def close(self) -> None:
        """Let them end."""
        for process in self._processes:
            process.communicate()


def _stream(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


def cold_per_s(arguments: tuple[bytes, ...], source: str) -> float:
    """Return checks a second with an interpreter started for each, as many side by side as there are zygotes."""
    program = f"{source}\n{COLD}"

    def check(_: int) -> None:
        subprocess.run(
            [sys.executable, "-I", "-c", program], input=b"\n".join(arguments), stdout=subprocess.DEVNULL, check=True
        )

    begun = time.perf_counter()
    with ThreadPoolExecutor(WORKERS) as threads:
        list(threads.map(check, range(COLD_STARTS)))
    return COLD_STARTS / (time.perf_counter() - begun)


async def main() -> None:
    """Measure in turns, and print a table."""
    runner = await SandboxRunner.start(workers=WORKERS, minimum="no-landlock")
    agenta, arguments = Agenta(), payload(2_000)
    print("| 2 kB | the sandbox/s | the other/s | times as fast |\n| --- | ---: | ---: | ---: |")
    one, each = partial(agenta.per_s, arguments, 1), partial(agenta.per_s, arguments, WORKERS)
    rows: list[tuple[str, str, Callable[[str], float]]] = [
        ("`exec` at each call in the server (agenta, local), trace unread", UNREAD, one),
        ("the same, trace read", READ, one),
        (f"the same in {WORKERS} processes, trace unread", UNREAD, each),
        (f"the same in {WORKERS} processes, trace read", READ, each),
        ("a `python3` process for each", UNREAD, partial(cold_per_s, arguments)),
    ]
    for name, source, measure in rows:
        rounds: list[tuple[float, float]] = []
        for _ in range(ROUNDS + 1):
            other = await asyncio.to_thread(measure, source)
            rounds.append((await sandboxed_per_s(runner, source, arguments, ITEMS), other))
        ours, other = (statistics.median(each) for each in zip(*rounds[1:], strict=True))
        times = statistics.median(mine / theirs for mine, theirs in rounds[1:])
        print(f"| {name} | {ours:,.0f} | {other:,.0f} | {times:.1f} |", flush=True)
    await runner.close()
    agenta.close()


if __name__ == "__main__":
    uvloop.run(main())

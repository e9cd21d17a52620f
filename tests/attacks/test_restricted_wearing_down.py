"""Attacks on time, memory and neighbours by what restricted code may use; each is named in its check."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import NamedTuple

import pytest
import pytest_asyncio

from assay.domain.check import Check
from assay.domain.outcome import Limits
from assay.domain.subject import Testcase as Row
from assay.engine import Engine
from assay.runners.restricted.runner import RestrictedRunner
from assay.testing import FixedClock
from support.runners import module_runner
from support.sandbox import own_descendants, revision_of
from support.server import wait_for

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIMITS = Limits(wall_s=1, memory_bytes=96 * 1024 * 1024)
KILLED = "the evaluation ran longer than 1 s"
NO_MEMORY = "the evaluation needed more than 96 MiB of memory"
VIOLATION = "sandbox-violation"


class Attack(NamedTuple):
    """Statements of the evaluation, and patterns of the kind and the message of its check."""

    statements: str
    kind: str
    message: str


def hang(statements: str) -> Attack:
    return Attack(statements, "timeout", KILLED)


def greed(statements: str) -> Attack:
    return Attack(statements, "memory-exceeded|timeout", f"{NO_MEMORY}|{KILLED}")


def refused(statements: str, message: str) -> Attack:
    return Attack(statements, VIOLATION, message)


ATTACKS: dict[str, Attack] = {
    "a loop": hang("while True: pass"),
    "a loop that catches": hang(
        "while True:\n            try:\n                while True: pass\n            except Exception: pass"
    ),
    "a huge power": hang("10 ** 10 ** 8"),
    "a huge shift": greed("(1 << 10 ** 9) * 3"),
    "a huge factorial": hang("math.factorial(10 ** 8)"),
    "a huge decimal": greed("decimal.getcontext().prec = 10 ** 7\n        decimal.Decimal(3).exp()"),
    "digits without end": Attack("int('9' * 10 ** 6)", "script-raised", "ValueError: Exceeds the limit"),
    "a catastrophic expression": hang("re.match('(a|a)+$', 'a' * 64 + 'b')"),
    "a deep expression": Attack("re.compile('(' * 50000)", "script-raised", "error|RecursionError"),
    "a loop in C": hang("sum(itertools.repeat(1))"),
    "an iterator without end": hang("max(itertools.count())"),
    "a set of an endless iterator": greed("set(itertools.count())"),
    "permutations": greed("list(itertools.permutations(range(20)))"),
    "a product": greed("list(itertools.product(range(100), repeat=9))"),
    "a comparison without end": hang("difflib.SequenceMatcher(None, 'ab' * 9999, 'ba' * 9999, False).ratio()"),
    "a key without end": hang("sorted([1], key=lambda _: sum(itertools.repeat(1)))"),
    "a gigabyte of text": greed("'x' * (1 << 30)"),
    "a gigabyte by a width": greed("'{:>1000000000}'.format('x')"),
    "a gigabyte by a width of a width": greed("'{:>{}}'.format('x', 10 ** 9)"),
    "a gigabyte by an f-string": greed("width = 10 ** 9\n        f'{1:>{width}}'"),
    "a gigabyte by percent": greed("'%1000000000d' % 1"),
    "a gigabyte by joining": greed("'x'.join(['y' * 1000] * 10 ** 7)"),
    "a gigabyte by replacing": greed("('x' * 10 ** 5).replace('x', 'y' * 10 ** 5)"),
    "a gigabyte by an expression": greed("re.sub('x', 'y' * 10 ** 5, 'x' * 10 ** 5)"),
    "a gigabyte by random": greed("random.choices([1], k=10 ** 9)"),
    "a gigabyte by JSON": greed("json.dumps(['x' * 1000] * 10 ** 7)"),
    "doubling": greed("data = [0]\n        while True: data += data"),
    "a deque": Attack(
        "collections.deque(itertools.count())",
        "memory-exceeded|timeout|script-raised",
        f"{NO_MEMORY}|{KILLED}|SystemError",
    ),
    "deep JSON": Attack("json.loads('[' * 10 ** 6)", "script-raised|script-crashed", "RecursionError|SIGSEGV"),
    "deep recursion": Attack("evaluate(inputs, outputs, trace)", "script-raised", "RecursionError"),
    "a result without end": Attack("return 'x' * (1 << 20)", "result-too-large", "at most 262144 are allowed"),
    "a flood": Attack(
        "for _ in range(10 ** 4): print('x' * 1000)\n        1 / 0", "script-raised", "ZeroDivisionError"
    ),
    "an exit": Attack("raise SystemExit(0)", f"script-exited|script-raised|{VIOLATION}", "SystemExit"),
    "an exit by its name": Attack("exit(0)", f"script-raised|{VIOLATION}", "exit"),
    "a wait": refused("import time\n        time.sleep(60)", "time.sleep"),
    "a thread": refused("import threading\n        threading.Thread(target=print).start()", "'threading'"),
    "another process": refused("import os\n        os.fork()", "'os'"),
    "a foreign function": refused("import ctypes\n        ctypes.string_at(0)", "'ctypes'"),
    "a network": refused("import socket\n        socket.socket()", "'socket'"),
    "collected objects": refused("import gc\n        gc.get_objects()", "'gc'"),
    "a patched module": refused("json.dumps = None", "json|setting|attribute"),
    "a patched class": refused("str.upper = None", "setting|attribute|str"),
    "a patched builtin": refused("__builtins__['len'] = None", "__builtins__"),
    "a raised limit": refused("import sys\n        sys.setrecursionlimit(10 ** 9)", "'sys'"),
}


def source_of(attack: Attack) -> str:
    return (
        "import collections, decimal, difflib, itertools, json, math, random, re\n\n"
        "def evaluate(inputs, outputs, trace):\n"
        f"    if inputs == 'attack':\n        {attack.statements}\n"
        "    return {'inputs': inputs, 'len': len(outputs), 'dumped': json.dumps([inputs])}\n"
    )


runner = module_runner(partial(RestrictedRunner.start, workers=2))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(runner: RestrictedRunner) -> AsyncIterator[Engine]:
    started = Engine({"python": runner}, FixedClock(), LIMITS)
    await evaluated(started, source_of(ATTACKS["a loop"]), ["first"])
    zygotes, idle = runner.zygote_pids, len(own_descendants())
    yield started
    assert runner.zygote_pids == zygotes
    await asyncio.to_thread(wait_for, lambda: len(own_descendants()) <= idle, "the children to end")


async def evaluated(engine: Engine, source: str, inputs: Sequence[str]) -> list[Check]:
    rows = [Row(inputs=each, outputs="an answer") for each in inputs]
    return [check for check in await engine.evaluate(revision_of(source), rows) if isinstance(check, Check)]


@pytest.mark.parametrize("name", ATTACKS)
async def test_the_attack_is_contained_and_named_beside_its_neighbours(
    engine: Engine, runner: RestrictedRunner, name: str
) -> None:
    attack = ATTACKS[name]
    source = source_of(attack)
    first, attacked, last = await evaluated(engine, source, ["first", "attack", "last"])
    error = attacked.reading.error
    assert error is not None, attacked.reading
    assert re.fullmatch(attack.kind, error.kind), error
    assert re.search(attack.message, error.message), error
    assert len(error.message) < 5000
    refused_when_saved = (await runner.inspect("python", source)).defect is not None
    for check, inputs in ((first, "first"), (last, "last")):
        if refused_when_saved:
            assert check.reading.error == error
        else:
            assert check.reading.metrics == {"inputs": inputs, "len": 9, "dumped": f'["{inputs}"]'}, check.reading

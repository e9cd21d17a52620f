"""Attacks on resources: time, memory, output, and the process itself. Neighbours must keep their results."""

import pytest

from assay.domain.outcome import Exceeded, Limits, Raised, Returned
from assay.runners.sandbox.runner import SandboxRunner
from support.sandbox import IMPATIENT, run

pytestmark = pytest.mark.asyncio(loop_scope="module")

HANGS = {
    "an endless loop": "while True: pass",
    "a sleep": "time.sleep(600)",
    "a catastrophic regular expression": "re.match('(a+)+$', 'a' * 60 + 'b')",
    "a huge power": "10 ** 10 ** 9",
    "swallowing every exception": "spin()",
    "masked signals": "mask(); spin()",
    "a select on nothing": "__import__('select').select([], [], [])",
    "a read from its own channel": "os.read(3, 1)",
    "an endless iterator": "sum(itertools.count())",
    "a clock that stands still": "setattr(time, 'perf_counter', float); setattr(time, 'monotonic', float); spin()",
    "a lie about progress": "forge(); spin()",
    "a destructor": "globals().__setitem__('TRAP', Trap())",
}
PREFIX = """
import gc, itertools, mmap, os, re, signal, time

def spin():
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass

class Trap:
    def __del__(self):
        while True: pass

def mask():
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
    for number in (signal.SIGALRM, signal.SIGPROF, signal.SIGTERM, signal.SIGVTALRM):
        signal.signal(number, signal.SIG_IGN)

def forge():
    for each in gc.get_objects():
        if type(each) is memoryview and each.format == "I" and not each.readonly:
            each[0] = 4000000000
"""


@pytest.mark.parametrize("how", HANGS)
async def test_what_hangs_is_killed_and_alone_blamed(runner: SandboxRunner, how: str) -> None:
    source = f"{PREFIX}\ndef evaluate(inputs, outputs, trace):\n    if inputs:\n        {HANGS[how]}\n    return True"
    outcomes = await run(runner, source, 0, 1, 0, limits=Limits(wall_s=1))
    assert isinstance(outcomes[1], Exceeded)
    assert outcomes[1].budget == "wall"
    assert [type(outcomes[index]) for index in (0, 2)] == [Returned, Returned]


ENDINGS = {
    "os._exit": "os._exit(0)",
    "os.abort": "os.abort()",
    "a null pointer": "__import__('ctypes').string_at(0)",
    "bytecode out of bounds": "exec((lambda: 0).__code__.replace(co_code=b'd\\xff' * 8, co_consts=()))",
    "deep recursion without a limit": "setattr(sys, 'x', sys.setrecursionlimit(10 ** 9)); nest()",
    "closing every descriptor": "os.closerange(0, 64)",
    "a signal to itself": "__import__('signal').raise_signal(9)",
    "an alarm": "__import__('signal').setitimer(0, 0.001); __import__('time').sleep(1)",
}


@pytest.mark.parametrize("how", ENDINGS)
async def test_what_ends_its_process_is_alone_blamed(runner: SandboxRunner, how: str) -> None:
    source = f"""
import os, sys
class Nest:
    def __getattr__(self, name): return getattr(self, name + "x")
def nest(): return repr(type("N", (), dict(__repr__=lambda self: repr(self)))())
def evaluate(inputs, outputs, trace):
    if inputs == 2:
        {ENDINGS[how]}
    return inputs
"""
    outcomes = await run(runner, source, 0, 1, 2, 3, 4, limits=Limits(wall_s=4))
    assert isinstance(outcomes[2], (Raised, Exceeded))
    assert [outcome.value for outcome in outcomes if isinstance(outcome, Returned)] == [0, 1, 3, 4]


BOMBS = {
    "one block": "bytearray(1 << 34)",
    "doubling": "grow()",
    "a list": "[0] * (1 << 33)",
    "a string": "'x' * (1 << 33)",
    "many objects": "[object() for _ in range(10 ** 9)]",
    "anonymous memory": "[__import__('mmap').mmap(-1, 1 << 26) for _ in range(100)]; raise MemoryError",
}


@pytest.mark.parametrize("how", BOMBS)
async def test_a_memory_bomb_breaches_the_memory_budget(runner: SandboxRunner, how: str) -> None:
    source = f"""
def grow():
    data = "x"
    while True:
        data += data
def evaluate(inputs, outputs, trace):
    if inputs:
        {BOMBS[how]}
    return True
"""
    limits = Limits(wall_s=10, memory_bytes=64 * 1024 * 1024)
    outcomes = await run(runner, source, 0, 1, 0, limits=limits)
    assert [type(outcomes[index]) for index in (0, 2)] == [Returned, Returned]
    if how == "anonymous memory":
        assert isinstance(outcomes[1], (Raised, Exceeded))
    else:
        assert isinstance(outcomes[1], Exceeded)
        assert outcomes[1].budget == "memory"


async def test_memory_that_a_neighbour_left_behind_is_not_held_against_an_evaluation(runner: SandboxRunner) -> None:
    source = """
import sys
def evaluate(inputs, outputs, trace):
    if inputs == "hoard":
        sys.hoard = bytearray(100 << 20)
    else:
        bytearray(inputs << 20)
    return True
"""
    outcomes = await run(runner, source, "hoard", 80, 1, limits=Limits(memory_bytes=128 << 20))
    assert [type(outcome) for outcome in outcomes] == [Returned] * 3


async def test_cpu_time_has_a_budget_of_its_own(runner: SandboxRunner) -> None:
    source = "def evaluate(inputs, outputs, trace):\n    while inputs: pass\n    return True"
    outcomes = await run(runner, source, 0, 1, 0, limits=Limits(wall_s=30, cpu_s=0.3))
    assert isinstance(outcomes[1], Exceeded)
    assert outcomes[1].budget == "cpu"
    assert [type(outcomes[index]) for index in (0, 2)] == [Returned, Returned]


@pytest.mark.parametrize("result", ["'x' * (1 << 22)", "list(range(1 << 20))", "{str(n): n for n in range(1 << 17)}"])
async def test_a_huge_result_breaches_the_result_budget(runner: SandboxRunner, result: str) -> None:
    [outcome] = await run(runner, f"def evaluate(inputs, outputs, trace):\n    return {result}", None)
    assert isinstance(outcome, Exceeded)
    assert outcome.budget == "result"


@pytest.mark.parametrize(
    "flood",
    [
        "print('x' * 1000)",
        "sys.stderr.write('x' * 1000)",
        "sys.__stdout__.write('x' * 1000)",
        "os.write(1, b'x' * 1000)",
        "os.write(2, b'x' * 1000)",
        "sys.stdout.buffer.write(b'x' * 1000)",
    ],
)
async def test_a_flood_of_output_is_cut_and_harms_nobody(runner: SandboxRunner, flood: str) -> None:
    source = f"import os, sys\ndef evaluate(i, o, t):\n    for _ in range(20000):\n        {flood}\n    return 7"
    [outcome] = await run(runner, source, None, limits=Limits(wall_s=20))
    assert isinstance(outcome, Returned)
    assert outcome.value == 7
    assert len(outcome.logs) <= IMPATIENT.log_bytes + 100
    assert "os.write" in flood or "logs cut" in outcome.logs


DEEP = {
    "lists": "nested(lambda inner: [inner])",
    "dicts": "nested(lambda inner: {'a': inner})",
    "a cycle": "cycle()",
    "a dict that invents keys": "type('D', (dict,), {'items': lambda self: iter(lambda: ('a', 1), 0)})()",
    "a list that never ends": "type('L', (list,), {'__iter__': lambda self: __import__('itertools').count()})()",
    "an integer of a million digits": "1 << 3000000",
    "a key of half a surrogate": "{chr(0xd800): 1}",
}


@pytest.mark.parametrize("what", DEEP)
async def test_a_result_that_json_cannot_carry_is_an_error_or_plain(runner: SandboxRunner, what: str) -> None:
    source = f"""
def nested(wrap):
    value = 0
    for _ in range(100000):
        value = wrap(value)
    return value
def cycle():
    value = []
    value.append(value)
    return value
def evaluate(inputs, outputs, trace):
    return {DEEP[what]}
"""
    [outcome] = await run(runner, source, None)
    assert isinstance(outcome, (Raised, Exceeded)) or (isinstance(outcome, Returned) and outcome.value in ({}, []))


async def test_what_is_printed_at_exit_goes_nowhere(runner: SandboxRunner) -> None:
    source = """
import atexit, sys
def evaluate(inputs, outputs, trace):
    atexit.register(print, "too late")
    sys.exitfunc = lambda: print("too late")
    return inputs
"""
    outcomes = await run(runner, source, 0, 1)
    assert [outcome.logs for outcome in outcomes] == ["", ""]


async def test_running_out_of_descriptors_stays_within_the_evaluation(runner: SandboxRunner) -> None:
    source = """
import os
def evaluate(inputs, outputs, trace):
    if inputs:
        while True:
            os.dup(0)
    return True
"""
    outcomes = await run(runner, source, 1, number=2)
    assert isinstance(outcomes[0], Raised)
    assert isinstance((await run(runner, source, 0, number=2))[0], Returned)

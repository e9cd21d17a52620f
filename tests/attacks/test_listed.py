"""The attacks everybody thinks of first, each told in the check by kind and message, beside neighbours and strangers.

Every attack runs as the middle one of three evaluations of a project, while another project is checked with the same
runner. Then nothing may be left: no result of the others changed, no process, no file, no descriptor of the server.
"""

import asyncio
import os
import platform
import re
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
import pytest_asyncio

from assay.domain.check import Check
from assay.domain.outcome import Limits
from assay.domain.subject import Testcase as Row
from assay.engine import Engine
from assay.runners.sandbox.runner import SandboxRunner
from assay.testing import FixedClock
from support.sandbox import own_descendants, revision_of
from support.server import wait_for

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="system calls are named by their x86-64 numbers"),
]

LIMITS = Limits(wall_s=1.5, memory_bytes=128 * 1024 * 1024)
REFUSED = r"(PermissionError|FileNotFoundError|OSError|BlockingIOError): "
KILLED = "the evaluation ran longer than 1.5 s"
NO_MEMORY = "the evaluation needed more than 128 MiB of memory"
SECRET = "what-only-the-other-project-knows"
SHARED_PLACES = ("/tmp", "/dev/shm", "/var/tmp", "/run")
STRANGER = f"def evaluate(inputs, outputs, trace):\n    return {{'secret': inputs == {SECRET!r}, 'len': len('abc')}}"


class Attack(NamedTuple):
    """Statements of the evaluation, and what the check tells: the kind, and a pattern of the message."""

    statements: str
    kind: str
    message: str


def syscall(number: int, *arguments: int) -> Attack:
    """Make a system call past the C library's own functions; it is refused with EPERM (1)."""
    return Attack(f"refused({', '.join(map(str, (number, *arguments)))})", "script-raised", "PermissionError: 1")


PREFIX = """
import array, atexit, builtins, ctypes, gc, gzip, io, itertools, json, multiprocessing, os, re, resource, select, signal
import socket, subprocess, sys, threading, time, zlib

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

def refused(number, *arguments):
    if libc.syscall(ctypes.c_long(number), *[ctypes.c_long(each) for each in arguments]) < 0:
        raise PermissionError(ctypes.get_errno())

def failing(result):
    if result < 0:
        raise PermissionError(ctypes.get_errno())

def select_fails(number):
    try:
        os.fstat(number)
        return False
    except OSError:
        return True

class Trap:
    def __del__(self):
        while True: pass

def deep(n):
    return deep(n + 1) + 1

def threads():
    for _ in range(8):
        threading.Thread(target=threads).start()

def harness():
    frame = sys._getframe()
    while frame and "batch_id" not in frame.f_locals:
        frame = frame.f_back
    return frame.f_locals

def answer_for(number):
    import struct
    data = struct.pack("<8sIBfIII", harness()["batch_id"], number, 0, 0.0, 0, 3, 0) + b"0.5"
    os.write(3, data)

ZEROS = zlib.compress(b"\\0" * (1 << 20), 9)

def zip_bomb():
    whole = zlib.compressobj(9)
    small = b"".join(whole.compress(b"\\0" * (1 << 20)) for _ in range(1024)) + whole.flush()
    return zlib.decompress(small)
"""
FORGED = "what came through it cannot be believed"
ATTACKS: dict[str, Attack] = {
    "reading /proc": Attack("open('/proc/self/maps').read()", "script-raised", REFUSED),
    "reading another's /proc": Attack("open(f'/proc/{os.getppid()}/environ').read()", "script-raised", REFUSED),
    "listing /proc": Attack("os.listdir('/proc')", "script-raised", REFUSED),
    "reading /sys": Attack("open('/sys/kernel/notes', 'rb').read()", "script-raised", REFUSED),
    "listing /sys": Attack("os.listdir('/sys')", "script-raised", REFUSED),
    "reading passwords": Attack("open('/etc/passwd').read()", "script-raised", REFUSED),
    "writing a file": Attack("open('/tmp/assay-attack', 'w')", "script-raised", REFUSED),
    "ptrace of the parent": syscall(101, 16, 1),
    "ptrace by libc": Attack("failing(libc.ptrace(16, os.getppid(), 0, 0))", "script-raised", "PermissionError: 1"),
    "process_vm_readv": syscall(310, 1, 0, 0, 0, 0, 0),
    "process_vm_writev": syscall(311, 1, 0, 0, 0, 0, 0),
    "system by libc": Attack("failing(-1 if libc.system(b'true') else 0)", "script-raised", "PermissionError"),
    "fork by libc": Attack("failing(libc.fork())", "script-raised", "PermissionError: 1"),
    "open by libc": Attack("failing(libc.open(b'/etc/passwd', 0))", "script-raised", r"PermissionError: (1|2|13)$"),
    "socket by libc": Attack("failing(libc.socket(2, 1, 0))", "script-raised", "PermissionError: 1"),
    "kill by libc": Attack("failing(libc.kill(os.getppid(), 0))", "script-raised", "PermissionError: 1"),
    "a null pointer by ctypes": Attack("ctypes.string_at(0)", "script-crashed", "SIGSEGV"),
    "memfd_create": Attack("os.memfd_create('x')", "script-raised", "PermissionError"),
    "memfd_secret": syscall(447, 0),
    "io_uring": syscall(425, 1, 0),
    "userfaultfd": syscall(323, 0),
    "a new user namespace": syscall(272, 0x10000000),
    "a new namespace by clone": syscall(56, 0x7E020000 | 17, 0, 0, 0, 0),
    "another's namespace": syscall(308, 3, 0),
    "bpf": syscall(321, 0, 0, 0),
    "a signal to the parent": Attack("os.kill(os.getppid(), 0)", "script-raised", REFUSED),
    "a signal to everybody": Attack("os.kill(-1, 0)", "script-raised", REFUSED),
    "a signal to the group": Attack("os.killpg(0, 0)", "script-raised", REFUSED),
    "a signal by descriptor": Attack("os.pidfd_open(os.getppid())", "script-raised", REFUSED),
    "inherited descriptors": Attack(
        "raise OSError([n for n in range(4, 256) if not select_fails(n)])", "script-raised", r"OSError: \[\]"
    ),
    "a core dump": Attack(
        "resource.setrlimit(resource.RLIMIT_CORE, (1, 1))", "script-raised", "(PermissionError|ValueError)"
    ),
    "a core dump by abort": Attack("os.abort()", "script-crashed", "ended by SIG(ABRT|SEGV|ILL)"),
    "a fork bomb": Attack("while True: os.fork()", "script-raised", REFUSED),
    "a fork bomb through threads": Attack("threads()", "script-raised", "RuntimeError: can't start new thread"),
    "a pool of processes": Attack("multiprocessing.Pool(64)", "script-raised", REFUSED),
    "another program": Attack("subprocess.run(['/bin/true'])", "script-raised", REFUSED),
    "a huge power": Attack("10 ** 10 ** 8", "timeout", KILLED),
    "a catastrophic expression": Attack("re.match('(a|a)+$', 'a' * 64 + 'b')", "timeout", KILLED),
    "deep recursion": Attack("deep(0)", "script-raised", "RecursionError: maximum recursion depth exceeded"),
    "deep recursion without a limit": Attack(
        "sys.setrecursionlimit(10 ** 9); deep(0)",
        "(script-crashed|memory-exceeded|timeout|script-raised)",
        f"(SIG|SystemError|{NO_MEMORY}|{KILLED})",
    ),
    "a loop in C": Attack("sum(itertools.repeat(1))", "timeout", KILLED),
    "a loop in C without end": Attack("max(itertools.count())", "timeout", KILLED),
    "masked signals": Attack(
        "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\n        while True: pass", "timeout", KILLED
    ),
    "a zip bomb": Attack("zip_bomb()", "(memory-exceeded|timeout)", f"({NO_MEMORY}|{KILLED})"),
    "a nested zip bomb": Attack("[zlib.decompress(ZEROS) for _ in range(200)].count(0)", "memory-exceeded", NO_MEMORY),
    "a gigabyte of text": Attack("'x' * (1 << 30)", "memory-exceeded", NO_MEMORY),
    "a gigabyte returned": Attack("return ['x' * (1 << 26)] * 16", "(result-too-large|memory-exceeded)", ""),
    "a result too large": Attack("return 'x' * (1 << 20)", "result-too-large", "at most 262144 are allowed"),
    "a monkeypatched builtin": Attack("builtins.len = lambda _: 666; raise OSError('patched')", "script-raised", "OSE"),
    "a monkeypatched module": Attack(
        "json.dumps = None; raise OSError('patched')", "script-raised", "OSError: patched"
    ),
    "an answer for a neighbour": Attack("answer_for(2)", "script-crashed", FORGED),
    "an answer for the one before": Attack("answer_for(0)", "script-crashed", FORGED),
    "closing the result descriptor": Attack("os.close(3)", "script-crashed", ""),
    "another file as the result descriptor": Attack("os.dup2(0, 3)", "script-crashed", ""),
    "os._exit": Attack("os._exit(0)", "script-crashed", "the process ended itself with status 0"),
    "sys.exit": Attack("sys.exit(0)", "script-exited", "SystemExit: the code called sys.exit"),
    "an exit at exit": Attack(
        "atexit.register(os._exit, 0); sys.exit()", "script-exited", "SystemExit: the code called sys.exit"
    ),
    "an answer at exit": Attack("atexit.register(answer_for, 2); os._exit(3)", "script-crashed", "status 3"),
    "a destructor without end": Attack("Trap(); raise OSError('trapped')", "timeout", KILLED),
    "a result that lies about itself": Attack(
        "return type('D', (dict,), {'__len__': lambda self: 0, 'x': 1})(a={1})", "not-json-serialisable", "'a' is a set"
    ),
}


def source_of(attack: Attack) -> str:
    return (
        f"{PREFIX}\ndef evaluate(inputs, outputs, trace):\n    if inputs == 'attack':\n        {attack.statements}\n"
        "    return {'inputs': inputs, 'len': len(outputs), 'dumped': json.dumps([inputs])}\n"
    )


def files() -> set[str]:
    """Return the names of what lies in the places that every process can write to, but for that of the tests."""
    found = [entry.name for place in SHARED_PLACES if Path(place).is_dir() for entry in Path(place).iterdir()]
    return {name for name in found if "attack" in name} | {entry.name for entry in Path.cwd().glob("core*")}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine() -> AsyncIterator[Engine]:
    """An engine over one sandbox, which every attack of this page meets in turn."""
    runner = await SandboxRunner.start(workers=2, minimum="no-landlock")
    started = Engine({"python": runner}, FixedClock(), LIMITS)
    await evaluated(started, STRANGER, [SECRET], project_id="other")
    zygotes, descriptors = runner.zygote_pids, len(os.listdir("/proc/self/fd"))
    idle = len(own_descendants())
    try:
        yield started
        assert runner.zygote_pids == zygotes
        await asyncio.to_thread(wait_for, lambda: len(own_descendants()) <= idle, "the children to end")
        assert len(os.listdir("/proc/self/fd")) <= descriptors
    finally:
        await runner.close()


async def evaluated(engine: Engine, source: str, inputs: Sequence[str], project_id: str = "p") -> list[Check]:
    rows = [Row(inputs=each, outputs="an answer") for each in inputs]
    checks = await engine.evaluate(revision_of(source, project_id=project_id), rows)
    assert len(checks) == len(rows)
    assert all(isinstance(check, Check) for check in checks), checks
    return [check for check in checks if isinstance(check, Check)]


@pytest.mark.parametrize("name", ATTACKS)
async def test_the_attack_is_contained_and_named_and_leaves_nothing(engine: Engine, name: str) -> None:
    attack = ATTACKS[name]
    before = files()
    (first, attacked, last), [stranger] = await asyncio.gather(
        evaluated(engine, source_of(attack), ["first", "attack", "last"]),
        evaluated(engine, STRANGER, [SECRET], project_id="other"),
    )
    for check, inputs in ((first, "first"), (last, "last")):
        assert check.reading.metrics == {"inputs": inputs, "len": 9, "dumped": f'["{inputs}"]'}, check.reading
    assert stranger.reading.metrics == {"secret": True, "len": 3}
    error = attacked.reading.error
    assert error is not None, attacked.reading
    assert re.fullmatch(attack.kind, error.kind), error
    assert re.search(attack.message, error.message), error
    assert SECRET not in repr(attacked)
    assert files() == before

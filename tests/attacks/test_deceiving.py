"""Attacks on what is believed: results of others, the harness, and what one evaluation leaves to the next."""

import pytest

from assay.domain.outcome import Limits, Raised, Returned
from assay.runners.sandbox.runner import SandboxRunner
from support.sandbox import run, value_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATCHES = {
    "builtins": "import builtins; builtins.len = lambda _: 666",
    "a deleted builtin": "import builtins; del builtins.len",
    "__builtins__": "__builtins__['len'] = lambda _: 666",
    "a new builtin": "import builtins; builtins.extra = 666",
    "module globals": "global LEFT; LEFT = 666",
    "its own module": "import sys; sys.modules['evaluator'].LEFT = 666",
    "stdout": "import sys; sys.stdout = sys.stderr = None",
    "a closed stdout": "import sys; sys.stdout.close()",
    "the recursion limit": "import sys; sys.setrecursionlimit(60)",
    "its arguments": "inputs.clear(); inputs['step'] = 'patch'",
}


@pytest.mark.parametrize("what", PATCHES)
async def test_a_patch_is_not_seen_by_the_next_evaluation(runner: SandboxRunner, what: str) -> None:
    source = f"""
LEFT = 1
def depth(n):
    return n and depth(n - 1)
def evaluate(inputs, outputs, trace):
    if inputs["step"] == "patch":
        {PATCHES[what]}
        return 0
    depth(100)
    print("seen")
    return [len(outputs), LEFT, "extra" in dir(__import__("builtins"))]
"""
    outcomes = await run(runner, source, {"step": "patch"}, {"step": "look"}, {"step": "look"})
    for outcome in outcomes[1:]:
        assert isinstance(outcome, Returned), outcome
        assert outcome.value == [9, 1, False]
        assert outcome.logs == "seen\n"


@pytest.mark.parametrize(
    ("patch", "look"),
    [
        ("json.dumps = lambda _: 'patched'", "json.dumps('plain')"),
        ("json.encoder.ESCAPE_DCT['p'] = 'patched'", "json.encoder.ESCAPE_DCT.get('p', 'plain')"),
        ("statistics.mean = lambda _: 'patched'", "'plain' if statistics.mean([1, 3]) == 2 else 'patched'"),
        ("decimal.getcontext().prec = 2", "'plain' if decimal.getcontext().prec == 28 else 'patched'"),
        ("sys.left = 1", "getattr(sys, 'left', 'plain')"),
        ("os.environ['LEFT'] = 'patched'", "os.environ.get('LEFT', 'plain')"),
    ],
)
async def test_a_patch_of_a_module_is_not_seen_by_the_next_evaluation(
    runner: SandboxRunner, patch: str, look: str
) -> None:
    source = f"""
import decimal, json, os, statistics, sys
def evaluate(inputs, outputs, trace):
    if inputs == "patch":
        {patch}
    return [{look}]
"""
    outcomes = await run(runner, source, "look", "patch", "look", "look")
    seen = ["plain" in str(outcome.value) for outcome in outcomes if isinstance(outcome, Returned)]
    assert seen == [True, False, True, True]


async def test_nothing_is_left_to_another_batch(runner: SandboxRunner) -> None:
    source = """
import json, sys
def evaluate(inputs, outputs, trace):
    seen = getattr(sys, "left", None), getattr(json, "left", None)
    sys.left = json.left = inputs
    json.dumps = None
    return seen
"""
    for secret in ("first", "second"):
        assert await value_of(runner, source, secret) == [None, None]


SEARCH = """
import gc, mmap
def evaluate(inputs, outputs, trace):
    wanted = "".join(reversed(inputs))
    found = []
    for each in gc.get_objects():
        for inner in [each, *gc.get_referents(each)]:
            if isinstance(inner, mmap.mmap):
                inner = inner[:]
            if isinstance(inner, memoryview):
                inner = inner.tobytes()
            if isinstance(inner, (bytes, bytearray)) and wanted.encode() in inner:
                found.append(type(inner).__name__)
            if type(inner) is str and inner != wanted and wanted in inner:
                found.append(inner)
    return found
"""


async def test_another_projects_data_is_nowhere_in_memory(runner: SandboxRunner) -> None:
    marker = "the-secret-of-the-first-project"
    source = f"def evaluate(inputs, outputs, trace):\n    '{marker}'\n    print(inputs)\n    return inputs"
    [before] = await run(runner, source, marker, project_id="first")
    assert before.logs == f"{marker}\n"
    backwards = marker[::-1]
    assert await value_of(runner, SEARCH, backwards, project_id="second", number=2) == []


FORGERIES = {
    "garbage": "write(b'x' * 100)",
    "one byte": "write(b'x')",
    "an answer for the next": "write(frame(1) + b'0.5')",
    "an answer for itself and the next": "write(frame(0) + b'0.5' + frame(1) + b'0.5')",
    "an answer for everyone": "write(b''.join(frame(n) + b'0.5' for n in range(3)))",
    "an answer for itself, and the end": "write(frame(0) + b'0.5'); os._exit(0)",
    "an answer for everyone, and the end": "write(b''.join(frame(n) + b'0.5' for n in range(3))); os._exit(0)",
    "an answer for itself, and a hang": "write(frame(0) + b'0.5')\n        while True: pass",
    "an answer beyond the batch": "write(b''.join(frame(n) + b'0.5' for n in range(4)))",
}
FORGER = """
import gc, os, struct, sys

def harness():
    frame = sys._getframe()
    while frame and "batch_id" not in frame.f_locals:
        frame = frame.f_back
    return frame.f_locals

def frame(number):
    return struct.pack("<8sIBfIII", harness()["batch_id"], number, 0, 0.0, 0, 3, 0)

def write(data):
    os.write(3, data)
"""


@pytest.mark.parametrize("what", FORGERIES)
async def test_a_forged_result_is_found_out_and_alone_blamed(runner: SandboxRunner, what: str) -> None:
    source = f"""{FORGER}
def evaluate(inputs, outputs, trace):
    if inputs == 0:
        {FORGERIES[what]}
    return inputs
"""
    outcomes = await run(runner, source, 0, 1, 2, limits=Limits(wall_s=1))
    assert isinstance(outcomes[0], Raised), outcomes[0]
    assert outcomes[0].type == "ForgedResult"
    assert [outcome.value for outcome in outcomes if isinstance(outcome, Returned)] == [1, 2]


@pytest.mark.parametrize(
    "payload",
    [b"NaN", b"[" * 5000 + b"]" * 5000, b'"\xff"', b"{", b"1e999", b"[1]" * 9],
    ids=["NaN", "deep", "not text", "cut off", "infinite", "more than one"],
)
async def test_a_forged_value_that_is_no_json_is_refused(runner: SandboxRunner, payload: bytes) -> None:
    source = f"""{FORGER}
def evaluate(inputs, outputs, trace):
    raw = bytes.fromhex(inputs)
    head = struct.pack("<8sIBfIII", harness()["batch_id"], 0, 0, float("nan"), 0, len(raw), 0)
    write(head + raw)
    os._exit(0)
"""
    [outcome] = await run(runner, source, payload.hex())
    assert isinstance(outcome, Raised)
    assert outcome.type == "ForgedResult"


SABOTAGE: dict[str, str] = {
    "its encoder": "worker._dumps = lambda value: b'0.5'",
    "its builtins": "import builtins; builtins.__dict__.clear()",
    "its modules": "sys.modules.clear()",
    "os._exit": "os._exit = lambda status: None",
    "its frames": "[frame.clear() for frame in []]; harness().clear()",
    "its results": "harness()['pending'].clear()",
    "a trace function": "sys.settrace(lambda *_: 1 / 0)",
    "a profile function": "sys.setprofile(lambda *_: 1 / 0)",
}


@pytest.mark.parametrize("what", SABOTAGE)
async def test_sabotage_of_the_harness_does_not_outlive_the_batch(runner: SandboxRunner, what: str) -> None:
    source = f"""{FORGER}
def evaluate(inputs, outputs, trace):
    worker = sys.modules["assay.runners.children.worker_python"]
    {SABOTAGE[what]}
    return 0.25
"""
    await run(runner, source, None)
    honest = "def evaluate(inputs, outputs, trace):\n    return 0.75"
    assert await value_of(runner, honest, None, number=2) == 0.75


LIES = {
    "a message that raises": "class E(Exception):\n    def __str__(self): raise SystemExit(0)",
    "a message without end": "class E(Exception):\n    def __str__(self): return 'x' * (1 << 24)",
    "a name of its own": "E = type('E' * 100000, (Exception,), {})",
    "a traceback of its own": "class E(Exception):\n    __traceback__ = property(lambda self: 1 / 0)",
    "a class of its own": "class E(Exception):\n    __class__ = property(lambda self: 1 / 0)",
    "half a surrogate": "class E(Exception):\n    def __str__(self): return chr(0xd800)",
    "no exception": "E = GeneratorExit",
    "an interrupt": "E = KeyboardInterrupt",
}


@pytest.mark.parametrize("what", LIES)
async def test_an_exception_that_lies_is_the_error_of_its_own_evaluation(runner: SandboxRunner, what: str) -> None:
    source = f"{LIES[what]}\ndef evaluate(inputs, outputs, trace):\n    if inputs:\n        raise E\n    return 1"
    outcomes = await run(runner, source, 0, 1, 0)
    assert isinstance(outcomes[1], Raised)
    assert len(outcomes[1].message) < 10000
    assert [outcome.value for outcome in outcomes if isinstance(outcome, Returned)] == [1, 1]

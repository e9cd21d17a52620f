"""The sandbox runner: what it returns, whom it blames, and how it goes on."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from assay.domain.outcome import Call, Exceeded, Limits, Raised, Returned, Unavailable
from assay.errors import SandboxUnavailableError
from assay.runners.sandbox import doctor
from assay.runners.sandbox.runner import SandboxRunner
from support.runners import ladder_runner
from support.sandbox import LADDER, call_of, calls_of, is_running, own_descendants, revision_of, run, value_of
from support.server import wait_for

pytestmark = pytest.mark.asyncio(loop_scope="module")

ECHO = "def evaluate(inputs, outputs, trace):\n    return inputs"
SPIN = "def evaluate(inputs, outputs, trace):\n    while True: pass"


runner = ladder_runner(workers=2)


@pytest_asyncio.fixture(loop_scope="module")
async def own_runner() -> AsyncIterator[SandboxRunner]:
    """A runner that a test may break."""
    started = await SandboxRunner.start(workers=1, minimum="no-landlock")
    try:
        yield started
    finally:
        await started.close()


JSON_VALUES: list[Any] = [
    True, 0, 0.5, "text", None, [], {}, {"a": {"b": [1, None]}}, "ünï\u0000 🚢", 2**63, -(2**63), 1e300, [[[]]],
]  # fmt: skip


@pytest.mark.parametrize("value", JSON_VALUES)
async def test_json_values_come_back_as_they_went(runner: SandboxRunner, value: Any) -> None:
    found = await value_of(runner, ECHO, value)
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("(1, 2)", [1, 2]),
        ("{'point': Point(1, Point(2, 3))}", {"point": {"x": 1, "y": {"x": 2, "y": 3}}}),
        ("{'kind': Colour.RED}", {"kind": "red"}),
        ("collections.OrderedDict(a=1)", {"a": 1}),
        ("collections.Counter('aab')", {"a": 2, "b": 1}),
        ("Scalar()", 0.25),
        ("{'score': Scalar()}", {"score": 0.25}),
    ],
)
async def test_what_json_can_carry_becomes_plain(runner: SandboxRunner, expression: str, value: Any) -> None:
    source = f"""
from __future__ import annotations
import collections, enum
from dataclasses import dataclass

@dataclass
class Point:
    x: int
    y: Point | int

class Colour(str, enum.Enum):
    RED = "red"

class Scalar:
    def item(self): return 0.25
Scalar.__module__ = "numpy"

def evaluate(inputs, outputs, trace):
    return {expression}
"""
    assert await value_of(runner, source) == value


@pytest.mark.parametrize(
    ("expression", "kind", "said"),
    [
        ("float('nan')", "non-finite", "nan"),
        ("{'a': {'b': float('inf')}}", "non-finite", "a.b"),
        ("{1: 2}", "non-string-key", "int"),
        ("{'a': {1, 2}}", "not-json-serialisable", "set"),
        ("{'a': object()}", "not-json-serialisable", "object"),
        ("{'a': evaluate}", "not-json-serialisable", "function"),
        ("{1, 2}", "unsupported-return-type", "set"),
        ("(x for x in [])", "unsupported-return-type", "generator"),
        ("b'bytes'", "unsupported-return-type", "bytes"),
        ("{'a': '\\ud800'}", "bad-unicode", "a"),
        ("{'a': nested(70)}", "too-deep", "64"),
        ("1 << 100000", "not-json-serialisable", "digits"),
    ],
)
async def test_what_json_cannot_carry_is_refused_by_kind(
    runner: SandboxRunner, expression: str, kind: str, said: str
) -> None:
    source = f"""
def nested(depth):
    return [nested(depth - 1)] if depth else 0
def evaluate(inputs, outputs, trace):
    return {expression}
"""
    [outcome] = await run(runner, source, None)
    assert isinstance(outcome, Raised)
    assert outcome.kind == kind
    assert said in outcome.message


async def test_an_exception_tells_type_message_and_the_authors_own_lines(runner: SandboxRunner) -> None:
    source = (
        "def inner(text):\n    return int(text)\n\ndef evaluate(inputs, outputs, trace):\n    return inner(outputs)\n"
    )
    [outcome] = await run(runner, source, None)
    assert isinstance(outcome, Raised)
    assert (outcome.kind, outcome.type, outcome.line) == ("script-raised", "ValueError", 2)
    assert outcome.message == "invalid literal for int() with base 10: 'an answer'"
    assert outcome.traceback is not None
    assert outcome.traceback.splitlines() == [
        "Traceback (most recent call last):",
        '  File "evaluator.py", line 5, in evaluate',
        "    return inner(outputs)",
        '  File "evaluator.py", line 2, in inner',
        "    return int(text)",
        "ValueError: invalid literal for int() with base 10: 'an answer'",
    ]


@pytest.mark.parametrize(
    ("source", "kind", "line"),
    [
        ("def evaluate(:\n", "syntax-error", 1),
        ("x = 1\nif x:\npass\n", "syntax-error", 3),
        ("x = 1", "entry-point-missing", None),
        ("import not_there\n" + ECHO, "script-raised", 1),
        ("\n\n1 / 0", "script-raised", 3),
        ("import sys\nsys.exit(3)", "script-exited", 2),
        ("def evaluate():\n    return 1", "script-raised", None),
        ("def evaluate(a, b, c):\n    return evaluate(a, b, c)", "script-raised", 2),
        ("evaluate = 3", "script-raised", None),
    ],
)
async def test_a_source_that_cannot_be_called_says_why(
    runner: SandboxRunner, source: str, kind: str, line: int | None
) -> None:
    [outcome] = await run(runner, source, None)
    assert isinstance(outcome, Raised)
    assert (outcome.kind, outcome.line) == (kind, line)


@pytest.mark.parametrize(
    "source",
    [
        "async def evaluate(inputs, outputs, trace):\n    return 7",
        "import asyncio\nasync def evaluate(inputs, outputs, trace):\n    await asyncio.sleep(0.01)\n    return 7",
        "import asyncio\nasync def one(n):\n    await asyncio.sleep(0)\n    return n\n"
        "async def evaluate(inputs, outputs, trace):\n    return sum(await asyncio.gather(one(3), one(4)))",
        "class Check:\n    def __call__(self, inputs, outputs, trace):\n        return 7\nevaluate = Check()",
        "evaluate = lambda inputs, outputs, trace: 7",
        "import re, json, math, statistics, datetime, collections, itertools, functools, string, random, difflib\n"
        "def evaluate(inputs, outputs, trace):\n    return int(statistics.mean([6, 8]))",
        "assert __name__ == 'evaluator'\nimport pickle\nclass A: pass\n"
        "def evaluate(inputs, outputs, trace):\n    pickle.loads(pickle.dumps(A()))\n    return 7",
        "LEVELS = 900\ndef down(n):\n    return n and down(n - 1)\n"
        "def evaluate(inputs, outputs, trace):\n    return down(LEVELS) + 7",
        "\ufeffdef evaluate(inputs, outputs, trace):\n    return 7",
    ],
)  # fmt: skip
async def test_ordinary_python_runs(runner: SandboxRunner, source: str) -> None:
    assert await value_of(runner, source) == 7


MODULES = {
    "helpers, recursion and a generator": """
from collections.abc import Iterator

def leaves(tree: dict) -> Iterator[int]:
    for value in tree.values():
        yield from leaves(value) if isinstance(value, dict) else [value]

def depth(tree) -> int:
    return 1 + max(map(depth, tree.values()), default=0) if isinstance(tree, dict) else 0

def evaluate(inputs, outputs, trace):
    return sum(leaves({"a": 1, "b": {"c": 2}})) + depth({"a": {"b": {"c": {}}}})
""",
    "dataclasses under postponed annotations": """
from __future__ import annotations
import typing
from dataclasses import dataclass, field, replace

@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class Node:
    value: int
    children: list[Node] = field(default_factory=list)
    limit: typing.ClassVar[int] = 9

    def total(self: Node) -> int:
        return self.value + sum(child.total() for child in self.children)

def evaluate(inputs: Inputs, outputs, trace) -> Absent:
    assert typing.get_type_hints(Node)["children"] == list[Node]
    return replace(Node(value=1, children=[Node(value=2)]), value=5).total()
""",
    "classes of every kind": """
import abc, enum, functools, typing

class Rule(abc.ABC):
    made: typing.ClassVar[list[str]] = []
    def __init_subclass__(cls, **options): Rule.made.append(cls.__name__)
    @abc.abstractmethod
    def score(self) -> int: ...

class Short(Rule):
    def __init__(self, text): super().__init__(); self.text = text
    @property
    def size(self): return len(self.text)
    @functools.cached_property
    def half(self): return self.size // 2
    @classmethod
    def of(cls, text): return cls(text)
    def score(self): return self.half

class Grade(enum.IntEnum):
    LOW, HIGH = 1, 2

class Pair(typing.NamedTuple):
    left: int
    right: int = 3

def evaluate(inputs, outputs, trace):
    assert Rule.made == ["Short"]
    match Pair(Short.of("abcd").score()):
        case Pair(left=2, right=right):
            return Grade.HIGH + left_over(right)

def left_over(right): return right + 2
""",
    "decorators, closures and a cache": """
import functools

def counted(function):
    calls = 0
    @functools.wraps(function)
    def inner(*arguments):
        nonlocal calls
        calls += 1
        inner.calls = calls
        return function(*arguments)
    return inner

@counted
@functools.cache
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)

def evaluate(inputs, outputs, trace):
    assert fib.__name__ == "fib"
    return fib(5) + (fib.calls > 1) + 1
""",
    "async helpers": """
import contextlib

class Window:
    async def __aenter__(self): return 3
    async def __aexit__(self, *_): return False

@contextlib.asynccontextmanager
async def opened(value):
    yield value

async def numbers(count):
    for number in range(count):
        yield number

async def double(number): return number * 2

async def evaluate(inputs, outputs, trace):
    async with Window() as three, opened(1) as one:
        return three + one + sum([await double(n) async for n in numbers(2)]) + 1
""",
    "a name of its own": """
import sys, inspect
class A: pass
def evaluate(inputs, outputs, trace):
    assert __name__ == A.__module__ == evaluate.__module__ == "evaluator"
    assert sys.modules[__name__].evaluate is evaluate
    return 7 if __name__ != "__main__" else 0
""",
}


@pytest.mark.parametrize("kind", MODULES)
async def test_a_module_may_hold_what_python_knows(runner: SandboxRunner, kind: str) -> None:
    outcomes = await run(runner, MODULES[kind], None, None)
    assert [outcome.value for outcome in outcomes if isinstance(outcome, Returned)] == [7, 7], outcomes


async def test_a_handler_reads_spans_by_type_and_gets_copies(runner: SandboxRunner) -> None:
    source = """
async def handler(input, output, expected, metadata, trace):
    everything = await trace.get_spans()
    everything[0]["name"] = everything[1].metadata["x"] = "changed"
    llm = (await trace.get_spans(span_type="llm"))[0]
    return {
        "score": 1,
        "name": llm["model"] + llm.model,
        "metadata": {
            "arguments": [input, output, expected, metadata],
            "all": [span.name for span in await trace.get_spans()],
            "inner": (await trace.get_spans("tool"))[0].metadata,
            "some": [span.type for span in await trace.get_spans(["tool", "llm"])],
            "none": await trace.get_spans([]),
        },
    }
"""
    spans: list[dict[str, Any]] = [
        {"name": "root", "type": "span", "model": None, "metadata": {}},
        {"name": "look", "type": "tool", "model": None, "metadata": {"x": 1}},
        {"name": "chat", "type": "llm", "model": "m", "metadata": {}},
    ]
    call = call_of("in", "out", None, {"user": "u"}, spans)
    [outcome] = await runner.execute(revision_of(source, "handler"), [call], Limits())
    assert isinstance(outcome, Returned), outcome
    assert outcome.value == {
        "score": 1,
        "name": "mm",
        "metadata": {
            "arguments": ["in", "out", None, {"user": "u"}],
            "all": ["root", "look", "chat"],
            "inner": {"x": 1},
            "some": ["tool", "llm"],
            "none": [],
        },
    }


async def test_a_missing_span_field_names_those_there_are(runner: SandboxRunner) -> None:
    source = "async def handler(i, o, e, m, trace):\n    return (await trace.get_spans())[0].cost"
    [outcome] = await runner.execute(
        revision_of(source, "handler"), [call_of(1, 2, None, {}, [{"name": "root"}])], Limits()
    )
    assert isinstance(outcome, Raised)
    assert (outcome.type, outcome.line) == ("AttributeError", 2)
    assert "'cost'" in outcome.message
    assert "name" in outcome.message


async def test_an_argument_that_is_only_seen_through_a_frame_is_still_there(runner: SandboxRunner) -> None:
    source = "def evaluate(inputs, outputs, trace):\n    return sorted(locals().items(), key=str)[2][1]"
    [outcome] = await runner.execute(revision_of(source), [call_of(1, 2, {"seen": True})], Limits())
    assert isinstance(outcome, Returned)
    assert outcome.value == {"seen": True}


async def test_logs_are_those_of_each_evaluation_and_cut_with_a_mark(runner: SandboxRunner) -> None:
    source = """
import sys
def evaluate(inputs, outputs, trace):
    print("ü" * inputs)
    print("aside", file=sys.stderr)
    return 1 / (inputs != 2)
"""
    limits = Limits(log_bytes=100)
    outcomes = await run(runner, source, 1, 2, 1000, 0, limits=limits)
    assert [outcome.logs for outcome in outcomes[:2]] == ["ü\naside\n", "üü\naside\n"]
    assert outcomes[2].logs.startswith("ü" * 50 + "\n[logs cut: 2007 bytes were printed, 100 are kept]")
    assert outcomes[3].logs == "\naside\n"


async def test_what_was_printed_before_a_hang_or_a_crash_is_kept(runner: SandboxRunner) -> None:
    source = """
import os
def evaluate(inputs, outputs, trace):
    print("before", inputs)
    while inputs == 1: pass
    os._exit(inputs) if inputs else None
"""
    outcomes = await run(runner, source, 0, 1, 2, limits=Limits(wall_s=0.3))
    assert [outcome.logs for outcome in outcomes] == ["before 0\n", "before 1\n", "before 2\n"]
    assert isinstance(outcomes[1], Exceeded)
    assert isinstance(outcomes[2], Raised)
    assert "status 2" in outcomes[2].message


async def test_a_payload_over_its_budget_is_refused_alone(runner: SandboxRunner) -> None:
    outcomes = await run(runner, ECHO, "x" * 2000, "y", limits=Limits(payload_bytes=1000))
    assert isinstance(outcomes[0], Exceeded)
    assert outcomes[0].budget == "payload"
    assert "1000" in outcomes[0].message
    assert outcomes[1] == Returned(value="y", duration_s=outcomes[1].duration_s)


async def test_a_payload_of_several_megabytes_passes(runner: SandboxRunner) -> None:
    source = "def evaluate(inputs, outputs, trace):\n    return len(inputs)"
    limits = Limits()
    outcomes = await run(runner, source, *["x" * 5_000_000] * 3, limits=limits)
    assert [outcome.value for outcome in outcomes if isinstance(outcome, Returned)] == [5_000_000] * 3


async def test_a_payload_beyond_the_memory_budget_breaches_it_alone(runner: SandboxRunner) -> None:
    source = "def evaluate(inputs, outputs, trace):\n    return len(inputs)"
    limits = Limits(memory_bytes=16 << 20, payload_bytes=64 << 20)
    outcomes = await run(runner, source, "x", "x" * (40 << 20), "xx", limits=limits)
    assert isinstance(outcomes[1], Exceeded)
    assert outcomes[1].budget == "memory"
    assert [outcome.value for outcome in outcomes if isinstance(outcome, Returned)] == [1, 2]


async def test_a_thousand_calls_come_back_in_their_order(runner: SandboxRunner) -> None:
    source = (
        "def evaluate(inputs, outputs, trace):\n    if inputs % 100 == 7: raise ValueError(inputs)\n    return inputs"
    )
    outcomes = await run(runner, source, *range(1000))
    assert [outcome.value for outcome in outcomes if isinstance(outcome, Returned)] == [
        number for number in range(1000) if number % 100 != 7
    ]
    assert [outcome.message for outcome in outcomes if isinstance(outcome, Raised)] == [
        str(number) for number in range(7, 1000, 100)
    ]


async def test_each_of_many_crashes_is_blamed_on_its_own_evaluation(runner: SandboxRunner) -> None:
    source = "import os\ndef evaluate(inputs, outputs, trace):\n    return os._exit(1) if inputs % 3 == 0 else inputs"
    outcomes = await run(runner, source, *range(30), limits=Limits(wall_s=8))
    assert [type(outcome) for outcome in outcomes] == [Raised, Returned, Returned] * 10


async def test_revisions_and_projects_run_side_by_side_without_mixing(runner: SandboxRunner) -> None:
    sources = [f"def evaluate(inputs, outputs, trace):\n    return [{n}, inputs]" for n in range(6)]
    answers = await asyncio.gather(
        *[run(runner, source, *range(50), number=n, project_id=f"p{n % 2}") for n, source in enumerate(sources)]
    )
    for n, outcomes in enumerate(answers):
        assert [outcome.value for outcome in outcomes if isinstance(outcome, Returned)] == [[n, i] for i in range(50)]


async def test_the_same_id_with_another_source_is_another_program(runner: SandboxRunner) -> None:
    first, second = "def evaluate(i, o, t):\n    return 1", "def evaluate(i, o, t):\n    return 2"
    answers = await asyncio.gather(*[run(runner, source, *[None] * 40) for source in (first, second)])
    assert [[outcome.value for outcome in found if isinstance(outcome, Returned)] for found in answers] == [
        [1] * 40,
        [2] * 40,
    ]


async def test_evaluators_that_hang_do_not_hold_up_others(runner: SandboxRunner) -> None:
    hanging = [
        asyncio.create_task(run(runner, SPIN, *range(20), limits=Limits(wall_s=30), number=n, project_id="slow"))
        for n in range(6)
    ]
    await asyncio.sleep(0.3)
    assert await asyncio.wait_for(value_of(runner, ECHO, "quick", number=50), 10) == "quick"
    assert await asyncio.wait_for(value_of(runner, ECHO, "quick", number=50, project_id="slow"), 10) == "quick"
    assert not any(task.done() for task in hanging)
    for task in hanging:
        task.cancel()
    await asyncio.gather(*hanging, return_exceptions=True)


async def test_a_cancelled_execute_ends_its_children(own_runner: SandboxRunner) -> None:
    idle = len(own_descendants())
    task = asyncio.create_task(run(own_runner, SPIN, *range(10), limits=Limits(wall_s=60)))
    await asyncio.to_thread(wait_for, lambda: len(own_descendants()) > idle, "a child")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.to_thread(wait_for, lambda: len(own_descendants()) == idle, "its end")
    assert await value_of(own_runner, ECHO, 3) == 3


async def test_a_killed_zygote_is_replaced_and_its_evaluations_run_again(own_runner: SandboxRunner) -> None:
    task = asyncio.create_task(
        run(
            own_runner,
            "import time\ndef evaluate(i, o, t):\n    time.sleep(0.5)\n    return i",
            *range(3),
            limits=Limits(wall_s=20),
        )
    )
    await asyncio.sleep(0.3)
    [old] = own_runner.zygote_pids
    os.kill(old, signal.SIGKILL)
    outcomes = await asyncio.wait_for(task, 30)
    assert [outcome.value for outcome in outcomes if isinstance(outcome, Returned)] == [0, 1, 2]
    assert own_runner.zygote_pids != [old]


async def test_zygotes_that_keep_dying_are_our_fault(own_runner: SandboxRunner) -> None:
    task = asyncio.create_task(run(own_runner, SPIN, None, limits=Limits(wall_s=60)))
    killed: set[int] = set()
    while not task.done():
        for pid in own_runner.zygote_pids:
            if pid not in killed and is_running(pid):
                killed.add(pid)
                await asyncio.sleep(0.2)
                os.kill(pid, signal.SIGKILL)
        await asyncio.sleep(0.05)
    [outcome] = await task
    assert isinstance(outcome, Unavailable)
    assert "sandbox process" in outcome.cause


async def test_closing_ends_everything_and_leaves_the_rest_unavailable() -> None:
    before = own_descendants()
    started = await SandboxRunner.start(workers=2, minimum="no-landlock")
    tasks = [
        asyncio.create_task(run(started, SPIN, *range(5), limits=Limits(wall_s=60), number=number)) for number in (1, 2)
    ]
    await asyncio.sleep(0.2)
    await started.close()
    for outcomes in await asyncio.gather(*tasks):
        assert all(isinstance(outcome, Unavailable) for outcome in outcomes)
    [late] = await run(started, ECHO, 1, number=9)
    assert isinstance(late, Unavailable)
    wait_for(lambda: own_descendants() <= before, "the processes to end")


async def test_nothing_to_do_is_done(runner: SandboxRunner) -> None:
    assert await runner.execute(revision_of(ECHO), [], Limits()) == []


@pytest.mark.parametrize(
    ("source", "names"),
    [
        (ECHO, {"evaluate": 3}),
        ("async def handler(input, output, *rest): ...", {"handler": None}),
        ("import re\nfrom math import pi as p\nX = 1\nclass A: ...", {"re": None, "p": None, "X": None, "A": None}),
        ("if True:\n    def evaluate(a): ...\nelse:\n    evaluate = lambda a, b: 1", {"evaluate": 2}),
    ],
)
async def test_inspection_names_what_a_source_binds(
    runner: SandboxRunner, source: str, names: dict[str, int | None]
) -> None:
    inspection = await runner.inspect("python", source)
    assert (inspection.names, inspection.defect) == (names, None)


@pytest.mark.parametrize(
    ("source", "line"), [("x = (", 1), ("a\n b", 2), ("\x00", None), ("(" * 5000, None), ("-" * 100000 + "1", None)]
)
async def test_inspection_reports_a_defect_with_its_line(runner: SandboxRunner, source: str, line: int | None) -> None:
    defect = (await runner.inspect("python", source)).defect
    assert defect is not None
    assert defect.kind == "syntax-error"
    assert line is None or defect.line == line


async def test_the_description_names_the_layers(runner: SandboxRunner) -> None:
    assert runner.description in {
        "sandbox (namespaces+landlock+seccomp+rlimits)",
        "sandbox (landlock+seccomp+rlimits)",
        "sandbox (seccomp+rlimits)",
    }


async def test_a_machine_below_the_minimum_is_refused_with_the_setting_that_allows_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor, "RUNGS", LADDER[1:])
    with pytest.raises(SandboxUnavailableError, match="ASSAY_SANDBOX_MINIMUM=no-namespaces"):
        await SandboxRunner.start(workers=1, minimum="full")
    started = await SandboxRunner.start(workers=1, minimum="no-namespaces")
    assert started.description == "sandbox (landlock+seccomp+rlimits)"
    await started.close()


async def test_a_kernel_without_landlock_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "landlock_abi", lambda: 0)
    with pytest.raises(SandboxUnavailableError, match=r"Landlock.*ASSAY_SANDBOX_MINIMUM=no-landlock"):
        await SandboxRunner.start(workers=1)
    findings = {finding.name: finding.available for finding in await doctor.examine()}
    assert not findings["Landlock"]
    assert not findings["full"]
    assert not findings["no-namespaces"]
    assert findings["no-landlock"]


async def test_the_server_does_not_parse_what_it_ships(runner: SandboxRunner) -> None:
    """Whitespace and number spellings reach the code's own decoder untouched."""
    source = "def evaluate(inputs, outputs, trace):\n    return [inputs, outputs]"
    call = Call(arguments=(b' {"a" : 1.0e0} ', b'"\\u00fc"', b"null"))
    [outcome] = await runner.execute(revision_of(source), [call], Limits())
    assert isinstance(outcome, Returned)
    assert outcome.value == [{"a": 1.0}, "ü"]


async def test_many_small_executes_are_run_together(runner: SandboxRunner) -> None:
    answers = await asyncio.gather(
        *[runner.execute(revision_of(ECHO), calls_of(number), Limits()) for number in range(500)]
    )
    assert [outcome.value for [outcome] in answers if isinstance(outcome, Returned)] == list(range(500))


async def test_the_worker_carries_almost_nothing_of_ours(runner: SandboxRunner) -> None:
    source = """
import sys
def evaluate(inputs, outputs, trace):
    return sorted(name for name in sys.modules if name.partition(".")[0] not in sys.stdlib_module_names)
"""
    shared = (
        "batch", "bounds", "faults", "frames", "inspection", "inspection_imports", "languages", "plain",
        "worker_python", "zygote",
    )  # fmt: skip
    own = ("confine", "syscalls", "zygote")
    assert set(await value_of(runner, source)) == {
        "assay", "assay.runners", "assay.runners.children", *(f"assay.runners.children.{name}" for name in shared),
        "assay.runners.sandbox", *(f"assay.runners.sandbox.{name}" for name in own),
        "__main__", "evaluator", "orjson", "orjson.orjson",
    }  # fmt: skip


async def test_slow_evaluations_spread_over_the_workers(runner: SandboxRunner) -> None:
    source = "import os, time\ndef evaluate(inputs, outputs, trace):\n    time.sleep(0.06)\n    return os.getpid()"
    limits = Limits(wall_s=20)
    await run(runner, source, None, limits=limits)
    outcomes = await run(runner, source, *range(12), limits=limits)
    assert len({str(outcome.value) for outcome in outcomes if isinstance(outcome, Returned)}) > 2


async def test_spans_are_there_with_and_without_await(runner: SandboxRunner) -> None:
    source = (
        "async def handler(input, output, expected, metadata, trace):\n"
        "    awaited, plain = await trace.get_spans(span_type='llm'), trace.get_spans()\n"
        "    return {'score': 1, 'metadata': {'llm': len(awaited), 'all': len(plain), 'name': plain[0].name}}\n"
    )
    spans = b'[{"name": "root", "type": "span"}, {"name": "call", "type": "llm"}]'
    call = Call(arguments=(b'""', b'""', b"null", b"{}", spans))
    [outcome] = await runner.execute(revision_of(source, interface="handler"), [call], Limits())
    assert isinstance(outcome, Returned), outcome
    assert outcome.value == {"score": 1, "metadata": {"llm": 1, "all": 2, "name": "root"}}
    assert outcome.logs == ""

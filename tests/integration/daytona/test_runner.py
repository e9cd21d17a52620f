"""The runner of remote sandboxes, against a stand-in of the service on loopback."""

import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from assay.domain.breaker import FAILURES_TO_OPEN
from assay.domain.evaluator import Language
from assay.domain.outcome import Exceeded, Limits, Raised, Returned, Unavailable
from assay.runners.daytona.runner import DaytonaRunner
from assay.testing import RunnerConformance
from support.daytona_stand_in import KEY, DaytonaStandIn
from support.sandbox import call_of, revision_of, run, value_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPANS = [
    {"span_id": "root", "type": "span", "model": None, "name": "root"},
    {"span_id": "llm", "type": "llm", "model": "m-1", "name": "llm"},
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runner() -> AsyncIterator[DaytonaRunner]:
    async with DaytonaStandIn() as service:
        started = await DaytonaRunner.start(api_key=KEY, api_url=service.url)
        try:
            yield started
        finally:
            await started.close()


class TestConformance(RunnerConformance):
    pass


HANG: dict[Language, str] = {
    "python": "def evaluate(n, outputs, trace):\n    print('saw', n)\n    while n == 1: pass\n    return n\n",
    "javascript": "function evaluate(n) { console.log('saw', n); while (n === 1); return n; }",
    "typescript": "const evaluate = (n: number): number => { console.log('saw', n); while (n === 1); return n; }",
}


@pytest.mark.parametrize("language", HANG)
async def test_an_evaluation_that_hangs_is_blamed_alone_with_what_it_printed(
    runner: DaytonaRunner, language: Language
) -> None:
    before, hung, after = await run(
        runner, HANG[language], 0, 1, 2, language=language, limits=Limits(wall_s=1.0, cpu_s=60.0)
    )
    assert isinstance(hung, Exceeded)
    assert (hung.budget, hung.logs) == ("wall", "saw 1\n")
    assert [(each.value, each.logs) for each in (before, after) if isinstance(each, Returned)] == [
        (0, "saw 0\n"),
        (2, "saw 2\n"),
    ]


@pytest.mark.parametrize("language", HANG)
async def test_cpu_time_is_a_budget_of_its_own(runner: DaytonaRunner, language: Language) -> None:
    hung, after = await run(runner, HANG[language], 1, 2, language=language, limits=Limits(wall_s=60.0, cpu_s=0.5))
    assert isinstance(hung, Exceeded)
    assert hung.budget == "cpu"
    assert isinstance(after, Returned)


@pytest.mark.parametrize("language", HANG)
async def test_a_busy_loop_is_out_of_cpu_time_though_it_has_as_much_of_it_as_of_wall_time(
    runner: DaytonaRunner, language: Language
) -> None:
    [spun] = await run(runner, HANG[language], 1, language=language, limits=Limits(wall_s=1.0, cpu_s=1.0))
    assert isinstance(spun, Exceeded)
    used = re.search(r"it was stopped after [0-9.]+ s, with ([0-9.]+) s of CPU time used", spun.message)
    assert used is not None, spun.message
    # Out of wall time it is only where the machine was too full to let it use up the other.
    assert (spun.budget == "cpu") == (float(used[1]) >= 1.0)


async def test_a_batch_of_which_all_crashes_is_given_up(runner: DaytonaRunner) -> None:
    source = "import os\ndef evaluate(n, outputs, trace):\n    os.kill(os.getpid(), 11)\n"
    outcomes = await run(runner, source, *range(300))
    crashed = [outcome for outcome in outcomes if isinstance(outcome, Raised)]
    given_up = [outcome for outcome in outcomes if isinstance(outcome, Unavailable) and outcome.is_given_up]
    assert len(crashed) >= FAILURES_TO_OPEN
    assert len(given_up) >= 300 - 256
    assert len(crashed) + len(given_up) == 300


@pytest.mark.parametrize(
    ("language", "source"),
    [
        ("python", "def evaluate(n, outputs, trace):\n    return len('x' * 10**10) if n else 0.5\n"),
        ("javascript", "const evaluate = (n) => { const all = []; while (n) all.push({ n, all: [n] }); return 0.5; }"),
    ],
)
async def test_memory_is_a_budget(runner: DaytonaRunner, language: Language, source: str) -> None:
    greedy, modest = await run(runner, source, 1, 0, language=language, limits=Limits(memory_bytes=64 * 1024 * 1024))
    assert isinstance(greedy, Exceeded)
    assert greedy.budget == "memory"
    held = re.search(r"its process held ([0-9.]+) MiB at the most", greedy.message)
    assert held is not None, greedy.message
    assert float(held[1]) > 5
    assert isinstance(modest, Returned)


@pytest.mark.parametrize(
    ("language", "source"),
    [
        ("python", "def evaluate(n, outputs, trace):\n    return 'x' * n\n"),
        ("javascript", "const evaluate = (n) => 'x'.repeat(n)"),
    ],
)
async def test_a_result_that_is_too_large_is_named(runner: DaytonaRunner, language: Language, source: str) -> None:
    large, small = await run(runner, source, 300_000, 3, language=language)
    assert isinstance(large, Exceeded)
    assert large.budget == "result"
    assert isinstance(small, Returned)


async def test_logs_are_cut_with_a_mark(runner: DaytonaRunner) -> None:
    [outcome] = await run(
        runner, "def evaluate(n, o, t):\n    print('x' * 99)\n    return 1\n", 0, limits=Limits(log_bytes=10)
    )
    assert outcome.logs == "x" * 10 + "\n[logs cut: 100 bytes were printed, 10 are kept]"


FORGERIES = {
    "printing": 'print(\'\\n{"answers": [["answered", 0, 0.0, "MQ==", "", 0]]}\')',
    "the descriptor of standard output": "import os; os.write(1, b'forged\\n')",
    "the supervisor's descriptor": (
        "import os\n    try:\n        fd = os.open(f'/proc/{os.getppid()}/fd/1', os.O_WRONLY); os.write(fd, b'x\\n')\n"
        "    except OSError: pass"
    ),
    "at exit": "import atexit; atexit.register(print, 'forged')",
    "a thread": "import threading; threading.Thread(target=print, args=('forged',), daemon=True).start()",
    "a process": "import os\n    if os.fork() == 0:\n        os.setsid(); os.write(1, b'forged'); os._exit(0)",
}


@pytest.mark.parametrize("how", FORGERIES)
async def test_nothing_printed_is_taken_for_a_result(runner: DaytonaRunner, how: str) -> None:
    source = f"def evaluate(inputs, outputs, trace):\n    {FORGERIES[how]}\n    return 'mine'\n"
    outcomes = await run(runner, source, 0, 1)
    assert [outcome.value for outcome in outcomes if isinstance(outcome, Returned)] == ["mine", "mine"]


async def test_the_token_of_a_batch_is_nowhere_in_reach_of_the_code(runner: DaytonaRunner) -> None:
    source = """
import gc, os, sys
def evaluate(inputs, outputs, trace):
    found = [bytes(each) for each in gc.get_objects() if type(each) is bytearray and len(each) == 32]
    frame = sys._getframe()
    while frame:
        found += [bytes(v) for v in frame.f_locals.values() if type(v) is bytearray]
        for value in list(frame.f_locals.values()):
            for cell in getattr(value, "__closure__", None) or ():
                if type(cell.cell_contents) is bytearray:
                    found.append(bytes(cell.cell_contents))
        frame = frame.f_back
    left = [name for name in os.listdir() if name.startswith(".assay-") and "." not in name[1:]]
    return {"seen": [each.decode("latin-1") for each in found if each.strip(bytes(1))], "files": left}
"""
    assert await value_of(runner, source) == {"seen": [], "files": []}


async def test_code_that_kills_its_supervisor_is_blamed_and_its_neighbours_are_run_again(
    runner: DaytonaRunner,
) -> None:
    source = (
        "import os, signal\n"
        "def evaluate(n, o, t):\n    if n == 2: os.kill(os.getppid(), signal.SIGKILL)\n    return n\n"
    )
    outcomes = await run(runner, source, 0, 1, 2, 3)
    killer = outcomes.pop(2)
    assert isinstance(killer, Raised)
    assert killer.kind == "script-crashed"
    assert [outcome.value for outcome in outcomes if isinstance(outcome, Returned)] == [0, 1, 3]


async def test_what_an_evaluation_starts_ends_with_it(runner: DaytonaRunner) -> None:
    source = (
        "import os, time\n"
        "def evaluate(n, o, t):\n"
        "    if n: return n if os.path.exists(f'/proc/{n}') else 'gone'\n"
        "    reader, writer = os.pipe()\n"
        "    if os.fork() == 0:\n"
        "        os.setsid()\n"
        "        child = os.fork()\n"
        "        if child: os.write(writer, str(child).encode()); os._exit(0)\n"
        "        os.setsid(); time.sleep(600)\n"
        "    return int(os.read(reader, 20))\n"
    )
    pid = await value_of(runner, source, 0)
    assert isinstance(pid, int)
    assert await value_of(runner, source, pid) == "gone"


@pytest.mark.parametrize("how", ["os._exit(0)", "os.close(3)", "os.kill(os.getpid(), 9)", "os.abort()"])
async def test_code_that_ends_its_process_is_told_so(runner: DaytonaRunner, how: str) -> None:
    source = f"import os\ndef evaluate(n, o, t):\n    if n: {how}; return 1\n    return n\n"
    ended, after = await run(runner, source, 1, 0)
    assert isinstance(ended, Raised)
    assert ended.kind == "script-crashed"
    assert isinstance(after, Returned)


async def test_evaluations_share_nothing(runner: DaytonaRunner) -> None:
    source = (
        "import builtins\nseen = []\ndef evaluate(n, o, t):\n    seen.append(n)\n    builtins.x = n\n    return seen\n"
    )
    outcomes = await run(runner, source, 1, 2)
    assert [outcome.value for outcome in outcomes if isinstance(outcome, Returned)] == [[1], [2]]
    source = "globalThis.seen ??= []; Array.prototype.push = null;\nconst evaluate = (n) => [...seen, n]"
    outcomes = await run(runner, source, 1, 2, language="javascript")
    assert [outcome.value for outcome in outcomes if isinstance(outcome, Returned)] == [[1], [2]]


HANDLERS: dict[str, tuple[Language, str]] = {
    "Python": (
        "python",
        "async def handler(input, output, expected, metadata, trace):\n"
        "    return {'score': 1, 'metadata': {'m': [s.model for s in await trace.get_spans('llm')], 'x': metadata}}\n",
    ),
    "JavaScript": (
        "javascript",
        "export async function handler(input, output, expected, metadata, trace) {\n"
        "  const spans = await trace.getSpans({ spanType: 'llm' });\n"
        "  return { score: 1, metadata: { m: spans.map((span) => span.model), x: metadata } };\n}",
    ),
    "JavaScript with one object": (
        "javascript",
        "export default async ({ metadata, trace }) =>\n"
        "  ({ score: 1, metadata: { m: (await trace.getSpans({ spanType: ['llm'] })).map((s) => s.model),\n"
        "  x: metadata } })",
    ),
    "TypeScript": (
        "typescript",
        "type Span = { model: string | null };\nenum Kind { Model = 'llm' }\n"
        "export async function handler(input: unknown, output: string, expected: any, metadata: any, trace: any) {\n"
        "  const spans: Span[] = await trace.getSpans({ spanType: Kind.Model });\n"
        "  return { score: 1, metadata: { m: spans.map((span) => span.model!), x: metadata } };\n}",
    ),
}


@pytest.mark.parametrize("form", HANDLERS)
async def test_handlers_see_the_trace(runner: DaytonaRunner, form: str) -> None:
    language, source = HANDLERS[form]
    call = call_of("in", "out", None, {"k": 1}, SPANS)
    [outcome] = await runner.execute(revision_of(source, "handler", language=language), [call], Limits())
    assert isinstance(outcome, Returned), outcome
    assert outcome.value == {"score": 1, "metadata": {"m": ["m-1"], "x": {"k": 1}}}


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("const evaluate = () => new Map()", "unsupported-return-type"),
        ("const evaluate = () => ({ a: NaN })", "non-finite"),
        ("const evaluate = () => ({ a: 1n })", "not-json-serialisable"),
        ("const evaluate = () => new Promise(() => {})", "unsupported-return-type"),
        ("const evaluate = async () => { throw new Error('mine') }", "script-raised"),
        ("const evaluate = () => Promise.reject(new Error('mine'))", "script-raised"),
        ("const evaluated = 1", "entry-point-missing"),
        ("export const evaluated = 1", "entry-point-missing"),
        ("const evaluate = () => 'half \\ud800'", "bad-unicode"),
    ],
)
async def test_javascript_values_are_judged_as_in_the_sandbox(runner: DaytonaRunner, source: str, kind: str) -> None:
    [outcome] = await run(runner, source, 0, language="javascript")
    assert isinstance(outcome, Raised)
    assert outcome.kind == kind


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("const evaluate = () => ({ a: 2 ** 70, b: [1.5, -0, 3] })", {"a": 2.0**70, "b": [1.5, 0, 3]}),
        ("#!/usr/bin/env node\nconst evaluate = () => 1", 1),
        ("const run = () => 2; export { run as evaluate }", 2),
        ("function evaluate() { return 3 } export const other = 1;", 3),
        ("export default class {}; export function evaluate() { return 4 }", 4),
        ("globalThis.evaluate = () => 5", 5),
        ("const evaluate = (i, o, t) => [i, o, t]", [{"n": 1}, "an answer", None]),
        ("const evaluate = () => undefined", None),
    ],
)
async def test_what_javascript_returns_comes_back(runner: DaytonaRunner, source: str, value: object) -> None:
    assert await value_of(runner, source, {"n": 1}, language="javascript") == value


async def test_a_javascript_module_runs_its_top_level_once_an_evaluation(runner: DaytonaRunner) -> None:
    source = (
        "let count = await 1;\ncount += 1;\nexport default (n) => { if (n) throw new Error('mine'); return count; }"
    )
    returned, raised = await run(runner, source, 0, 1, language="javascript")
    assert isinstance(returned, Returned)
    assert returned.value == 2
    assert isinstance(raised, Raised)
    assert (raised.type, raised.line) == ("Error", 3)
    [outcome] = await run(runner, "export const evaluate = () => 1;\nnull.x;", 0, language="javascript")
    assert isinstance(outcome, Raised)
    assert (outcome.type, outcome.line) == ("TypeError", 2)


@pytest.mark.parametrize("name", ["process", "require", "setTimeout", "fetch", "part"])
async def test_javascript_has_nothing_of_its_host(runner: DaytonaRunner, name: str) -> None:
    assert await value_of(runner, f"const evaluate = () => typeof {name}", language="javascript") == "undefined"


async def test_an_error_in_typescript_has_the_line_of_the_source(runner: DaytonaRunner) -> None:
    kept = "interface Input {\n  n: number;\n}\nfunction evaluate(n: Input): number {\n  throw new TypeError('no');\n}"
    changed = f"enum Level {{ Low, High }}\n{kept}"
    for source, line in ((kept, 5), (changed, 6)):
        [outcome] = await run(runner, source, {"n": 1}, language="typescript")
        assert isinstance(outcome, Raised)
        assert (outcome.type, outcome.message, outcome.line) == ("TypeError", "no", line)


@pytest.mark.parametrize(
    ("language", "source", "line"),
    [
        ("javascript", "const a = 1;\nfunction evaluate( {", 2),
        ("javascript", "export const a = 1;\nexport default (;\n", 2),
        ("javascript", "export const a = 1;\nimport fs from 'node:fs';\n", 2),
        ("typescript", "const a: number = 1;\nlet b: = 2;\n", 2),
        ("typescript", "type A = 1;\nenum B { C }\nconst b = (;\n", 3),
    ],
)
async def test_a_source_that_does_not_parse_is_told_with_its_line(
    runner: DaytonaRunner, language: Language, source: str, line: int
) -> None:
    inspection = await runner.inspect(language, source)
    assert inspection.defect is not None
    assert (inspection.defect.kind, inspection.defect.line) == ("syntax-error", line)
    [outcome] = await run(runner, source, 0, language=language)
    assert isinstance(outcome, Raised)
    assert (outcome.kind, outcome.line) == ("syntax-error", line)


@pytest.mark.parametrize(
    ("language", "source"),
    [
        ("javascript", "throw 1; export default function evaluate(a, b, c) {}"),
        ("typescript", "const evaluate = (a: number, b?: string, c: any = 1): number => 1"),
    ],
)
async def test_names_and_parameters_are_seen_without_running(
    runner: DaytonaRunner, language: Language, source: str
) -> None:
    assert (await runner.inspect(language, source)).names["evaluate"] == 3

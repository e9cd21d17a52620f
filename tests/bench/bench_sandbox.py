"""The sandbox beside its limit: the same code in bare processes, as many as there are zygotes, in the same run.

The limit is `loads`, call, `dumps` on decoded arguments, without any isolation; for JavaScript, a QuickJS context that
is made for the call, as the sandbox makes one, and one that is kept. Measurements take turns, so that a noisy machine
is noisy to all of them; ratios are what to read.
"""

import asyncio
import json
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Coroutine
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

import _quickjs
import uvloop

from assay.domain.evaluator import Language, Revision
from assay.domain.outcome import Call, Limits, Returned
from assay.runners.sandbox.runner import SandboxRunner

ROUNDS = 7
ITEMS = {2_000: 8192, 50_000: 768}
FIRST_ANSWERS = 40
REVISIONS = 8
WORKERS = len(os.sched_getaffinity(0))
UNREAD = """
import re
from collections import Counter

WORD = re.compile(r"[a-z0-9]+")

def evaluate(inputs, outputs, trace):
    wanted = Counter(WORD.findall(inputs["answer"].lower()))
    found = Counter(WORD.findall(outputs.lower()))
    common = sum((wanted & found).values())
    if not common:
        return {"score": 0.0, "success": False}
    precision, recall = common / sum(found.values()), common / sum(wanted.values())
    score = 2 * precision * recall / (precision + recall)
    return {"score": score, "success": score >= 0.5}
"""
READ = (
    UNREAD
    + """
evaluate_words = evaluate

def evaluate(inputs, outputs, trace):
    units = [span["attributes"]["ag"]["metrics"]["unit"] for span in trace["spans"].values()]
    slow = sum(unit["duration"]["total"] > 2 for unit in units)
    return {"slow": slow, **evaluate_words(inputs, outputs, trace)}
"""
)
JAVASCRIPT = """
const words = (text) => text.toLowerCase().match(/[a-z0-9]+/g) ?? [];

function evaluate(inputs, outputs, trace) {
  const wanted = words(inputs.answer), found = words(outputs), counts = new Map();
  for (const word of wanted) counts.set(word, (counts.get(word) ?? 0) + 1);
  let common = 0;
  for (const word of found) {
    const left = counts.get(word) ?? 0;
    if (left > 0) { counts.set(word, left - 1); common++; }
  }
  if (common === 0) return { score: 0, success: false };
  const precision = common / found.length, recall = common / wanted.length;
  const score = (2 * precision * recall) / (precision + recall);
  return { score, success: score >= 0.5 };
}
"""
JAVASCRIPT_ITEMS = 1024


def payload(size: int) -> tuple[bytes, bytes, bytes]:
    """Return inputs, outputs and a trace of about this many bytes of JSON in all."""
    inputs = {"question": "Which quay does the ferry to the island leave from, and at what time does it leave today?"}
    inputs["answer"] = (
        "The ferry leaves from the north quay at noon, and again at six in the evening from the same place."
    )
    outputs = "It leaves from the north quay at noon; the second ferry goes at six in the evening, from the same quay."
    spans: dict[str, object] = {}
    while sum(len(json.dumps(part)) for part in (inputs, outputs, {"spans": spans})) < size - 300:
        metrics = {"costs": {"total": 0.0021}, "tokens": {"prompt": 210, "completion": 64, "total": 274}}
        attributes = {
            "ag": {
                "data": {"inputs": {"messages": "where does the ferry leave from? " * 4}, "outputs": outputs},
                "metrics": {"unit": {**metrics, "duration": {"total": 1.25}}},
            }
        }
        spans[f"{len(spans):016x}"] = {"name": "chat", "status_code": "OK", "attributes": attributes, "children": []}
    return json.dumps(inputs).encode(), json.dumps(outputs).encode(), json.dumps({"spans": spans}).encode()


def bare(connection: Connection) -> None:
    """Evaluate in this process, without isolation, as often as asked; None ends it."""
    made: dict[tuple[str, str], Callable[[tuple[bytes, ...]], object]] = {}
    while (task := connection.recv()) is not None:
        way, source, arguments, count = task
        if (way, source) not in made:
            made[way, source] = BARE[way](source)
        function = made[way, source]
        for _ in range(count):
            function(arguments)
        connection.send(None)


def bare_python(source: str) -> Callable[[tuple[bytes, ...]], object]:
    """Return a call of the source's function from JSON to JSON."""
    import orjson

    namespace: dict[str, Callable[..., object]] = {}
    exec(source, namespace)
    function = namespace["evaluate"]
    return lambda arguments: orjson.dumps(function(*[orjson.loads(argument) for argument in arguments]))


def kept_quickjs(source: str) -> Callable[[tuple[bytes, ...]], object]:
    """Return a call of the source's function, in one context for all calls."""
    context = _quickjs.Context()
    context.eval(source)
    function = context.get("evaluate")
    return lambda arguments: function(*[context.parse_json(argument.decode()) for argument in arguments]).json()


def fresh_quickjs(source: str) -> Callable[[tuple[bytes, ...]], object]:
    """Return a call of the source's function, in a context of its own each time."""

    def call(arguments: tuple[bytes, ...]) -> object:
        return kept_quickjs(source)(arguments)

    return call


BARE: dict[str, Callable[[str], Callable[[tuple[bytes, ...]], object]]] = {
    "python": bare_python,
    "kept": kept_quickjs,
    "fresh": fresh_quickjs,
}


Measure: TypeAlias = Callable[[SandboxRunner, str, tuple[bytes, ...], int], Coroutine[Any, Any, float]]


class Bare:
    """Bare processes, as many as there are zygotes."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipes = [context.Pipe() for _ in range(WORKERS)]
        for _, theirs in self._pipes:
            context.Process(target=bare, args=(theirs,), daemon=True).start()

    def per_s(self, way: str, source: str, arguments: tuple[bytes, ...], count: int) -> float:
        """Return evaluations a second over all processes; `way` is one of BARE."""
        begun = time.perf_counter()
        for ours, _ in self._pipes:
            ours.send((way, source, arguments, count // WORKERS))
        for ours, _ in self._pipes:
            ours.recv()
        return count / (time.perf_counter() - begun)

    def close(self) -> None:
        """Let them end."""
        for ours, _ in self._pipes:
            ours.send(None)


def revision(source: str, number: int, language: Language = "python") -> Revision:
    """Return a revision of its own."""
    return Revision(
        id=f"r{number}", evaluator_id="e", project_id="p", number=number, created_at_ns=0, evaluator_name="bench",
        kind="code", language=language, interface="evaluate", source=source,
    )  # fmt: skip


async def sandboxed_per_s(
    runner: SandboxRunner, source: str, arguments: tuple[bytes, ...], count: int, language: Language = "python"
) -> float:
    """Return evaluations a second."""
    calls = [Call(arguments=arguments)] * count
    begun = time.perf_counter()
    outcomes = await runner.execute(revision(source, 1, language), calls, Limits())
    spent = time.perf_counter() - begun
    assert all(isinstance(outcome, Returned) for outcome in outcomes)
    return count / spent


async def first_answer_ms(runner: SandboxRunner, number: int) -> float:
    """Return how long a revision never seen before takes to its first answer."""
    source = f"{UNREAD}\nNUMBER = {number}"
    call = Call(arguments=payload(2_000))
    begun = time.perf_counter()
    [outcome] = await runner.execute(revision(source, number), [call], Limits())
    assert isinstance(outcome, Returned)
    return (time.perf_counter() - begun) * 1000


async def many_per_s(runner: SandboxRunner, source: str, arguments: tuple[bytes, ...], count: int) -> float:
    """Return evaluations a second of several revisions that wait side by side, so that each slice is a new fork."""
    calls = [Call(arguments=arguments)] * (count // REVISIONS)
    begun = time.perf_counter()
    asked = [runner.execute(revision(source, 1000 + number), calls, Limits()) for number in range(REVISIONS)]
    for outcomes in await asyncio.gather(*asked):
        assert all(isinstance(outcome, Returned) for outcome in outcomes)
    return count / (time.perf_counter() - begun)


async def javascript(runner: SandboxRunner, processes: Bare) -> None:
    """Measure JavaScript beside bare QuickJS, and print its lines of the table."""
    for size in ITEMS:
        arguments = payload(size)
        for way, name in (("fresh", "beside a fresh context"), ("kept", "beside a kept context")):
            rounds: list[tuple[float, float]] = []
            for _ in range(ROUNDS + 1):
                limit = await asyncio.to_thread(processes.per_s, way, JAVASCRIPT, arguments, JAVASCRIPT_ITEMS)
                ours = await sandboxed_per_s(runner, JAVASCRIPT, arguments, JAVASCRIPT_ITEMS, "javascript")
                rounds.append((ours, limit))
            ours, limit = (statistics.median(each) for each in zip(*rounds[1:], strict=True))
            ratio = statistics.median(mine / theirs for mine, theirs in rounds[1:])
            print(f"| {size // 1000} kB, JavaScript {name} | {ours:,.0f} | {limit:,.0f} | {ratio:.2f} |", flush=True)


async def python(runner: SandboxRunner, processes: Bare) -> None:
    """Measure Python beside bare processes, and print its lines of the table."""
    rows: list[tuple[str, int, str, Measure]] = [
        (f"{size // 1000} kB, {name}", size, source, sandboxed_per_s)
        for size in ITEMS
        for name, source in (("trace unread", UNREAD), ("trace read", READ))
    ]
    rows.insert(2, (f"2 kB, trace unread, {REVISIONS} revisions in turn", 2_000, UNREAD, many_per_s))
    for name, size, source, measure in rows:
        arguments, count = payload(size), ITEMS[size]
        rounds: list[tuple[float, float]] = []
        for _ in range(ROUNDS + 1):
            limit = await asyncio.to_thread(processes.per_s, "python", source, arguments, count)
            rounds.append((await measure(runner, source, arguments, count), limit))
        ours, limit = (statistics.median(each) for each in zip(*rounds[1:], strict=True))
        ratio = statistics.median(mine / theirs for mine, theirs in rounds[1:])
        print(f"| {name} | {ours:,.0f} | {limit:,.0f} | {ratio:.2f} |", flush=True)


async def main() -> None:
    """Measure, and print a table."""
    processes = Bare()
    runner = await SandboxRunner.start(workers=WORKERS, minimum="no-landlock")
    print(f"{runner.description}, {WORKERS} zygotes; medians of {ROUNDS} rounds\n")
    print("| evaluations | sandboxed/s | bare processes/s | ratio |\n| --- | ---: | ---: | ---: |")
    await python(runner, processes)
    await javascript(runner, processes)
    single = statistics.median([await sandboxed_per_s(runner, UNREAD, payload(2_000), 1) for _ in range(FIRST_ANSWERS)])
    print(f"| 2 kB, one at a time | {single:,.0f} | | |\n")
    firsts = [await first_answer_ms(runner, number) for number in range(100, 100 + FIRST_ANSWERS)]
    print(
        f"New revision to first answer: {statistics.median(firsts):.1f} ms (worst of {len(firsts)}: {max(firsts):.1f})"
    )
    await runner.close()
    processes.close()


if __name__ == "__main__":
    uvloop.run(main())

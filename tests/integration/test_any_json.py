"""Whatever JSON goes into an evaluator comes out as it went in, or an error says why: each interface in each language.

Examples are drawn first and evaluated as one batch, by the engine, in the real sandbox.
"""

import json
import math
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, cast

import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.domain.check import Check
from assay.domain.evaluator import Interface, Language
from assay.domain.outcome import Limits
from assay.domain.subject import Testcase as Row
from assay.engine import Engine
from assay.runners.sandbox.runner import SandboxRunner
from assay.testing import FixedClock
from support.sandbox import revision_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

EXAMPLES = 150
EXACT = 2**53 - 1
LANGUAGES: list[Language] = ["python", "javascript", "typescript"]
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
BROKEN = st.text(max_size=6) | st.just("\ud800") | st.just("a\0b")
FINITE = st.floats(allow_nan=False, allow_infinity=False)


def documents(numbers: st.SearchStrategy[Any], text: st.SearchStrategy[str] = TEXT) -> st.SearchStrategy[Any]:
    """Return a strategy for JSON of these numbers."""
    return st.recursive(
        st.none() | st.booleans() | numbers | text,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
        max_leaves=12,
    )


PORTABLE = documents(st.integers(-EXACT, EXACT) | FINITE)
OBJECTS = st.dictionaries(TEXT, PORTABLE, max_size=4)


def a_row(inputs: Any, outputs: Any, expected: Any, metadata: Any, truth: Any) -> Row:
    given = {**inputs, "truth": truth}
    return Row(inputs=given, outputs=outputs, expected=expected, metadata=metadata, app_params=metadata)


ROWS = st.builds(a_row, OBJECTS, PORTABLE, PORTABLE, OBJECTS, PORTABLE)
# Each returns its arguments as one list, which is one metric, or as the metadata beside a score.
SOURCES: dict[Interface, dict[Language, str]] = {
    "evaluate": {
        "python": "def evaluate(inputs, outputs, trace):\n    return {'all': [inputs, outputs, trace]}",
        "javascript": "const evaluate = (inputs, outputs, trace) => ({ all: [inputs, outputs, trace] });",
        "typescript": "function evaluate(inputs: any, outputs: unknown, trace: null): { all: unknown[] } "
        "{ return { all: [inputs, outputs, trace] } }",
    },
    "evaluate-float": {
        "python": "def evaluate(inputs, outputs, trace):\n    print(json_of([inputs, outputs, trace]))\n    return 0.5",
        "javascript": "async function evaluate(...all) { console.log(JSON.stringify(all)); return 0.5 }",
        "typescript": "const evaluate = (...all: any[]): number => { console.log(JSON.stringify(all)); return 0.5 };",
    },
    "evaluate-app-params": {
        "python": "def evaluate(app_params, inputs, output, correct_answer):\n"
        "    print(json_of([app_params, inputs, output, correct_answer]))\n    return 0.5",
    },
    "handler": {
        "python": "async def handler(input, output, expected, metadata, trace):\n"
        "    return {'score': 1, 'metadata': {'all': [input, output, expected, metadata, await trace.get_spans()]}}",
        "javascript": "async function handler(input, output, expected, metadata, trace) "
        "{ return { score: 1, metadata: { all: [input, output, expected, metadata, await trace.getSpans()] } } }",
        "typescript": "export default async ({ input, output, expected, metadata, trace }: Record<string, any>) => "
        "({ score: 1, metadata: { all: [input, output, expected, metadata, await trace.getSpans()] } });",
    },
}
COMBINATIONS = [(interface, language) for interface, sources in SOURCES.items() for language in sources]
HELPERS = "import json\ndef json_of(value):\n    return json.dumps(value, ensure_ascii=False)\n"
ECHO: dict[Language, str] = {
    "python": "def evaluate(inputs, outputs, trace):\n    return inputs",
    "javascript": "const evaluate = (inputs) => inputs;",
    "typescript": "const evaluate = (inputs: unknown): unknown => inputs;",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine() -> AsyncIterator[Engine]:
    runner = await SandboxRunner.start(workers=1, minimum="no-landlock")
    try:
        yield Engine(dict.fromkeys(LANGUAGES, runner), FixedClock(), Limits(wall_s=20, log_bytes=1 << 20))
    finally:
        await runner.close()


def drawn(strategy: st.SearchStrategy[Any]) -> list[Any]:
    found: list[Any] = []

    @settings(max_examples=EXAMPLES, deadline=None, database=None)
    @given(strategy)
    def draw(value: Any) -> None:
        found.append(value)

    draw()
    return found


async def checks_of(
    engine: Engine, source: str, interface: Interface, language: Language, rows: list[Row]
) -> list[Check]:
    checks = await engine.evaluate(revision_of(source, interface, language=language), rows)
    assert len(checks) == len(rows)
    return [check for check in checks if isinstance(check, Check)]


def arguments(interface: Interface, row: Row) -> list[Any]:
    match interface:
        case "evaluate" | "evaluate-float":
            return [row.inputs, row.outputs, None]
        case "evaluate-app-params":
            assert isinstance(row.inputs, dict)
            return [row.app_params, row.inputs, row.outputs, row.inputs["truth"]]
        case "handler":
            return [row.inputs, row.outputs, row.expected, row.metadata, []]


def returned(interface: Interface, check: Check) -> Any:
    if interface == "evaluate":
        return check.reading.metrics["all"]
    if interface == "handler":
        assert check.reading.metadata is not None
        return check.reading.metadata["all"]
    assert check.reading.metrics == {"score": 0.5, "success": True}
    return json.loads(check.logs, parse_int=number)


def number(digits: str) -> int | float:
    """Read an integer as JavaScript means it, which prints some floats as though they were one."""
    return int(digits) if abs(int(digits)) <= EXACT else float(digits)


def spelt(value: Any) -> Any:
    """Return the value with a type beside each bool, which Python takes for a number."""
    if isinstance(value, dict):
        return {key: spelt(inner) for key, inner in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [spelt(inner) for inner in cast("list[Any]", value)]
    return (value,) if isinstance(value, bool) else value


@pytest.mark.parametrize(("interface", "language"), COMBINATIONS)
async def test_any_json_comes_out_as_it_went_in(engine: Engine, interface: Interface, language: Language) -> None:
    source = (HELPERS if language == "python" else "") + SOURCES[interface][language]
    rows = drawn(ROWS)
    revision = revision_of(source, interface, language=language)
    if interface == "evaluate-app-params":
        rows = [Row(inputs=row.inputs, outputs=row.outputs, app_params=row.app_params) for row in rows]
    checks = await engine.evaluate(replace(revision, correct_answer_key="truth"), rows)
    for row, check in zip(rows, checks, strict=True):
        assert isinstance(check, Check)
        assert check.reading.error is None, (row, check.reading.error)
        assert spelt(returned(interface, check)) == spelt(arguments(interface, row))


@pytest.mark.parametrize("language", LANGUAGES)
async def test_what_a_function_returns_is_its_metrics_or_an_error_that_says_why(
    engine: Engine, language: Language
) -> None:
    """Values of any kind, with numbers beyond every range and text that is none, returned by themselves."""
    numbers = st.integers() | st.floats() | st.integers(2**60, 2**70)
    values = drawn(documents(numbers, TEXT | BROKEN) | numbers)
    checks = await checks_of(engine, ECHO[language], "evaluate", language, [Row(inputs=value) for value in values])
    for value, check in zip(values, checks, strict=True):
        if check.reading.error is not None:
            assert check.reading.status == "errored"
            assert (check.reading.metrics, check.reading.verdict) == ({}, None)
            assert check.reading.error.kind
            assert len(check.reading.error.message) > 10
            continue
        if isinstance(value, bool):
            assert check.reading.metrics == {"success": value}
        elif isinstance(value, int | float):
            assert math.isclose(check.reading.metrics["score"], value, abs_tol=1e-6)  # type: ignore[arg-type]
        else:
            assert sum(isinstance(metric, dict) and bool(metric) for metric in check.reading.metrics.values()) == 0
            assert len(check.reading.metrics) == leaves(value)


def leaves(value: Any) -> int:
    """Return how many metrics a dict comes to."""
    return sum(leaves(inner) if isinstance(inner, dict) and inner else 1 for inner in value.values())


@pytest.mark.parametrize(("interface", "language"), [pair for pair in COMBINATIONS if pair[0] != "evaluate"])
async def test_what_another_interface_is_given_back_is_a_score_a_skip_or_an_error_that_says_why(
    engine: Engine, interface: Interface, language: Language
) -> None:
    source = ECHO[language]
    if interface == "evaluate-app-params":
        source = "def evaluate(app_params, inputs, output, correct_answer):\n    return correct_answer"
    if interface == "handler":
        source = source.replace("evaluate(inputs, outputs, trace)", "handler(inputs, o, e, m, t)").replace(
            "const evaluate", "const handler"
        )
    values = drawn(documents(st.integers(-2, 2) | st.floats(-0.5, 1.5) | st.floats()))
    rows = [Row(inputs={"correct_answer": value} if interface == "evaluate-app-params" else value) for value in values]
    checks = await checks_of(engine, source, interface, language, rows)
    for value, check in zip(values, checks, strict=True):
        match check.reading.status:
            case "scored":
                score = check.reading.metrics["score"]
                assert isinstance(score, float)
                assert 0 <= score <= 1
            case "skipped":
                assert interface == "handler"
                assert value is None or (isinstance(value, float) and not math.isfinite(value))
            case "errored":
                assert check.reading.error is not None
                assert len(check.reading.error.message) > 10

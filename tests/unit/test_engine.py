"""One revision over many subjects."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from assay.domain.budgets import MEBIBYTE
from assay.domain.check import Check
from assay.domain.evaluator import Interface, Language, Revision
from assay.domain.outcome import Call, Defect, Inspection, Limits, Outcome, Raised, Returned, Unavailable
from assay.domain.subject import Testcase as Row
from assay.engine import HEAVY, SPAN_WEIGHT, Engine
from assay.errors import InvalidInputError
from assay.interfaces.trace_view import trace_view
from assay.testing import FakeRunner, FixedClock, a_revision, a_span, a_trace, returning

REVISION = a_revision()


def engine_of(runner: FakeRunner, limits: Limits | None = None) -> Engine:
    return Engine({"python": runner}, FixedClock(), limits or Limits())


def echo() -> FakeRunner:
    return FakeRunner(lambda _, call: Returned(value={"inputs": msgspec.json.decode(call.arguments[0])}, logs="seen"))


async def test_checks_are_as_many_and_in_the_order_of_the_subjects() -> None:
    rows = [Row(inputs=number) for number in range(5)]
    checks = await engine_of(echo()).evaluate(REVISION, rows)
    assert [check.reading.metrics for check in checks if isinstance(check, Check)] == [{"inputs": n} for n in range(5)]


async def test_the_check_of_a_trace_is_the_same_every_time_and_that_of_a_row_a_new_one() -> None:
    engine = engine_of(echo())

    async def id_of(subject: Any, revision: Any = REVISION) -> str:
        (check,) = await engine.evaluate(revision, [subject])
        assert isinstance(check, Check)
        return check.id

    assert await id_of(a_trace()) == await id_of(a_trace())
    assert await id_of(Row()) != await id_of(Row())
    others = [await id_of(a_trace(revision=2)), await id_of(a_trace(), a_revision(number=2))]
    assert len({await id_of(a_trace()), *others}) == 3


async def test_a_call_names_the_check_that_comes_of_it_where_it_would_be_the_same_again() -> None:
    runner = echo()
    checks = await engine_of(runner).evaluate(REVISION, [a_trace(), Row()])
    assert [call.key for _, call in runner.calls] == [getattr(checks[0], "id", ""), None]


async def test_a_check_says_whose_it_is_and_where_it_ran() -> None:
    (check,) = await engine_of(echo()).evaluate(REVISION, [a_trace(revision=3)])
    assert isinstance(check, Check)
    assert (check.evaluator_id, check.revision_id, check.project_id) == ("evl_1", "evl_1_1", "default")
    assert (check.trace_id, check.trace_revision, check.agent_id) == ("a" * 32, 3, "agt_support")
    assert (check.runner, check.logs, check.recorded_at_ns) == ("fake", "seen", FixedClock().now_ns())


async def test_what_we_could_not_run_is_ours_and_spoils_no_neighbour() -> None:
    def answer(_: object, call: Call) -> Outcome:
        return Unavailable(cause="lost") if call.arguments[0] == b"1" else Returned(value=True)

    results = await engine_of(FakeRunner(answer)).evaluate(REVISION, [Row(inputs=n) for n in range(3)])
    assert [isinstance(result, Unavailable) for result in results] == [False, True, False]


async def test_a_row_without_its_truth_is_errored_and_never_run() -> None:
    runner = returning(1.0)
    revision = a_revision(interface="evaluate-app-params")
    rows = [Row(inputs={"correct_answer": "a"}), Row(inputs={"q": "?"}), Row(inputs={"correct_answer": "b"})]
    checks = await engine_of(runner).evaluate(revision, rows)
    statuses = [check.reading.status for check in checks if isinstance(check, Check)]
    assert statuses == ["scored", "errored", "scored"]
    assert [call.arguments[3] for _, call in runner.calls] == [b'"a"', b'"b"']


@pytest.mark.parametrize(
    ("budgets", "given"),
    [
        ({}, (8, 4, 256)),
        ({"wall_s": 1}, (1, 4, 256)),
        ({"cpu_s": 2.5, "memory_bytes": 64 * MEBIBYTE}, (8, 2.5, 64)),
        ({"wall_s": 9, "cpu_s": 9, "memory_bytes": 512 * MEBIBYTE}, (8, 4, 256)),
    ],
)
async def test_a_revision_gets_its_own_budgets_below_the_ceilings(budgets: dict[str, Any], given: Any) -> None:
    seen: list[Limits] = []

    class Noting(FakeRunner):
        async def execute(self, revision: Revision, calls: Sequence[Call], limits: Limits) -> list[Outcome]:
            seen.append(limits)
            return await super().execute(revision, calls, limits)

    ceilings = Limits(wall_s=8, cpu_s=4, memory_bytes=256 * MEBIBYTE, log_bytes=7)
    engine = engine_of(Noting(lambda _, __: Returned(value=True)), ceilings)
    await engine.evaluate(replace(REVISION, **budgets), [Row()])
    wall_s, cpu_s, memory_mb = given
    assert seen == [replace(ceilings, wall_s=wall_s, cpu_s=cpu_s, memory_bytes=memory_mb * MEBIBYTE)]


async def test_code_that_no_runner_here_knows_is_errored_rather_than_waiting_for_ever() -> None:
    results = await engine_of(returning(1)).evaluate(a_revision(language="javascript"), [Row(), a_trace()])
    for check in results:
        assert isinstance(check, Check)
        assert (check.reading.status, check.runner) == ("errored", "none")
        assert check.reading.error is not None
        assert check.reading.error.kind == "language-not-run"
        assert check.reading.error.message == "This server cannot run javascript: its code runner, fake, runs python."


async def test_an_endpoint_that_nobody_here_calls_is_tried_again() -> None:
    external = replace(a_revision(), kind="external", language=None, interface=None, url="https://example.org")
    [result] = await engine_of(returning(1)).evaluate(external, [Row()])
    assert isinstance(result, Unavailable)


async def test_an_external_revision_goes_to_the_runner_of_endpoints() -> None:
    endpoint = returning({"matches": True})
    engine = Engine({"external": endpoint}, FixedClock(), Limits())
    (check,) = await engine.evaluate(replace(REVISION, kind="external", interface=None, language=None), [a_trace()])
    assert isinstance(check, Check)
    assert check.failed
    (body,) = endpoint.calls[0][1].arguments
    assert msgspec.json.decode(body)["schemaVersion"] == 2


async def test_text_that_is_no_text_in_any_encoding_is_mended_on_the_way() -> None:
    (check,) = await engine_of(echo()).evaluate(REVISION, [Row(inputs={"a": "cut \ud83d", "b": 2**80})])
    assert isinstance(check, Check)
    assert check.reading.metrics == {"inputs.a": "cut \ufffd", "inputs.b": 2**80}


async def test_an_input_nested_beyond_reason_is_that_checks_error() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    first, second = await engine_of(echo()).evaluate(REVISION, [Row(inputs=deep), Row(inputs=1)])
    while isinstance(deep, list):
        deep = deep.pop()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    assert isinstance(first, Check)
    assert first.reading.error is not None
    assert first.reading.error.kind == "too-deep"
    assert isinstance(second, Check)
    assert second.reading.status == "scored"


async def test_the_span_copies_of_a_trace_are_each_checks_own() -> None:
    runner = FakeRunner(lambda _, __: Raised(kind="script-raised", type="E", message="x"))
    await engine_of(runner).evaluate(a_revision(interface="handler"), [a_trace(a_span("root"))] * 2)
    assert len({id(call.arguments) for _, call in runner.calls}) == 2


@pytest.mark.parametrize(
    ("names", "wanted", "interface"),
    [
        ({"evaluate": 3}, None, "evaluate"),
        ({"evaluate": 4}, None, "evaluate-app-params"),
        ({"evaluate": None}, None, "evaluate"),
        ({"handler": 5, "helper": 1}, None, "handler"),
        ({"handler": 5, "evaluate": 3}, "handler", "handler"),
        ({"evaluate": 3}, "evaluate-float", "evaluate-float"),
    ],
)
async def test_the_interface_is_the_one_given_or_seen_in_the_code(
    names: dict[str, int | None], wanted: Interface | None, interface: Interface
) -> None:
    runner = FakeRunner(lambda _, __: Returned(value=1), names)
    assert await engine_of(runner).vet("python", "source", wanted) == interface


@pytest.mark.parametrize(
    ("names", "wanted", "told"),
    [
        ({"evaluat": 3}, None, "neither evaluate nor handler; it defines: evaluat"),
        ({}, None, "it defines: nothing"),
        ({"handler": 5, "evaluate": 3}, None, "both handler and evaluate"),
        ({"evaluate": 3}, "handler", "calls handler, which the source does not define; it defines: evaluate"),
        ({"handler": 2}, None, r"handler takes 2 arguments, but .* gives it 5: handler\(input, output, expected"),
        ({"evaluate": 3}, "evaluate-app-params", "evaluate takes 3 arguments, but .* gives it 4"),
    ],
)
async def test_a_source_without_its_function_is_refused(
    names: dict[str, int | None], wanted: Interface | None, told: str
) -> None:
    runner = FakeRunner(lambda _, __: Returned(value=1), names)
    with pytest.raises(InvalidInputError, match=told) as refused:
        await engine_of(runner).vet("python", "source", wanted)
    assert refused.value.field == "script"


@pytest.mark.parametrize("language", ["javascript", "typescript"])
async def test_the_four_parameter_form_is_python_only(language: Language) -> None:
    engine = Engine({language: FakeRunner(lambda _, __: Returned(value=1), {"evaluate": 4})}, FixedClock(), Limits())
    with pytest.raises(InvalidInputError, match=f"Python only, and this is {language}") as refused:
        await engine.vet(language, "source", "evaluate-app-params")
    assert refused.value.field == "interface"
    with pytest.raises(InvalidInputError, match="takes 4 parameters, the form of evaluate-app-params") as refused:
        await engine.vet(language, "source")
    assert refused.value.field == "script"
    assert await engine.vet(language, "source", "evaluate") == "evaluate"


async def test_a_source_that_does_not_parse_is_refused_with_its_line() -> None:
    class Broken(FakeRunner):
        async def inspect(self, language: str, source: str, project_id: str = "") -> Inspection:
            return Inspection(names={}, defect=Defect(kind="syntax-error", message="expected ':'", line=2))

    with pytest.raises(InvalidInputError, match="expected ':'") as refused:
        await engine_of(Broken(lambda _, __: Returned(value=1))).vet("python", "source")
    assert refused.value.line == 2


async def test_a_source_that_is_too_large_is_refused_before_anybody_looks_at_it() -> None:
    with pytest.raises(InvalidInputError, match="has 11 bytes; at most 10 are allowed"):
        await engine_of(returning(1), Limits(source_bytes=10)).vet("python", "x" * 11)


async def test_a_language_that_nobody_runs_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="cannot run typescript: its code runner, fake, runs python") as refused:
        await engine_of(returning(1)).vet("typescript", "source")
    assert refused.value.field == "language"


def a_heavy_trace(revision: int = 1, **fields: Any) -> Any:
    spans = [replace(a_span(f"s{at}"), attributes={"k": "v"}, **fields) for at in range(HEAVY // SPAN_WEIGHT)]
    return a_trace(*spans, revision=revision)


async def test_the_arguments_of_a_heavy_trace_are_made_beside_the_loop_and_once_for_several_revisions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: list[str] = []

    def noting(trace: Any) -> Any:
        threads.append(threading.current_thread().name)
        return trace_view(trace)

    monkeypatch.setattr("assay.interfaces.evaluate.trace_view", noting)
    runner = returning(True)
    engine = engine_of(runner)
    for number in (1, 2):
        await engine.evaluate(a_revision(number=number), [a_heavy_trace(), a_trace()])
    await engine.evaluate(REVISION, [a_heavy_trace(revision=2)])
    await engine.evaluate(a_revision(interface="handler"), [a_heavy_trace()])
    heavy = [threads[index] for index in (0, 1, 2, 3)]
    assert [name.startswith("arguments") for name in heavy] == [True] * 4
    assert len(threads) == 4
    assert runner.calls[0][1].arguments == runner.calls[2][1].arguments
    assert runner.calls[0][1].key != runner.calls[2][1].key


async def test_a_light_trace_stays_on_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []

    def noting(_: Any) -> None:
        threads.append(threading.current_thread().name)

    monkeypatch.setattr("assay.interfaces.evaluate.trace_view", noting)
    await engine_of(returning(True)).evaluate(REVISION, [a_trace()])
    assert threads == [threading.current_thread().name]


async def test_a_trace_that_cannot_fit_is_refused_before_its_arguments_are_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(_: Any) -> None:
        pytest.fail("made all the same")

    monkeypatch.setattr("assay.interfaces.evaluate.trace_view", refused)
    runner = returning(True)
    engine = engine_of(runner, Limits(payload_bytes=100_000))
    [check] = await engine.evaluate(REVISION, [a_heavy_trace(input="x" * 100)])
    assert isinstance(check, Check)
    assert check.reading.error is not None
    assert check.reading.error.kind == "payload-too-large"
    assert "more than 100000 bytes" in check.reading.error.message
    assert runner.calls == []

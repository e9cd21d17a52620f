"""For your tests and ours: doubles of the ports, a trace builder, and what every Runner must do."""

from collections.abc import Callable, Sequence

from assay.domain.evaluator import Interface, Language, Revision
from assay.domain.json_value import JsonValue
from assay.domain.outcome import Call, Inspection, Limits, Outcome, Raised, Returned
from assay.domain.trace import Span, Trace
from assay.ingest.assembly import assemble
from assay.ports import Runner

NOW_NS = 1_750_000_000_000_000_000
MILLISECOND_NS = 1_000_000


class FixedClock:
    """A clock that moves only when told to."""

    def __init__(self, now_ns: int = NOW_NS) -> None:
        self._now_ns = now_ns

    def now_ns(self) -> int:
        """Return the time it was set to, in nanoseconds since the epoch."""
        return self._now_ns

    def advance(self, seconds: float) -> None:
        """Move forward."""
        self._now_ns += int(seconds * 1e9)


class FakeRunner:
    """A Runner that answers each call with what `answer` makes of it, and remembers the calls; it runs no source."""

    def __init__(self, answer: Callable[[Revision, Call], Outcome], names: dict[str, int | None] | None = None) -> None:
        self.calls: list[tuple[Revision, Call]] = []
        self._answer = answer
        self._names: dict[str, int | None] = {"evaluate": 3} if names is None else names

    @property
    def description(self) -> str:
        """Name the runner, as recorded on each check."""
        return "fake"

    async def execute(self, revision: Revision, calls: Sequence[Call], limits: Limits) -> list[Outcome]:
        """Answer every call, in the order given."""
        self.calls += [(revision, call) for call in calls]
        return [self._answer(revision, call) for call in calls]

    async def inspect(self, language: str, source: str, project_id: str = "") -> Inspection:
        """Say that the source defines the names given, whatever it holds."""
        return Inspection(names=self._names)

    async def close(self) -> None:
        """Let go of nothing."""


def returning(value: JsonValue) -> FakeRunner:
    """Return a runner whose every call returns this value."""
    return FakeRunner(lambda _, __: Returned(value=value))


def a_revision(
    source: str = "",
    *,
    interface: Interface = "evaluate",
    language: Language = "python",
    threshold: float = 0.5,
    evaluator_id: str = "evl_1",
    project_id: str = "default",
    number: int = 1,
) -> Revision:
    """Return a revision of a code evaluator."""
    return Revision(
        id=f"{evaluator_id}_{number}",
        evaluator_id=evaluator_id,
        project_id=project_id,
        number=number,
        created_at_ns=NOW_NS,
        evaluator_name="check",
        kind="code",
        language=language,
        interface=interface,
        source=source,
        threshold=threshold,
    )


def a_trace(*spans: Span, trace_id: str = "a" * 32, agent: str | None = "support", revision: int = 1) -> Trace:
    """Return a trace of these spans; of a root and one model call when none are given."""
    return assemble(
        "default",
        spans or (a_span("root", trace_id=trace_id), a_span("llm", parent="root", model="m-1", trace_id=trace_id)),
        revision=revision,
        created_at_ns=NOW_NS,
        agent_id=f"agt_{agent}" if agent else None,
        agent=agent,
    )


def a_span(
    span_id: str,
    *,
    parent: str | None = None,
    started_ms: float = 0,
    took_ms: float = 100,
    input: JsonValue = "hello",
    output: JsonValue = "hi",
    model: str | None = None,
    trace_id: str = "a" * 32,
) -> Span:
    """Return a span; times are milliseconds after a fixed moment."""
    started_at_ns = NOW_NS + int(started_ms * MILLISECOND_NS)
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_span_id=parent,
        name=span_id,
        started_at_ns=started_at_ns,
        ended_at_ns=started_at_ns + int(took_ms * MILLISECOND_NS),
        input=input,
        output=output,
        model=model,
    )


class RunnerConformance:
    """What every Runner of Python code must do: derive a test class and give it a `runner` fixture."""

    limits = Limits()

    async def test_outcomes_are_as_many_and_in_the_order_of_the_calls(self, runner: Runner) -> None:
        """Each call has its own outcome."""
        revision = a_revision("def evaluate(inputs, outputs, trace):\n    return {'same': inputs}\n")
        calls = [Call(arguments=(str(number).encode(), b"null", b"null")) for number in range(300)]
        outcomes = await runner.execute(revision, calls, self.limits)
        assert [outcome.value for outcome in outcomes if isinstance(outcome, Returned)] == [
            {"same": number} for number in range(300)
        ]

    async def test_no_calls_have_no_outcomes(self, runner: Runner) -> None:
        """An empty batch is nothing to do."""
        assert await runner.execute(a_revision("def evaluate(i, o, t):\n    return 1\n"), [], self.limits) == []

    async def test_an_exception_of_the_author_is_theirs_with_type_message_and_line(self, runner: Runner) -> None:
        """It spoils no neighbour."""
        source = "def evaluate(inputs, outputs, trace):\n    return {}[inputs] if inputs else True\n"
        calls = [Call(arguments=(raw, b"null", b"null")) for raw in (b'"k"', b"0")]
        raised, returned = await runner.execute(a_revision(source), calls, self.limits)
        assert isinstance(raised, Raised)
        assert (raised.kind, raised.type, raised.message, raised.line) == ("script-raised", "KeyError", "'k'", 2)
        assert isinstance(returned, Returned)
        assert returned.value is True

    async def test_what_is_printed_is_logs_and_never_a_result(self, runner: Runner) -> None:
        """Output belongs to its own evaluation."""
        source = "def evaluate(inputs, outputs, trace):\n    print('saw', inputs)\n    return 0.5\n"
        calls = [Call(arguments=(raw, b"null", b"null")) for raw in (b"1", b"2")]
        outcomes = await runner.execute(a_revision(source), calls, self.limits)
        assert [outcome.logs for outcome in outcomes] == ["saw 1\n", "saw 2\n"]

    async def test_a_source_is_inspected_without_being_run(self, runner: Runner) -> None:
        """Names and parameter counts are seen, and a syntax error has its line."""
        seen = await runner.inspect("python", "raise SystemExit\ndef evaluate(a, b, c):\n    return 1\n")
        assert seen.names == {"evaluate": 3}
        broken = await runner.inspect("python", "x = 1\ndef evaluate(:\n")
        assert broken.defect is not None
        assert (broken.defect.kind, broken.defect.line) == ("syntax-error", 2)

"""One revision over many subjects, for live and batch alike: the only caller of Runner.execute."""

import asyncio
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, TypeAlias, TypeVar

import msgspec

from assay.domain.budgets import within
from assay.domain.check import Check, CheckError, Reading
from assay.domain.evaluator import ARGUMENTS, ENTRY_POINTS, Interface, Language, Revision
from assay.domain.identity import derived_id, new_id
from assay.domain.json_value import JsonValue
from assay.domain.outcome import Call, Inspection, Limits, Unavailable
from assay.domain.subject import Subject, Testcase
from assay.domain.text import mended
from assay.domain.trace import Span
from assay.errors import InvalidInputError
from assay.interfaces.reading import arguments, least_bytes, read
from assay.ports import Clock, Runner

RunnerKey: TypeAlias = Language | Literal["external"]
FOUR_PARAMETERS = 4
SOURCE_FIELD = "script"
SPAN_WEIGHT = 10
HEAVY = 20_000
"""From this weight on, work on spans is done beside the event loop; so much of it takes 10 to 20 ms."""
REMEMBERED = 4
Made = TypeVar("Made")


class Engine:
    """Applies revisions to subjects.

    `runners` says where each language runs, and under "external" who calls endpoints; the caller owns and closes them.
    """

    def __init__(self, runners: Mapping[RunnerKey, Runner], clock: Clock, limits: Limits) -> None:
        self._runners = runners
        self._clock = clock
        self._limits = limits
        # One thread: two would only take the interpreter from the event loop twice as often.
        self._aside = ThreadPoolExecutor(1, "arguments")
        self._remembered: OrderedDict[tuple[object, ...], tuple[bytes, ...]] = OrderedDict()

    def runs(self, language: Language) -> bool:
        """Tell whether code of this language can be run here."""
        return language in self._runners

    async def evaluate(self, revision: Revision, subjects: Sequence[Subject]) -> list[Check | Unavailable]:
        """Return a check per subject, in the order given; Unavailable where it could not be run, to be tried again.

        The check of a trace has the same id every time; that of a test case a new one.
        """
        key = _runner_key(revision)
        runner = self._runners.get(key)
        if runner is None:
            return [Unavailable(cause=f"this server has no runner for {key} evaluators") for _ in subjects]
        spans = [span for subject in subjects for span in subject.spans]
        calls = await self.beside_the_loop(spans, lambda: [self._call(revision, subject) for subject in subjects])
        outcomes = iter(
            await runner.execute(
                revision, [call for call in calls if isinstance(call, Call)], within(self._limits, revision)
            )
        )
        results: list[Check | Unavailable] = []
        for subject, call in zip(subjects, calls, strict=True):
            if isinstance(call, CheckError):
                reading = Reading(status="errored", error=call)
                results.append(self._check(revision, subject, runner, reading, "", 0.0))
                continue
            outcome = next(outcomes)
            if isinstance(outcome, Unavailable):
                results.append(outcome)
            else:
                reading = read(revision, outcome)
                results.append(self._check(revision, subject, runner, reading, outcome.logs, outcome.duration_s))
        return results

    async def beside_the_loop(self, spans: Sequence[Span], work: Callable[[], Made]) -> Made:
        """Return what the work on these spans makes; in a thread when it would hold up the event loop."""
        if weight(spans) < HEAVY:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._aside, work)

    def _call(self, revision: Revision, subject: Subject) -> Call | CheckError:
        """Return the call of a revision over a subject; the arguments of a heavy trace are made once for several."""
        key = _lasting_id(revision, subject)
        most = self._limits.payload_bytes
        if isinstance(subject, Testcase) or weight(subject.spans) < HEAVY:
            return _call(revision, subject, key)
        if least_bytes(revision, subject, most) > most:
            message = f"the arguments have more than {most} bytes of JSON, which is what is allowed"
            return CheckError(kind="payload-too-large", message=message)
        if revision.kind == "external" or revision.interface not in ("evaluate", "evaluate-float", "handler"):
            return _call(revision, subject, key)
        named = (subject.project_id, subject.trace_id, subject.revision, subject.created_at_ns, len(subject.spans))
        known = (*named, revision.interface == "handler")
        found = self._remembered.get(known)
        if found is not None:
            self._remembered.move_to_end(known)
            return Call(arguments=found, key=key)
        call = _call(revision, subject, key)
        if isinstance(call, Call) and sum(map(len, call.arguments)) <= most:
            self._remembered[known] = call.arguments
            if len(self._remembered) > REMEMBERED:
                self._remembered.popitem(last=False)
        return call

    async def vet(
        self, language: Language, source: str, interface: Interface | None = None, project_id: str = ""
    ) -> Interface:
        """Look at a source before it is saved and return its interface: the one given, or the one seen in the code.

        Raises InvalidInputError, with the line where known, for a source that is too large, does not parse, or does
        not define the function its interface calls.
        """
        runner = self._runners.get(language)
        if runner is None:
            languages = ", ".join(key for key in self._runners if key != "external") or "none"
            raise InvalidInputError(f"This server does not run {language}; it runs: {languages}.", field="language")
        size = len(source.encode("utf-8", "surrogatepass"))
        if size > self._limits.source_bytes:
            raise InvalidInputError(
                f"The source has {size} bytes; at most {self._limits.source_bytes} are allowed.", field=SOURCE_FIELD
            )
        inspection = await runner.inspect(language, source, project_id)
        if inspection.defect is not None:
            defect = inspection.defect
            raise InvalidInputError(defect.message, field=SOURCE_FIELD, line=defect.line, column=defect.column)
        chosen = _detected(inspection) if interface is None else interface
        _demand(inspection, chosen, language)
        return chosen

    def _check(
        self, revision: Revision, subject: Subject, runner: Runner, reading: Reading, logs: str, duration_s: float
    ) -> Check:
        now_ns = self._clock.now_ns()
        if isinstance(subject, Testcase):
            trace_id, trace_revision, agent_id = None, 0, None
        else:
            trace_id, trace_revision, agent_id = subject.trace_id, subject.revision, subject.agent_id
        return Check(
            id=_lasting_id(revision, subject) or new_id("chk", now_ns),
            project_id=revision.project_id,
            evaluator_id=revision.evaluator_id,
            revision_id=revision.id,
            trace_id=trace_id,
            trace_revision=trace_revision,
            agent_id=agent_id,
            reading=reading,
            logs=logs,
            duration_s=duration_s,
            runner=runner.description,
            recorded_at_ns=now_ns,
        )


def weight(spans: Sequence[Span]) -> int:
    """Return how much work these spans are, in attributes."""
    return sum(len(span.attributes) for span in spans) + SPAN_WEIGHT * len(spans)


def _runner_key(revision: Revision) -> RunnerKey:
    return "external" if revision.kind == "external" or revision.language is None else revision.language


def _lasting_id(revision: Revision, subject: Subject) -> str | None:
    """Return the id of the check of a trace, the same every time; None for a test case, which has a new one."""
    if isinstance(subject, Testcase):
        return None
    return derived_id("chk", revision.id, subject.trace_id, subject.revision)


def _call(revision: Revision, subject: Subject, key: str | None) -> Call | CheckError:
    try:
        values = arguments(revision, subject)
        if isinstance(values, CheckError):
            return values
        return Call(arguments=tuple(_encoded(value) for value in values), key=key)
    except RecursionError:
        return CheckError(kind="too-deep", message="The input is nested too deeply to be handed to the evaluator.")


def _encoded(value: JsonValue) -> bytes:
    """Encode as JSON; half of a surrogate pair, which UTF-8 cannot hold, becomes the replacement character."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return mended(text).encode()


def _detected(inspection: Inspection) -> Interface:
    functions = [name for name in ("handler", "evaluate") if name in inspection.names]
    if len(functions) > 1:
        raise InvalidInputError(
            "The source defines both handler and evaluate; keep one, or name the interface.", field=SOURCE_FIELD
        )
    if not functions:
        raise InvalidInputError(
            f"The source defines neither evaluate nor handler; it defines: {_names(inspection)}.", field=SOURCE_FIELD
        )
    if functions == ["handler"]:
        return "handler"
    return "evaluate-app-params" if inspection.names["evaluate"] == FOUR_PARAMETERS else "evaluate"


def _demand(inspection: Inspection, interface: Interface, language: Language) -> None:
    function = ENTRY_POINTS[interface]
    if function not in inspection.names:
        raise InvalidInputError(
            f"The interface {interface} calls {function}, which the source does not define; "
            f"it defines: {_names(inspection)}.",
            field=SOURCE_FIELD,
        )
    taken, given = inspection.names[function], ARGUMENTS[interface]
    if language == "python" and taken is not None and taken < len(given):
        raise InvalidInputError(
            f"{function} takes {taken} arguments, but the interface {interface} gives it {len(given)}: "
            f"{function}({', '.join(given)}).",
            field=SOURCE_FIELD,
        )


def _names(inspection: Inspection) -> str:
    return ", ".join(list(inspection.names)[:20]) or "nothing"

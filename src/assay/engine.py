"""One revision over many subjects, for live and batch alike: the only caller of Runner.execute."""

import asyncio
import json
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Literal, TypeAlias, TypeVar

import msgspec

from assay.domain.budgets import within
from assay.domain.check import Check, CheckError, Reading, Verdict
from assay.domain.credentials import SealedCredentials
from assay.domain.evaluator import Interface, Language, Revision
from assay.domain.identity import derived_id, new_id
from assay.domain.json_value import JsonValue
from assay.domain.outcome import Call, Exceeded, HttpAnswer, Limits, Outcome, Unavailable
from assay.domain.subject import Subject, Testcase
from assay.domain.suspicion import Suspicion
from assay.domain.text import mended
from assay.domain.trace import Span
from assay.errors import InvalidInputError
from assay.interfaces.entry_point import SOURCE_FIELD, chosen
from assay.interfaces.reading import arguments, least_bytes, read
from assay.ports import Clock, Runner

RunnerKey: TypeAlias = Language | Literal["external"]
SPAN_WEIGHT = 10
HEAVY = 20_000
"""From this weight on, work on spans is done beside the event loop; so much of it takes 10 to 20 ms."""
REMEMBERED = 4
SUSPECTED = 10_000
"""So many revisions that crashed are remembered; of more, the one whose last crash is longest ago is forgotten."""
Made = TypeVar("Made")
_Tried: TypeAlias = tuple[Outcome | CheckError, Verdict | None]
"""What came of a call, or why it was kept back; with a verdict on the evaluator where its crash was the last straw."""
_UNSUSPECTED = Suspicion()


class Engine:
    """Applies revisions to subjects.

    `runners` says where each language runs, and under "external" who calls endpoints; the caller owns and closes them.
    A revision whose checks crash again and again is paused, by what this engine has seen, in `now_s` (seconds that only
    ever grow).
    """

    def __init__(
        self,
        runners: Mapping[RunnerKey, Runner],
        clock: Clock,
        limits: Limits,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._runners = runners
        self._now_s = now_s
        self._suspected: OrderedDict[str, Suspicion] = OrderedDict()
        self._clock = clock
        self._limits = limits
        # One thread: two would only take the interpreter from the event loop twice as often.
        self._aside = ThreadPoolExecutor(1, "arguments")
        self._remembered: OrderedDict[tuple[object, ...], tuple[bytes, ...]] = OrderedDict()

    async def evaluate(
        self, revision: Revision, subjects: Sequence[Subject], credentials: SealedCredentials | None = None
    ) -> list[Check | Unavailable]:
        """Return a check per subject, in the order given; Unavailable where it could not be run, to be tried again.

        The check of a trace has the same id every time; that of a test case a new one. An endpoint is shown the
        credentials.
        """
        return [result for result, _ in await self.watched(revision, subjects, credentials)]

    async def watched(
        self, revision: Revision, subjects: Sequence[Subject], credentials: SealedCredentials | None = None
    ) -> list[tuple[Check | Unavailable, HttpAnswer | None]]:
        """Do as `evaluate` does, and return beside each check what a draft's endpoint answered, if anything."""
        key = _runner_key(revision)
        runner = self._runners.get(key)
        if runner is None:
            return [(self._without_runner(revision, subject), None) for subject in subjects]
        spans = [span for subject in subjects for span in subject.spans]
        calls = await self.beside_the_loop(spans, lambda: [self._call(revision, subject) for subject in subjects])
        if credentials is not None:
            calls = [replace(call, credentials=credentials) if isinstance(call, Call) else call for call in calls]
        outcomes = iter(await self._outcomes(runner, revision, [call for call in calls if isinstance(call, Call)]))
        results: list[tuple[Check | Unavailable, HttpAnswer | None]] = []
        for subject, call in zip(subjects, calls, strict=True):
            if isinstance(call, CheckError):
                reading = Reading(status="errored", error=call)
                results.append((self._check(revision, subject, runner.description, reading, "", 0.0), None))
                continue
            outcome, verdict = next(outcomes)
            if isinstance(outcome, Unavailable):
                results.append((outcome, None))
            elif isinstance(outcome, CheckError):
                reading = Reading(status="errored", error=outcome)
                results.append((self._check(revision, subject, runner.description, reading, "", 0.0), None))
            else:
                reading = read(revision, outcome)
                if verdict is not None:
                    reading = replace(reading, verdict=verdict)
                logs = "".join((outcome.logs, *(f"{note}\n" for note in reading.notes)))
                check = self._check(revision, subject, runner.description, reading, logs, outcome.duration_s)
                results.append((check, None if isinstance(outcome, Exceeded) else outcome.answer))
        return results

    async def _outcomes(self, runner: Runner, revision: Revision, calls: Sequence[Call]) -> list[_Tried]:
        """Run the calls as far as the revision's breaker lets them through; what it keeps back is errored at once.

        That goes neither for a draft, which somebody tries by hand, nor for endpoints, whose runner has breakers.
        """
        limits = within(self._limits, revision)
        if revision.is_draft or revision.kind == "external":
            return [(outcome, None) for outcome in await runner.execute(revision, calls, limits)]
        tried: dict[int, _Tried] = {}
        waiting = list(range(len(calls)))
        while waiting:
            suspicion = self._suspicion(revision)
            most = suspicion.admitted(len(waiting), self._now_s())
            if not most:
                refusal = suspicion.refusal(self._paused_until_ns(suspicion))
                tried.update((index, (refusal, None)) for index in waiting)
                break
            piece, waiting = waiting[:most], waiting[most:]
            if suspicion.breaker.openings:
                self._suspect(revision, replace(suspicion, breaker=suspicion.breaker.probing(math.inf)))
            outcomes: list[Outcome] = []
            try:
                outcomes = await runner.execute(revision, [calls[index] for index in piece], limits)
            finally:
                suspicion, opened_by = self._suspicion(revision).noted(outcomes, self._now_s())
                self._suspect(revision, suspicion)
            tried.update(zip(piece, ((outcome, None) for outcome in outcomes), strict=True))
            if opened_by is not None:
                verdict = suspicion.verdict(self._paused_until_ns(suspicion))
                tried[piece[opened_by]] = (outcomes[opened_by], verdict)
            given_up = [index for index, outcome in zip(piece, outcomes, strict=True) if _is_given_up(outcome)]
            if len(given_up) < len(piece):
                waiting = given_up + waiting
        return [tried[index] for index in range(len(calls))]

    def _suspicion(self, revision: Revision) -> Suspicion:
        return self._suspected.get(revision.id, _UNSUSPECTED)

    def _suspect(self, revision: Revision, suspicion: Suspicion) -> None:
        self._suspected.pop(revision.id, None)
        if not suspicion.is_none:
            self._suspected[revision.id] = suspicion
            if len(self._suspected) > SUSPECTED:
                self._suspected.popitem(last=False)

    def _paused_until_ns(self, suspicion: Suspicion) -> int:
        return self._clock.now_ns() + int(suspicion.breaker.wait_s(self._now_s()) * 1e9)

    @property
    def paused(self) -> int:
        """Return how many revisions are paused now, because they crashed again and again."""
        now_s = self._now_s()
        return sum(suspicion.breaker.open_until > now_s for suspicion in self._suspected.values())

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
            raise InvalidInputError(self._not_run(language), field="language")
        size = len(source.encode("utf-8", "surrogatepass"))
        if size > self._limits.source_bytes:
            raise InvalidInputError(
                f"The source has {size} bytes; at most {self._limits.source_bytes} are allowed.", field=SOURCE_FIELD
            )
        inspection = await runner.inspect(language, source, project_id)
        if inspection.defect is not None:
            defect = inspection.defect
            raise InvalidInputError(defect.message, field=SOURCE_FIELD, line=defect.line, column=defect.column)
        return chosen(inspection, language, interface)

    def _not_run(self, language: Language) -> str:
        """Say that the code runner here does not run this language, which it is, and which languages it runs."""
        described = {runner.description: "" for key, runner in self._runners.items() if key != "external"}
        languages = ", ".join(key for key in self._runners if key != "external") or "no code"
        runner = " and ".join(described) or "none"
        return f"This server cannot run {language}: its code runner, {runner}, runs {languages}."

    def _without_runner(self, revision: Revision, subject: Subject) -> Check | Unavailable:
        """Return the check of code in a language that no runner here knows: waiting would not change that."""
        if revision.kind == "external" or revision.language is None:
            return Unavailable(cause="this server calls no external scorers")
        error = CheckError(kind="language-not-run", message=self._not_run(revision.language))
        return self._check(revision, subject, "none", Reading(status="errored", error=error), "", 0.0)

    def _check(
        self, revision: Revision, subject: Subject, runner: str, reading: Reading, logs: str, duration_s: float
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
            runner=runner,
            recorded_at_ns=now_ns,
        )


def weight(spans: Sequence[Span]) -> int:
    """Return how much work these spans are, in attributes."""
    return sum(len(span.attributes) for span in spans) + SPAN_WEIGHT * len(spans)


def _is_given_up(outcome: Outcome) -> bool:
    return isinstance(outcome, Unavailable) and outcome.is_given_up


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

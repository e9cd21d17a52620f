"""One evaluation that leaves no trace: over a sample, a stored trace, or data of the caller's."""

import asyncio
import json
import math
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast
from weakref import WeakValueDictionary

import structlog

from assay.api.credentials import with_credentials
from assay.api.edits import demand_affordable, laid_over, new_evaluator, vetted
from assay.api.schemas.checks import check_answer
from assay.api.schemas.dry_run import DryRun, DryRunAnswer, DryRunResponse, Sample, http_answer
from assay.api.services import Services
from assay.api.stored import load_evaluator, load_trace
from assay.domain.check import Check, CheckError, Reading
from assay.domain.evaluator import Evaluator, Interface, Revision
from assay.domain.identity import new_id
from assay.domain.json_value import JsonValue
from assay.domain.outcome import HttpAnswer, Unavailable
from assay.domain.subject import Subject, Testcase
from assay.domain.trace import Span, Trace
from assay.errors import InvalidInputError, OverloadedError, SandboxUnavailableError
from assay.ingest.assembly import assemble
from assay.ingest.bodies import BodyLimits
from assay.ingest.plain import decode_plain
from assay.ingest.received import MAX_DEPTH
from assay.interfaces.trace_view import trace_view

WAITING_PER_TURN = 4
FULL_PROJECTS = 8
RETRY_AFTER_S = 2
NS_PER_MS = 1_000_000
LARGEST_INTEGER = 2**63 - 1
QUESTION = "Where is my parcel 1042?"
REPLY = "It left the depot this morning and arrives tomorrow."
SOURCE_FIELD = "script"
UNNAMED = "dry run"

log = structlog.stdlib.get_logger("assay.api")


class Turns:
    """Lets in so many dry runs of a project at once, and turns away those for whom too many wait already.

    There is a bound on those of all projects too. No project has more here than are left free for all others, so that
    none fills it alone.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._most = at_once * (1 + WAITING_PER_TURN)
        self._most_of_all = self._most * FULL_PROJECTS
        self._free: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._here: Counter[str] = Counter()

    @asynccontextmanager
    async def turn(self, project_id: str) -> AsyncGenerator[None]:
        """Wait for a turn; raise OverloadedError when too many do."""
        here = self._here[project_id]
        if here >= min(self._most, self._most_of_all - self._here.total()):
            raise OverloadedError(
                f"{here} dry runs of this project run or wait, which is the most there may be now; "
                f"try again in {RETRY_AFTER_S} s.",
                retry_after_s=RETRY_AFTER_S,
            )
        free = self._free.setdefault(project_id, asyncio.Semaphore(self._at_once))
        self._here[project_id] += 1
        try:
            async with free:
                yield
        finally:
            self._here[project_id] -= 1
            if not self._here[project_id]:
                del self._here[project_id]


async def dry_run(services: Services, turns: Turns, project_id: str, asked: DryRun) -> DryRunAnswer:
    """Evaluate once and return what came of it; nothing is stored, and no signal raised."""
    now_ns = services.clock.now_ns()
    evaluator = await _evaluator(services, project_id, asked, now_ns)
    # No evaluator is behind it, so that an endpoint is told no ids, and no two dry runs share a sandbox.
    draft = replace(evaluator.revision, id=new_id("dry", now_ns), evaluator_id="")
    async with turns.turn(project_id):
        try:
            revision = await vetted(services.engine, draft)
        except InvalidInputError as error:
            if error.field != SOURCE_FIELD or not draft.source:
                raise
            return _answer(_refused(draft, error, now_ns), None)
        subject = await _subject(services, project_id, asked, revision, now_ns)
        ((result, answered),) = await services.engine.watched(revision, [subject], evaluator.credentials)
    if isinstance(result, Unavailable):
        log.warning("dry-run-unavailable", cause=result.cause)
        raise SandboxUnavailableError("The evaluator could not be run now, through no fault of its own; try again.")
    return _answer(result, answered)


async def _evaluator(services: Services, project_id: str, asked: DryRun, now_ns: int) -> Evaluator:
    """Return what to try: the fields by themselves, or laid over the stored evaluator that is meant."""
    named = {name for name in (asked.evaluator_id, asked.id, asked.also_id) if name is not None}
    if len(named) > 1:
        raise InvalidInputError("evaluatorId, id and _id name different evaluators; give one.", field="evaluatorId")
    if not named:
        draft = new_evaluator(project_id, asked, now_ns, name=asked.name or UNNAMED)
        demand_affordable(draft.revision, None, services.limits)
        return with_credentials(services.vault, draft, asked)
    async with services.store.snapshot() as snapshot:
        stored = await load_evaluator(snapshot, project_id, named.pop())
    changed = laid_over(stored, asked)
    demand_affordable(changed.revision, stored.revision, services.limits)
    return with_credentials(services.vault, changed, asked)


async def _subject(services: Services, project_id: str, asked: DryRun, revision: Revision, now_ns: int) -> Subject:
    if asked.sample is not None and asked.trace_id is not None:
        raise InvalidInputError("sample and traceId were given; give one of them.", field="traceId")
    if asked.sample is not None:
        return _testcase(asked.sample, revision, project_id, now_ns)
    if asked.trace_id is not None:
        async with services.store.snapshot() as snapshot:
            return await load_trace(snapshot, project_id, asked.trace_id)
    return sample_trace(project_id, revision.interface, now_ns)


def _testcase(sample: Sample, revision: Revision, project_id: str, now_ns: int) -> Testcase:
    _demand_portable(sample.model_dump(exclude_unset=True))
    given = sample.model_fields_set
    for word, synonym in (("inputs", "input"), ("outputs", "output")):
        if word in given and synonym in given and getattr(sample, word) != getattr(sample, synonym):
            raise InvalidInputError(f"{word} and {synonym} contradict each other; give one.", field=f"sample.{word}")
    spans = _spans(sample, now_ns)
    view = sample.trace
    if view is None and spans:
        view = trace_view(_assembled(project_id, spans, now_ns))
    return Testcase(
        inputs=sample.inputs if "inputs" in given else sample.input,
        outputs=sample.outputs if "outputs" in given else sample.output,
        expected=sample.expected,
        metadata=sample.metadata or {},
        trace=view,
        spans=tuple(spans),
        app_params=sample.app_params,
    )


def _spans(sample: Sample, now_ns: int) -> list[Span]:
    """Read the caller's spans as though they had been sent."""
    if not sample.spans:
        return []
    body = json.dumps({"trace_id": "sample", "spans": sample.spans}).encode()
    limits = BodyLimits(wire_bytes=len(body), decompressed_bytes=len(body))
    try:
        return decode_plain(body, "application/json", None, limits, now_ns=now_ns).spans
    except InvalidInputError as error:
        raise InvalidInputError(f"sample.{error}", field=f"sample.{error.field or 'spans'}") from error


def _demand_portable(value: Any) -> None:
    """Refuse what JSON does not have, or many readers of it cannot hold, and what would arrive as something else."""
    waiting = [(value, 0)]
    while waiting:
        inner, depth = waiting.pop()
        if isinstance(inner, float) and not math.isfinite(inner):
            raise InvalidInputError(f"The sample holds {inner}, which is no number of JSON.", field="sample")
        if isinstance(inner, int) and abs(inner) > LARGEST_INTEGER:
            raise InvalidInputError("The sample holds a number of more than 64 bits; send it as text.", field="sample")
        if depth > MAX_DEPTH:
            raise InvalidInputError(f"The sample is nested deeper than {MAX_DEPTH} levels.", field="sample")
        if isinstance(inner, dict):
            waiting.extend((item, depth + 1) for item in cast("dict[str, Any]", inner).values())
        elif isinstance(inner, list):
            waiting.extend((item, depth + 1) for item in cast("list[Any]", inner))


def sample_trace(project_id: str, interface: Interface | None, now_ns: int) -> Trace:
    """Return a made-up trace: a root and one model call. `evaluate` gets named inputs, everybody else the question."""
    is_named = interface is not None and interface != "handler"
    inputs: JsonValue = {"question": QUESTION, "correct_answer": REPLY} if is_named else QUESTION
    root = Span(
        trace_id="sample",
        span_id="sample-root",
        name="support-desk",
        started_at_ns=now_ns - 1450 * NS_PER_MS,
        ended_at_ns=now_ns,
        status="OK",
        input=inputs,
        output=REPLY,
        metadata={"channel": "chat"},
        agent="support-desk",
        framework="sample",
        session_id="sample-session",
    )
    call = Span(
        trace_id="sample",
        span_id="sample-llm",
        parent_span_id="sample-root",
        name="chat",
        started_at_ns=now_ns - 1200 * NS_PER_MS,
        ended_at_ns=now_ns - 300 * NS_PER_MS,
        status="OK",
        input=QUESTION,
        output=REPLY,
        model="sample-model",
        input_tokens=220,
        output_tokens=64,
        total_tokens=284,
        cost=0.0007,
        agent="support-desk",
        framework="sample",
        session_id="sample-session",
    )
    return _assembled(project_id, [root, call], now_ns)


def _assembled(project_id: str, spans: list[Span], now_ns: int) -> Trace:
    return assemble(project_id, spans, revision=1, created_at_ns=now_ns, agent_id=None, agent=spans[0].agent)


def _refused(revision: Revision, error: InvalidInputError, now_ns: int) -> Check:
    """Return the check of a source that could not be saved either."""
    reading = Reading(status="errored", error=CheckError(kind="invalid-source", message=str(error), line=error.line))
    return Check(
        id=new_id("chk", now_ns),
        project_id=revision.project_id,
        evaluator_id="",
        revision_id=revision.id,
        trace_id=None,
        trace_revision=0,
        agent_id=None,
        reading=reading,
        logs="",
        duration_s=0.0,
        runner="none",
        recorded_at_ns=now_ns,
    )


def _answer(check: Check, answered: HttpAnswer | None) -> DryRunAnswer:
    shown = check_answer(check)
    fields: dict[str, Any] = {} if answered is None else {"http": http_answer(answered)}
    if shown.error is not None:
        return DryRunAnswer(
            ok=False, latency_ms=shown.duration_ms, error=shown.error.message, check=shown, logs=shown.logs, **fields
        )
    matches, score = shown.metrics.get("matches"), shown.metrics.get("score")
    response = DryRunResponse(
        matches=matches if isinstance(matches, bool) else shown.failed,
        score=score if isinstance(score, int | float) and not isinstance(score, bool) else None,
        reason=shown.reason,
    )
    return DryRunAnswer(
        ok=True,
        latency_ms=shown.duration_ms,
        response=response,
        would_raise=shown.failed,
        check=shown,
        logs=shown.logs,
        **fields,
    )

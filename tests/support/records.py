"""Records for the store's tests, in their smallest form."""

from dataclasses import replace
from typing import Any

from assay.domain.access import ApiKey
from assay.domain.agent import Agent
from assay.domain.check import Check, CheckError, Reading, Verdict
from assay.domain.evaluator import Evaluator
from assay.domain.failure_window import Occurrence
from assay.domain.identity import derived_id
from assay.domain.signal import Signal
from assay.domain.trace import Span
from assay.ports import Store, TraceRecord
from assay.testing import NOW_NS, a_revision, a_span

PROJECT = "default"


def an_evaluator(evaluator_id: str = "evl_1", **settings: Any) -> Evaluator:
    evaluator = Evaluator(
        id=evaluator_id,
        project_id=PROJECT,
        name="check",
        sample_rate=1,
        created_at_ns=NOW_NS,
        updated_at_ns=NOW_NS,
        revision=a_revision("def evaluate(i, o, t):\n    return True\n", evaluator_id=evaluator_id),
    )
    return replace(evaluator, **settings)


def a_reading(*, failed: bool = False) -> Reading:
    return Reading(
        status="scored",
        metrics={"success": not failed, "nested.depth": 2, "list": [1, None, "x"]},
        name="named",
        reason="because",
        metadata={"k": {"deep": True}},
        verdict=Verdict(failed=failed, reason="because"),
    )


def a_check(trace_id: str = "t1", *, failed: bool = False, **fields: Any) -> Check:
    check = Check(
        id="",
        project_id=PROJECT,
        evaluator_id="evl_1",
        revision_id="evl_1_1",
        trace_id=trace_id,
        trace_revision=1,
        agent_id=None,
        reading=a_reading(failed=failed),
        logs="printed\n",
        duration_s=0.125,
        runner="fake",
        recorded_at_ns=NOW_NS,
    )
    check = replace(check, **fields)
    return replace(check, id=derived_id("chk", check.revision_id, check.trace_id or "", check.trace_revision))


def an_error(kind: str, message: str = "no") -> Reading:
    return Reading(status="errored", error=CheckError(kind=kind, message=message, line=3, traceback="…"))


def a_signal(check: Check, **fields: Any) -> Signal:
    occurrence = Occurrence(
        check_id=check.id,
        trace_id=check.trace_id or "",
        metrics=check.reading.metrics,
        reason="because",
        occurred_at_ns=check.recorded_at_ns,
    )
    signal = Signal(
        id=derived_id("sig", check.project_id, check.evaluator_id, check.agent_id or ""),
        project_id=check.project_id,
        evaluator_id=check.evaluator_id,
        agent_id=check.agent_id,
        severity="high",
        count=1,
        first_seen_ns=NOW_NS,
        last_seen_ns=NOW_NS,
        updated_at_ns=NOW_NS,
        evidence=(occurrence,),
    )
    return replace(signal, **fields)


def a_key(digest: str, created_at_ns: int = NOW_NS) -> ApiKey:
    return ApiKey(
        id=f"key_{digest}",
        project_id=PROJECT,
        role="member",
        digest=digest,
        prefix="as_12",
        created_at_ns=created_at_ns,
    )


def named(span: Span, agent: str, framework: str | None = None) -> Span:
    return replace(span, agent=agent, framework=framework)


async def accept(store: Store, *spans: Span, now_ns: int = NOW_NS, project_id: str = PROJECT) -> dict[str, TraceRecord]:
    async with store.transaction() as transaction:
        return await transaction.add_spans(project_id, spans, now_ns)


async def add_evaluators(store: Store, *evaluators: Evaluator) -> None:
    async with store.transaction() as transaction:
        for evaluator in evaluators:
            await transaction.add_evaluator(evaluator)


async def agents_of(store: Store, project_id: str = PROJECT) -> list[Agent]:
    async with store.snapshot() as snapshot:
        return await snapshot.list_agents(project_id)


def spans_of_many_traces(count: int) -> list[Span]:
    return [a_span("root", trace_id=f"t{number}") for number in range(count)]

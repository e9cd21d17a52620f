"""Run the claimed checks of one evaluator: each revision once, over all its traces."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from assay.domain.check import Check
from assay.domain.outcome import Unavailable
from assay.domain.trace import Trace
from assay.engine import Engine
from assay.ingest.assembly import assemble
from assay.live.work import CheckDue, decode_check_due
from assay.ports import Claim, Snapshot, Store

# How often the evaluators of what runs are looked for, in seconds.
LOOK_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed:
    """What came of a batch of claims: the checks to record, the claims now done, and those to try again.

    `waits_s` says how long each of the last should wait at least, in seconds.
    """

    checks: list[Check]
    done: list[Claim]
    retry: list[Claim]
    causes: list[str]
    waits_s: list[float]


async def _load(snapshot: Snapshot, engine: Engine, due: Sequence[CheckDue]) -> dict[tuple[str, str], Trace]:
    keys = list({(entry.project_id, entry.trace_id) for entry in due})
    records = await snapshot.traces(keys)
    spans = await snapshot.spans(keys)
    names = {
        agent.id: agent.name for project in {key[0] for key in keys} for agent in await snapshot.list_agents(project)
    }

    def assembled() -> dict[tuple[str, str], Trace]:
        return {
            key: assemble(
                record.project_id,
                spans[key],
                revision=record.revision,
                created_at_ns=record.created_at_ns,
                agent_id=record.agent_id,
                agent=names.get(record.agent_id) if record.agent_id else None,
            )
            for key, record in records.items()
            if spans.get(key)
        }

    return await engine.beside_the_loop([span for members in spans.values() for span in members], assembled)


async def execute_while_wanted(store: Store, engine: Engine, claims: Sequence[Claim]) -> Executed:
    """Run the claims' checks, and give them up when all their evaluators are deleted meanwhile."""
    running = asyncio.ensure_future(execute(store, engine, claims))
    try:
        while not running.done():
            await asyncio.wait((running,), timeout=LOOK_S)
            if not running.done() and not await _are_wanted(store, claims):
                return Executed(checks=[], done=list(claims), retry=[], causes=[], waits_s=[])
        return running.result()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def _are_wanted(store: Store, claims: Sequence[Claim]) -> bool:
    due = [decode_check_due(claim.payload) for claim in claims]
    async with store.snapshot() as snapshot:
        for project_id, evaluator_id in {(entry.project_id, entry.evaluator_id) for entry in due}:
            if await snapshot.evaluator(project_id, evaluator_id) is not None:
                return True
    return False


async def execute(store: Store, engine: Engine, claims: Sequence[Claim]) -> Executed:
    """Run the claims' checks; those of a deleted evaluator or trace are done without one."""
    due = [decode_check_due(claim.payload) for claim in claims]
    async with store.snapshot() as snapshot:
        traces = await _load(snapshot, engine, due)
        revisions = await snapshot.revisions_by_id(list({entry.evaluator_revision_id for entry in due}))
        evaluators = {
            entry.evaluator_id: await snapshot.evaluator(entry.project_id, entry.evaluator_id)
            for entry in {entry.evaluator_id: entry for entry in due}.values()
        }
    groups: dict[str, list[tuple[Claim, Trace]]] = {}
    executed = Executed(checks=[], done=[], retry=[], causes=[], waits_s=[])
    for claim, entry in zip(claims, due, strict=True):
        trace = traces.get((entry.project_id, entry.trace_id))
        revision = revisions.get(entry.evaluator_revision_id)
        if trace is None or revision is None or evaluators[entry.evaluator_id] is None:
            executed.done.append(claim)
        else:
            groups.setdefault(entry.evaluator_revision_id, []).append((claim, _as_of(trace, entry)))
    for revision_id, members in groups.items():
        revision = revisions[revision_id]
        evaluator = evaluators[revision.evaluator_id]
        credentials = None if evaluator is None else evaluator.credentials
        results = await engine.evaluate(revision, [trace for _, trace in members], credentials)
        for (claim, _), result in zip(members, results, strict=True):
            if isinstance(result, Unavailable):
                executed.retry.append(claim)
                executed.causes.append(result.cause)
                executed.waits_s.append(result.after_s)
            else:
                executed.checks.append(result)
                executed.done.append(claim)
    return executed


def _as_of(trace: Trace, entry: CheckDue) -> Trace:
    """Name the trace revision that owes the check, so that a redelivery makes the same one."""
    return trace if trace.revision == entry.trace_revision else replace(trace, revision=entry.trace_revision)

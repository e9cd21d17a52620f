"""Pick the evaluators of each whole trace, and owe a check for each."""

from collections.abc import Sequence

from assay.domain.evaluator import Evaluator
from assay.domain.sampling import Run, decide
from assay.live.work import CHECK_LANE, CheckDue, encode
from assay.ports import Snapshot, TraceRecord, Transaction, Work


async def sample(snapshot: Snapshot, records: Sequence[TraceRecord]) -> list[CheckDue]:
    """Return the checks these traces owe, by scope and deterministic sampling."""
    evaluators: dict[str, list[Evaluator]] = {}
    for project_id in {record.project_id for record in records}:
        evaluators[project_id] = await snapshot.list_evaluators(project_id)
    return [
        CheckDue(record.project_id, evaluator.id, evaluator.revision.id, record.trace_id, record.revision)
        for record in records
        for evaluator in evaluators[record.project_id]
        if isinstance(decide(evaluator, record.agent_id, record.trace_id), Run)
    ]


async def owe(
    transaction: Transaction, records: Sequence[TraceRecord], checks: Sequence[CheckDue], *, now_ns: int
) -> None:
    """Put the owed checks into their evaluators' lanes, and note that these trace revisions had theirs."""
    await transaction.enqueue(
        [Work(lane=CHECK_LANE + check.evaluator_id, payload=encode(check), due_at_ns=now_ns) for check in checks]
    )
    for record in records:
        await transaction.mark_checked(record.project_id, record.trace_id, record.revision)

"""Write spans and owe a look at each trace they changed."""

from collections.abc import Sequence

from assay.domain.trace import Span
from assay.live.work import SETTLE_LANE, TraceDue, encode
from assay.ports import Transaction, Work


async def accept(
    transaction: Transaction, project_id: str, spans: Sequence[Span], *, now_ns: int, settle_s: float
) -> int:
    """Return how many traces changed; spans already stored with the same content change nothing."""
    changed = await transaction.add_spans(project_id, spans, now_ns)
    due_at_ns = now_ns + int(settle_s * 1e9)
    await transaction.enqueue(
        [
            Work(
                lane=SETTLE_LANE + project_id,
                payload=encode(TraceDue(project_id, trace_id, record.revision)),
                due_at_ns=due_at_ns,
            )
            for trace_id, record in changed.items()
        ]
    )
    return len(changed)

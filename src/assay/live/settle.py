"""Tell which traces are whole: quiet for long enough, or waited for as long as we ever do."""

from collections.abc import Sequence

from assay.live.work import TraceDue
from assay.ports import Snapshot, TraceRecord


def is_whole(due: TraceDue, record: TraceRecord | None, *, now_ns: int, settle_max_s: float) -> bool:
    """Decide whether this entry, due `settle_s` after its change, is the one that starts the trace's checks.

    A later change has an entry of its own, so this one only counts when the trace never gets quiet.
    """
    if record is None or record.checked_revision >= record.revision:
        return False
    if record.revision > due.revision:
        return now_ns - record.pending_since_ns >= settle_max_s * 1e9
    return True


async def settled(
    snapshot: Snapshot, due: Sequence[TraceDue], *, now_ns: int, settle_max_s: float
) -> list[TraceRecord]:
    """Return the records of the traces to check now, each once."""
    records = await snapshot.traces([(entry.project_id, entry.trace_id) for entry in due])
    whole = {
        (entry.project_id, entry.trace_id): record
        for entry in due
        if (record := records.get((entry.project_id, entry.trace_id))) is not None
        and is_whole(entry, record, now_ns=now_ns, settle_max_s=settle_max_s)
    }
    return list(whole.values())

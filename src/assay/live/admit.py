"""Let new traces in, or turn them away when too many entries wait: by project, so that none shuts out the others."""

from assay.errors import OverloadedError
from assay.live.meters import Meters
from assay.live.work import CHECK_LANE, SETTLE_LANE
from assay.ports import Clock, Queue, Store

RETRY_AFTER_S = 5
DEPTH_AGE_S = 0.5
# A project that has not filled this part of the backlog itself is let in although the whole is full.
SHARE = 4


class Admission:
    """Knows how much waits, from a count that is half a second old at the most."""

    def __init__(self, *, store: Store, queue: Queue, clock: Clock, meters: Meters, max_backlog: int) -> None:
        self._store = store
        self._queue = queue
        self._clock = clock
        self._meters = meters
        self._max_backlog = max_backlog
        self._counted_at_ns = 0
        self._depth = 0
        self._depths: dict[str, int] = {}

    async def admit(self, project_id: str) -> None:
        """Return when the project may add entries. Raises OverloadedError when it has its share of a full backlog."""
        now_ns = self._clock.now_ns()
        if now_ns - self._counted_at_ns > DEPTH_AGE_S * 1e9:
            self._counted_at_ns = now_ns
            self._depth = await self._queue.depth()
            self._depths.clear()
            self._meters.backlog.set(self._depth)
        if self._depth < self._max_backlog:
            return
        if project_id not in self._depths:
            self._depths[project_id] = await self._queue.depth_of(await self._lanes(project_id))
        own, share = self._depths[project_id], max(1, self._max_backlog // SHARE)
        if own >= share:
            raise OverloadedError(
                f"{own} queue entries of this project wait and at most {share} may while the queue is full; "
                f"send this again in {RETRY_AFTER_S} s.",
                retry_after_s=RETRY_AFTER_S,
            )

    async def _lanes(self, project_id: str) -> list[str]:
        async with self._store.snapshot() as snapshot:
            evaluators = await snapshot.list_evaluators(project_id)
        return [SETTLE_LANE + project_id, *(CHECK_LANE + evaluator.id for evaluator in evaluators)]

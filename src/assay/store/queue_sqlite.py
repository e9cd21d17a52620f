"""The work queue as a table of the SQLite file, for the servers that share it."""

import asyncio
import json
import time
from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, delete, func, insert, select, text, update

from assay.ports import Claim, Work
from assay.store.group_commit import Writer
from assay.store.sqlite_file import Readers
from assay.store.tables import queue

# Steps from lane to lane over the index, so that it costs per lane and not per entry.
_LANES = text(
    """
    WITH RECURSIVE lanes(lane) AS (
        SELECT min(lane) FROM queue
        UNION ALL
        SELECT (SELECT min(lane) FROM queue WHERE queue.lane > lanes.lane) FROM lanes WHERE lanes.lane IS NOT NULL
    )
    SELECT lane FROM lanes
    WHERE lane IS NOT NULL
      AND EXISTS (SELECT 1 FROM queue WHERE queue.lane = lanes.lane AND queue.ready_at_ns <= :now_ns)
    """
)
# A claim raises `attempt`, so (id, attempt) names one claim: what an entry's former holder says of it changes nothing.
_HELD = (queue.c.id == bindparam("entry_id"), queue.c.attempt == bindparam("entry_attempt"))
_MOVE = update(queue).where(*_HELD).values(ready_at_ns=bindparam("ready_at"))


class SqliteQueue:
    """The durable queue. Claims, leases and retries commit together with what else is written."""

    def __init__(self, writer: Writer, readers: Readers, *, lease_s: float) -> None:
        self._writer = writer
        self._readers = readers
        self._lease_ns = int(lease_s * 1e9)
        self._arrived = asyncio.Event()

    def enqueue(self, connection: Connection, work: Sequence[Work]) -> None:
        """Write entries on a transaction's connection."""
        connection.execute(
            insert(queue),
            [
                {"lane": item.lane, "payload": item.payload, "ready_at_ns": item.due_at_ns, "attempt": 0}
                for item in work
            ],
        )

    def settle(self, connection: Connection, claims: Sequence[Claim]) -> None:
        """Delete entries on a transaction's connection."""
        connection.execute(
            delete(queue).where(queue.c.id == bindparam("entry_id")), [{"entry_id": int(claim.id)} for claim in claims]
        )

    def wake(self) -> None:
        """Tell who waits that entries were committed."""
        self._arrived.set()

    async def lanes(self, now_ns: int) -> list[str]:
        """Return the lanes that have entries to claim now."""
        async with self._readers.session() as session:
            return await session.ask(_ready_lanes, now_ns)

    async def claim(self, lane: str, limit: int) -> list[Claim]:
        """Lease up to `limit` due entries of a lane, oldest first."""
        async with self._writer.body() as session:
            return await session.ask(_claim, lane, limit, time.time_ns(), self._lease_ns)

    async def extend(self, claims: Sequence[Claim]) -> None:
        """Renew the leases of those claims that are still ours."""
        await self._move(claims, time.time_ns() + self._lease_ns)

    async def release(self, claims: Sequence[Claim], delay_s: float) -> None:
        """Give entries back, to be claimed again after the delay in seconds."""
        await self._move(claims, time.time_ns() + int(delay_s * 1e9))
        self.wake()

    async def _move(self, claims: Sequence[Claim], ready_at_ns: int) -> None:
        if not claims:
            return
        moves = [
            {"entry_id": int(claim.id), "entry_attempt": claim.attempt, "ready_at": ready_at_ns} for claim in claims
        ]
        async with self._writer.body() as session:
            await session.ask(_move, moves)

    async def depth(self) -> int:
        """Return how many entries wait or run."""
        async with self._readers.session() as session:
            return await session.ask(_count)

    async def depth_of(self, lanes: Sequence[str]) -> int:
        """Return how many entries of these lanes wait or run."""
        async with self._readers.session() as session:
            return await session.ask(_count_of, lanes)

    async def wait(self, timeout_s: float) -> None:
        """Return when this process enqueued something since the last wait, or after the timeout."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._arrived.wait()
        except TimeoutError:
            return
        self._arrived.clear()

    async def close(self) -> None:
        """Let go of nothing: the connections are the store's."""


def _ready_lanes(connection: Connection, now_ns: int) -> list[str]:
    return list(connection.execute(_LANES, {"now_ns": now_ns}).scalars())


def _count(connection: Connection) -> int:
    return connection.execute(select(func.count()).select_from(queue)).scalar_one()


def _count_of(connection: Connection, lanes: Sequence[str]) -> int:
    """Count over the index; the lanes travel as one parameter, since SQLite bounds how many there may be."""
    wanted = select(func.json_each(json.dumps(lanes)).table_valued("value").c.value)
    return connection.execute(select(func.count()).where(queue.c.lane.in_(wanted))).scalar_one()


def _move(connection: Connection, moves: list[dict[str, int]]) -> None:
    connection.execute(_MOVE, moves)


def _claim(connection: Connection, lane: str, limit: int, now_ns: int, lease_ns: int) -> list[Claim]:
    due = (
        select(queue.c.id)
        .where(queue.c.lane == lane, queue.c.ready_at_ns <= now_ns)
        .order_by(queue.c.ready_at_ns, queue.c.id)
        .limit(limit)
    )
    statement = (
        update(queue)
        .where(queue.c.id.in_(due))
        .values(ready_at_ns=now_ns + lease_ns, attempt=queue.c.attempt + 1)
        .returning(queue.c.id, queue.c.payload, queue.c.attempt)
    )
    rows = sorted(connection.execute(statement).all(), key=lambda row: row.id)
    return [Claim(id=str(row.id), lane=lane, payload=row.payload, attempt=row.attempt) for row in rows]

"""The work queue in PostgreSQL: PgQueuer's table and statements, a lane being one of its entrypoints.

Entries are enqueued and settled on the connection of the store's own transaction. Times are the database's, so that
servers whose clocks differ agree on what is due.
"""

import asyncio
import time
import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import psycopg
import structlog
from pgqueuer.adapters.persistence.qb import QueryQueueBuilder
from pgqueuer.domain.types import QueueEntrypoint, QueueManagerId
from psycopg import sql
from psycopg.rows import dict_row
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncEngine

from assay.domain.text import storable
from assay.ports import Claim, Work
from assay.store.queue_schema import SETTINGS
from assay.store.sessions import LoopSession

_TABLE = SETTINGS.queue_table
_LOG = SETTINGS.queue_table_log
# Steps from lane to lane over the index, so that it costs per lane and not per entry.
_LANES = f"""
    WITH RECURSIVE lanes(lane) AS (
        SELECT min(entrypoint) FROM {_TABLE} WHERE status = 'queued'
        UNION ALL
        SELECT (SELECT min(entrypoint) FROM {_TABLE} WHERE status = 'queued' AND entrypoint > lanes.lane)
        FROM lanes WHERE lanes.lane IS NOT NULL
    )
    SELECT lane FROM lanes
    WHERE lane IS NOT NULL AND EXISTS (
        SELECT FROM {_TABLE} WHERE status = 'queued' AND entrypoint = lanes.lane AND execute_after < now()
    )
    UNION
    SELECT entrypoint FROM {_TABLE} WHERE status = 'picked' AND heartbeat < now() - $1::interval
"""
# A claim names its holder, so what an entry's former holder says of it changes nothing.
_EXTEND = f"""
    UPDATE {_TABLE} SET heartbeat = now() WHERE id = ANY($1::bigint[]) AND queue_manager_id = ANY($2::uuid[])
"""
_RELEASE = f"""
    UPDATE {_TABLE}
    SET status = 'queued', execute_after = now() + $3::interval, attempts = attempts + 1, updated = now(),
        queue_manager_id = NULL
    WHERE id = ANY($1::bigint[]) AND queue_manager_id = ANY($2::uuid[])
"""
# PgQueuer logs every step of every entry and leaves it to its operator to prune; what is done needs no log.
_SETTLE = f"""
    WITH logged AS (DELETE FROM {_LOG} WHERE job_id = ANY($1::bigint[]))
    DELETE FROM {_TABLE} WHERE id = ANY($1::bigint[])
"""
_DEPTH = f"SELECT count(*) AS depth FROM {_TABLE}"
_DEPTH_OF = f"{_DEPTH} WHERE entrypoint = ANY($1::text[])"
RECONNECT_S = 1.0

log = structlog.stdlib.get_logger("assay.store")


class _Held(NamedTuple):
    """What a claim's id says: the entry, and the holder it was claimed by."""

    entries: list[int]
    holders: list[str]


class PostgresQueue:
    """The durable queue, shared by all servers of the database."""

    def __init__(self, engine: AsyncEngine, *, lease_s: float) -> None:
        self._engine = engine
        self._lease = timedelta(seconds=lease_s)
        self._statements = QueryQueueBuilder(SETTINGS)
        self._arrived = asyncio.Event()
        self._listening: asyncio.Task[None] | None = None

    def enqueue(self, connection: Connection, work: Sequence[Work]) -> None:
        """Write entries on a transaction's connection."""
        now_ns = time.time_ns()
        _run(
            connection,
            self._statements.build_enqueue_query(),
            [0] * len(work),
            [storable(item.lane) for item in work],
            [item.payload for item in work],
            [timedelta(microseconds=max(0, item.due_at_ns - now_ns) / 1000) for item in work],
            [None] * len(work),
            ["null"] * len(work),
        )

    def settle(self, connection: Connection, claims: Sequence[Claim]) -> None:
        """Delete entries on a transaction's connection."""
        _run(connection, _SETTLE, _held(claims).entries)

    async def lanes(self, now_ns: int) -> list[str]:
        """Return the lanes that have entries to claim now, by the database's clock."""
        return [row["lane"] for row in await self._ask(_LANES, self._lease)]

    async def claim(self, lane: str, limit: int) -> list[Claim]:
        """Lease up to `limit` due entries of a lane, oldest first; others skip what this claim has locked."""
        holder = uuid.uuid4()
        query = self._statements.build_dequeue_query(
            batch_size=limit,
            entrypoints=[QueueEntrypoint(storable(lane))],
            concurrency_limits=[0],
            queue_manager_id=QueueManagerId(holder),
            global_concurrency_limit=None,
            heartbeat_timeout=self._lease,
        )
        return [
            Claim(id=f"{row['id']}:{holder}", lane=lane, payload=row["payload"], attempt=row["attempts"] + 1)
            for row in await self._ask(query.sql, *query.args)
        ]

    async def extend(self, claims: Sequence[Claim]) -> None:
        """Renew the leases of those claims that are still ours."""
        if claims:
            await self._ask(_EXTEND, *_held(claims))

    async def release(self, claims: Sequence[Claim], delay_s: float) -> None:
        """Give entries back, to be claimed again after the delay in seconds."""
        if claims:
            await self._ask(_RELEASE, *_held(claims), timedelta(seconds=delay_s))
            self._arrived.set()

    async def depth(self) -> int:
        """Return how many entries wait or run."""
        return (await self._ask(_DEPTH))[0]["depth"]

    async def depth_of(self, lanes: Sequence[str]) -> int:
        """Return how many entries of these lanes wait or run."""
        return (await self._ask(_DEPTH_OF, [storable(lane) for lane in lanes]))[0]["depth"]

    async def wait(self, timeout_s: float) -> None:
        """Return when any server enqueued something since the last wait, or after the timeout."""
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen(), name="queue-listener")
        try:
            async with asyncio.timeout(timeout_s):
                await self._arrived.wait()
        except TimeoutError:
            return
        self._arrived.clear()

    async def close(self) -> None:
        """Stop listening; the other connections are the store's."""
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)

    async def _ask(self, statement: str, *arguments: Any) -> list[dict[str, Any]]:
        async with self._engine.begin() as connection:
            return await LoopSession(connection).ask(_run, statement, *arguments)

    async def _listen(self) -> None:
        """Keep a connection that hears of entries; without one, waiters still wake at their timeouts."""
        url = self._engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
        while True:
            try:
                async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
                    await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(SETTINGS.channel)))
                    self._arrived.set()
                    async for notice in connection.notifies():
                        if '"insert"' in notice.payload:
                            self._arrived.set()
            except psycopg.Error as error:
                log.warning("queue-listener-lost", cause=type(error).__name__)
            await asyncio.sleep(RECONNECT_S)


def _held(claims: Sequence[Claim]) -> _Held:
    pairs = [claim.id.split(":", 1) for claim in claims]
    return _Held([int(entry) for entry, _ in pairs], sorted({holder for _, holder in pairs}))


def _run(connection: Connection, statement: str, *arguments: Any) -> list[dict[str, Any]]:
    """Run a statement with $1, $2 … on the driver's own connection, inside the transaction that is under way."""

    async def answer(driver: psycopg.AsyncConnection[Any]) -> list[dict[str, Any]]:
        cursor = psycopg.AsyncRawCursor(driver, row_factory=dict_row)
        await cursor.execute(statement.encode(), arguments)
        return await cursor.fetchall() if cursor.description else []

    raw = connection.connection.dbapi_connection
    assert raw is not None
    return raw.run_async(answer)

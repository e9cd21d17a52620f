"""The store in a PostgreSQL database that several servers share."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import create_async_engine

from assay.store.outage import outages_named
from assay.store.queue_postgres import PostgresQueue
from assay.store.sessions import LoopSession
from assay.store.transaction import SqlSnapshot, SqlTransaction

CONNECTIONS = 10
SPARE_CONNECTIONS = 10


class PostgresStore:
    """The durable state in a database; rows that two writers change are locked in one order everywhere."""

    def __init__(self, url: URL, *, lease_s: float) -> None:
        self._writers = create_async_engine(
            url, pool_size=CONNECTIONS, max_overflow=SPARE_CONNECTIONS, pool_pre_ping=True, hide_parameters=True
        )
        self._readers = self._writers.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        self.queue = PostgresQueue(self._writers, lease_s=lease_s)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[SqlTransaction]:
        """Make the block's changes durable when it ends, or none of them when it raises."""
        with outages_named():
            async with self._writers.begin() as connection:
                transaction = SqlTransaction(LoopSession(connection), self.queue)
                yield transaction
                await transaction.flush()

    @asynccontextmanager
    async def snapshot(self) -> AsyncGenerator[SqlSnapshot]:
        """Answer the block's questions from one consistent view."""
        with outages_named():
            async with self._readers.connect() as connection:
                yield SqlSnapshot(LoopSession(connection))

    async def close(self) -> None:
        """Let go of the connections."""
        await self._writers.dispose()

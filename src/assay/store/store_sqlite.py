"""The store in one SQLite file: one writing connection, several reading ones."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import Connection, event
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from assay.store.group_commit import Writer
from assay.store.queue_sqlite import SqliteQueue
from assay.store.transaction import SqlSnapshot, SqlTransaction

READERS = 4
PRAGMAS = (
    "busy_timeout=30000",
    "synchronous=FULL",
    "foreign_keys=ON",
    "temp_store=MEMORY",
    "cache_size=-32768",
    "wal_autocheckpoint=4000",
)


def _engine(url: URL, *, size: int, begin: str, pragmas: tuple[str, ...]) -> AsyncEngine:
    engine = create_async_engine(url, pool_size=size, max_overflow=0)

    def prepare(connection: Any, _record: Any) -> None:
        # The driver would open transactions by itself, and not in every case.
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in pragmas:
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    def start(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    event.listen(engine.sync_engine, "connect", prepare)
    event.listen(engine.sync_engine, "begin", start)
    return engine


class SqliteStore:
    """The durable state in a file; see `group_commit` for how writers share a commit."""

    def __init__(self, url: URL, *, lease_s: float) -> None:
        self._writer = Writer(_engine(url, size=1, begin="BEGIN IMMEDIATE", pragmas=PRAGMAS))
        self._readers = _engine(url, size=READERS, begin="BEGIN", pragmas=(*PRAGMAS, "query_only=ON"))
        self.queue = SqliteQueue(self._writer, self._readers, lease_s=lease_s)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[SqlTransaction]:
        """Make the block's changes durable when it ends, or none of them when it raises."""
        async with self._writer.body() as connection:
            transaction = SqlTransaction(connection, self.queue)
            yield transaction
            await transaction.flush()
        if transaction.enqueued:
            self.queue.wake()

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[SqlSnapshot]:
        """Answer the block's questions from one consistent view."""
        async with self._readers.connect() as connection:
            yield SqlSnapshot(connection)

    async def close(self) -> None:
        """Commit what is under way and let go of the file."""
        await self._writer.close()
        await self._readers.dispose()


def use_write_ahead_log(path: str) -> None:
    """Switch the file to its write-ahead log, which lets readers and the writer work side by side; it stays so."""
    connection = sqlite3.connect(path, timeout=60)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
    finally:
        connection.close()

"""The connections to a SQLite file: one that writes, several that read beside it."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL

from assay.store.sessions import ThreadSession

READERS = 4
PRAGMAS = (
    "busy_timeout=30000",
    "synchronous=FULL",
    "foreign_keys=ON",
    "temp_store=MEMORY",
    "cache_size=-32768",
    "wal_autocheckpoint=4000",
)


def use_write_ahead_log(path: str) -> None:
    """Switch the file to its write-ahead log, which lets readers and the writer work side by side; it stays so."""
    connection = sqlite3.connect(path, timeout=60)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
    finally:
        connection.close()


def writing_engine(url: URL) -> Engine:
    """Return the engine of the one connection that writes; its transactions take the file's lock at once."""
    return _engine(url, size=1, begin="BEGIN IMMEDIATE", pragmas=PRAGMAS)


def _engine(url: URL, *, size: int, begin: str, pragmas: tuple[str, ...]) -> Engine:
    engine = create_engine(
        url, pool_size=size, max_overflow=0, connect_args={"check_same_thread": False}, hide_parameters=True
    )

    def prepare(connection: Any, _record: Any) -> None:
        # The driver would open transactions by itself, and not in every case.
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in pragmas:
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    def start(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    event.listen(engine, "connect", prepare)
    event.listen(engine, "begin", start)
    return engine


class Readers:
    """The reading connections; a snapshot holds one for as long as it lasts."""

    def __init__(self, url: URL) -> None:
        self._engine = _engine(url, size=READERS, begin="BEGIN", pragmas=(*PRAGMAS, "query_only=ON"))
        self._threads = ThreadPoolExecutor(READERS, "sqlite-reader")
        self._free = asyncio.Semaphore(READERS)

    @asynccontextmanager
    async def session(self) -> AsyncGenerator[ThreadSession]:
        """Lend a connection whose answers all come from one consistent view."""
        async with self._free:
            session = ThreadSession(self._engine, self._threads)
            try:
                yield session
            finally:
                await session.close()

    def close(self) -> None:
        """Let go of the file."""
        self._engine.dispose()
        self._threads.shutdown()

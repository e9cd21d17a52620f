"""The store in one SQLite file."""

from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

from sqlalchemy.engine import URL

from assay.store.group_commit import Writer
from assay.store.outage import outages_named
from assay.store.queue_sqlite import SqliteQueue
from assay.store.sessions import ThreadSession
from assay.store.sqlite_file import Readers, writing_engine
from assay.store.transaction import SqlSnapshot, SqlTransaction


class SqliteStore:
    """The durable state in a file; see `group_commit` for how writers share a commit."""

    def __init__(self, url: URL, *, lease_s: float) -> None:
        self._engine = writing_engine(url)
        self._thread = ThreadPoolExecutor(1, "sqlite-writer")
        self._writer = Writer(ThreadSession(self._engine, self._thread))
        self._readers = Readers(url)
        self.queue = SqliteQueue(self._writer, self._readers, lease_s=lease_s)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[SqlTransaction]:
        """Make the block's changes durable when it ends, or none of them when it raises.

        Blocks run one at a time, so none may wait for another, or for a claim, inside it.
        """
        with outages_named():
            async with self._writer.body() as session:
                transaction = SqlTransaction(session, self.queue)
                yield transaction
                await transaction.flush()
        if transaction.enqueued:
            self.queue.wake()

    @asynccontextmanager
    async def snapshot(self) -> AsyncGenerator[SqlSnapshot]:
        """Answer the block's questions from one consistent view."""
        with outages_named():
            async with self._readers.session() as session:
                yield SqlSnapshot(session)

    async def close(self) -> None:
        """Commit what is under way and let go of the file."""
        await self._writer.close()
        self._engine.dispose()
        self._thread.shutdown()
        self._readers.close()

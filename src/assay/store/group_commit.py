"""SQLite's one writer: bodies run one after another, each in its own savepoint, and share a commit.

A commit costs a flush to the disk whatever it holds, so those that finished while others were waiting go together. No
body returns before the commit that holds it is durable; one that fails takes back its own savepoint only.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from assay.store.transaction import uninterrupted

LARGEST_GROUP = 64
LONGEST_GROUP_S = 0.005


class _Group:
    """The bodies of one commit to be; `durable` is done when it is, and carries the failure when it failed."""

    def __init__(self) -> None:
        self.durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.members = 0
        self.opened_s = time.monotonic()


class Writer:
    """The writing connection of one process. Another process may write too: each commit takes the file's lock."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._connection: AsyncConnection | None = None
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._group: _Group | None = None
        self._ends: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def body(self) -> AsyncIterator[AsyncConnection]:
        """Run the block on the writing connection; leave it when its changes are durable.

        Raises what the block raised (its changes are gone), or what the commit failed with.
        """
        await self._take_turn()
        try:
            group, connection = await uninterrupted(self._begin())
            try:
                yield connection
            except BaseException:
                await uninterrupted(self._take_back(group, connection))
                raise
            await uninterrupted(self._keep(group, connection))
        finally:
            await uninterrupted(self._end_turn())
        # The commit may be left to a body behind us; shielded, since it is not ours alone to cancel.
        await asyncio.shield(group.durable)

    async def close(self) -> None:
        """Commit what is left and close the connection."""
        async with self._turn:
            await self._commit()
            if self._connection is not None:
                await self._connection.close()
        await self._engine.dispose()

    async def _take_turn(self) -> None:
        self._waiting += 1
        try:
            await self._turn.acquire()
        except asyncio.CancelledError:
            # The group may have counted on us to commit it.
            task = asyncio.create_task(self._commit_abandoned())
            self._ends.add(task)
            task.add_done_callback(self._ends.discard)
            raise
        finally:
            self._waiting -= 1

    async def _commit_abandoned(self) -> None:
        async with self._turn:
            await self._commit_when_ripe()

    async def _end_turn(self) -> None:
        try:
            await self._commit_when_ripe()
        finally:
            self._turn.release()

    async def _commit_when_ripe(self) -> None:
        group = self._group
        if group is not None and (
            self._waiting == 0 or group.members >= LARGEST_GROUP or time.monotonic() - group.opened_s >= LONGEST_GROUP_S
        ):
            await self._commit()

    async def _begin(self) -> tuple[_Group, AsyncConnection]:
        if self._connection is None:
            self._connection = await self._engine.connect()
        connection = self._connection
        if self._group is None:
            await connection.begin()
            self._group = _Group()
        await connection.exec_driver_sql("SAVEPOINT body")
        return self._group, connection

    async def _keep(self, group: _Group, connection: AsyncConnection) -> None:
        try:
            await connection.exec_driver_sql("RELEASE body")
        except SQLAlchemyError as error:
            await self._fail(group, error)
            raise
        group.members += 1

    async def _take_back(self, group: _Group, connection: AsyncConnection) -> None:
        try:
            await connection.exec_driver_sql("ROLLBACK TO body")
            await connection.exec_driver_sql("RELEASE body")
        except SQLAlchemyError as error:
            # SQLite ended the whole transaction (disk full, I/O error): nobody's changes are left.
            await self._fail(group, error)

    async def _commit(self) -> None:
        group, self._group = self._group, None
        if group is None or self._connection is None:
            return
        try:
            await self._connection.commit()
        except SQLAlchemyError as error:
            await self._fail(group, error)
        else:
            group.durable.set_result(None)

    async def _fail(self, group: _Group, error: SQLAlchemyError) -> None:
        """Tell every body of the group that nothing of it is stored, and start afresh on a new connection."""
        self._group = None
        if not group.durable.done():
            group.durable.set_exception(error)
            group.durable.exception()
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.invalidate(error)
            await connection.close()

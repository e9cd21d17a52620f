"""SQLite's one writer: bodies run one after another, each in its own savepoint, and share a commit.

A commit costs a flush to the disk whatever it holds, so those that finished while others were waiting go together. No
body returns before the commit that holds it is durable; one that fails takes back its own savepoint only.
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from assay.store.sessions import Session, ThreadSession, uninterrupted

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

    def __init__(self, session: ThreadSession) -> None:
        self._session = session
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._group: _Group | None = None
        self._ends: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def body(self) -> AsyncGenerator[Session]:
        """Run the block on the writing connection; leave it when its changes are durable.

        Raises what the block raised (its changes are gone), or what the commit failed with.
        """
        await self._take_turn()
        try:
            group = await uninterrupted(self._begin())
            try:
                yield self._session
            except BaseException:
                await uninterrupted(self._take_back(group))
                raise
            await uninterrupted(self._keep(group))
        finally:
            await uninterrupted(self._end_turn())
        # The commit may be left to a body behind us; shielded, since it is not ours alone to cancel.
        await asyncio.shield(group.durable)

    async def close(self) -> None:
        """Commit what is left and close the connection."""
        async with self._turn:
            await self._commit()
            await self._session.close()

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

    async def _begin(self) -> _Group:
        try:
            await self._session.ask(_open_body, self._group is None)
        except SQLAlchemyError as error:
            await self._fail(self._group, error)
            raise
        if self._group is None:
            self._group = _Group()
        return self._group

    async def _keep(self, group: _Group) -> None:
        try:
            await self._session.ask(_release_body)
        except SQLAlchemyError as error:
            await self._fail(group, error)
            raise
        group.members += 1

    async def _take_back(self, group: _Group) -> None:
        try:
            await self._session.ask(_undo_body)
        except SQLAlchemyError as error:
            # SQLite ended the whole transaction (disk full, I/O error): nobody's changes are left.
            await self._fail(group, error)

    async def _commit(self) -> None:
        group, self._group = self._group, None
        if group is None:
            return
        try:
            await self._session.ask(Connection.commit)
        except SQLAlchemyError as error:
            await self._fail(group, error)
        else:
            group.durable.set_result(None)

    async def _fail(self, group: _Group | None, error: SQLAlchemyError) -> None:
        """Tell every body of the group that nothing of it is stored, and start afresh on a new connection."""
        self._group = None
        if group is not None and not group.durable.done():
            group.durable.set_exception(error)
            group.durable.exception()
        await self._session.discard()


def _open_body(connection: Connection, is_first: bool) -> None:
    if is_first:
        connection.begin()
    connection.exec_driver_sql("SAVEPOINT body")


def _release_body(connection: Connection) -> None:
    connection.exec_driver_sql("RELEASE body")


def _undo_body(connection: Connection) -> None:
    connection.exec_driver_sql("ROLLBACK TO body")
    connection.exec_driver_sql("RELEASE body")

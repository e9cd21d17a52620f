"""How a question reaches a database: on threads for SQLite, through the driver's event loop for PostgreSQL.

A question is a plain function of a connection, so that its statements run one after the other without going back and
forth between threads; the aggregates are made of those.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.ext.asyncio import AsyncConnection

Answer = TypeVar("Answer")
P = ParamSpec("P")
MANY_ROWS = 1000
_threads = ThreadPoolExecutor(1, "reading")


async def uninterrupted(work: Awaitable[Answer]) -> Answer:
    """Let work on the database end before a cancellation takes effect.

    A statement cut off half way costs the connection, and with it the work of others who share it.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError:
                continue
        if not task.cancelled():
            task.exception()
        raise


class Session(Protocol):
    """One connection to ask questions of."""

    async def ask(
        self, question: Callable[Concatenate[Connection, P], Answer], *args: P.args, **kwargs: P.kwargs
    ) -> Answer:
        """Return what the question, a function of the connection, answers."""
        ...

    async def compute(self, work: Callable[[], Answer], size: int) -> Answer:
        """Return what work on an answer of `size` rows comes to, without holding up the event loop."""
        ...


class ThreadSession:
    """A connection used from threads, opened when first asked. One question at a time."""

    def __init__(self, engine: Engine, threads: Executor) -> None:
        self._engine = engine
        self._threads = threads
        self._connection: Connection | None = None

    async def ask(
        self, question: Callable[Concatenate[Connection, P], Answer], *args: P.args, **kwargs: P.kwargs
    ) -> Answer:
        """Return what the question answers."""
        return await self._in_thread(lambda: self._answer(question, *args, **kwargs))

    async def compute(self, work: Callable[[], Answer], size: int) -> Answer:
        """Return what the work comes to."""
        return await self._in_thread(work)

    async def close(self) -> None:
        """Give the connection back; what it did not commit is gone."""
        await self._in_thread(self._close)

    async def discard(self) -> None:
        """Let go of a connection that is not to be trusted any more; the next question opens another."""
        await self._in_thread(self._discard)

    async def _in_thread(self, work: Callable[[], Answer]) -> Answer:
        return await uninterrupted(asyncio.get_running_loop().run_in_executor(self._threads, work))

    def _answer(
        self, question: Callable[Concatenate[Connection, P], Answer], *args: P.args, **kwargs: P.kwargs
    ) -> Answer:
        if self._connection is None:
            self._connection = self._engine.connect()
        return question(self._connection, *args, **kwargs)

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _discard(self) -> None:
        if self._connection is not None:
            self._connection.invalidate()
        self._close()


class LoopSession:
    """A connection of the asynchronous driver, opened and closed by its owner."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def ask(
        self, question: Callable[Concatenate[Connection, P], Answer], *args: P.args, **kwargs: P.kwargs
    ) -> Answer:
        """Return what the question answers."""
        return await uninterrupted(self._connection.run_sync(question, *args, **kwargs))

    async def compute(self, work: Callable[[], Answer], size: int) -> Answer:
        """Return what the work comes to."""
        return work() if size < MANY_ROWS else await asyncio.get_running_loop().run_in_executor(_threads, work)

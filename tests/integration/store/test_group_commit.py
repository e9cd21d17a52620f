import asyncio
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, event, select, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import IntegrityError

from assay.store import group_commit
from assay.store.group_commit import Writer
from assay.store.migrate import migrate
from assay.store.sessions import ThreadSession
from assay.store.sqlite_file import use_write_ahead_log, writing_engine
from assay.store.tables import keys


class Told(Exception):
    """What a body fails with because we say so."""


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    url = make_url(f"sqlite:///{tmp_path / 'assay.db'}")
    use_write_ahead_log(str(tmp_path / "assay.db"))
    migrate(url)
    return writing_engine(url)


@pytest.fixture
async def writer(engine: Engine) -> AsyncGenerator[Writer]:
    thread = ThreadPoolExecutor(1)
    writer = Writer(ThreadSession(engine, thread))
    yield writer
    await writer.close()
    engine.dispose()
    thread.shutdown()


def add(connection: Connection, name: str) -> None:
    values = {"id": name, "project_id": "p", "role": "admin", "digest": name, "prefix": "", "created_at_ns": 0}
    connection.execute(keys.insert().values(values))


def break_the_commit(connection: Connection) -> None:
    """Write what only the commit itself will find wrong."""
    connection.execute(text("PRAGMA defer_foreign_keys = ON"))
    connection.execute(text("INSERT INTO spans (trace_key, span_id, document) VALUES (404, 's', x'')"))


async def write(writer: Writer, name: str) -> None:
    async with writer.body() as session:
        await session.ask(add, name)


async def stored(writer: Writer) -> list[str]:
    def read(connection: Connection) -> list[str]:
        return sorted(connection.execute(select(keys.c.id)).scalars())

    async with writer.body() as session:
        return await session.ask(read)


async def test_bodies_that_wait_for_each_other_share_commits(
    writer: Writer, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "LONGEST_GROUP_S", 60)
    commits: list[object] = []
    event.listen(engine, "commit", commits.append)
    await asyncio.gather(*(write(writer, f"{number:02}") for number in range(40)))
    assert len(commits) <= 2
    assert len(await stored(writer)) == 40


async def test_a_body_that_fails_takes_back_its_own_changes_only(writer: Writer) -> None:
    async def write_unless_told(number: int) -> None:
        async with writer.body() as session:
            await session.ask(add, f"{number:02}")
            if number % 3 == 0:
                raise Told

    ends = await asyncio.gather(*(write_unless_told(number) for number in range(30)), return_exceptions=True)
    assert [isinstance(end, Told) for end in ends] == [number % 3 == 0 for number in range(30)]
    assert await stored(writer) == [f"{number:02}" for number in range(30) if number % 3]


async def test_a_statement_that_fails_spoils_no_neighbour(writer: Writer) -> None:
    ends = await asyncio.gather(*(write(writer, name) for name in ("a", "a", "b")), return_exceptions=True)
    assert [type(end) for end in ends] == [type(None), IntegrityError, type(None)]
    assert await stored(writer) == ["a", "b"]


async def test_nobody_is_told_of_success_when_the_commit_fails(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "LONGEST_GROUP_S", 60)
    held = asyncio.Event()

    async def break_it() -> None:
        async with writer.body() as session:
            await session.ask(break_the_commit)
            await held.wait()

    breaking = asyncio.create_task(break_it())
    await asyncio.sleep(0)
    neighbours = [asyncio.create_task(write(writer, name)) for name in ("a", "b")]
    await asyncio.sleep(0)
    held.set()
    ends = await asyncio.gather(breaking, *neighbours, return_exceptions=True)
    assert [type(end) for end in ends] == [IntegrityError] * 3
    assert await stored(writer) == []
    await write(writer, "later")
    assert await stored(writer) == ["later"]


async def test_a_cancelled_body_leaves_nothing_and_its_neighbours_go_on(writer: Writer) -> None:
    inside = asyncio.Event()

    async def hang() -> None:
        async with writer.body() as session:
            await session.ask(add, "hung")
            inside.set()
            await asyncio.sleep(3600)

    hanging = asyncio.create_task(hang())
    await inside.wait()
    behind = [asyncio.create_task(write(writer, name)) for name in ("a", "b", "c")]
    await asyncio.sleep(0)
    behind[1].cancel()
    hanging.cancel()
    ends = await asyncio.gather(hanging, *behind, return_exceptions=True)
    assert [type(end) for end in ends] == [
        asyncio.CancelledError, type(None), asyncio.CancelledError, type(None)
    ]  # fmt: skip
    assert await stored(writer) == ["a", "c"]


async def test_the_last_in_the_queue_being_cancelled_leaves_nobody_without_an_answer(writer: Writer) -> None:
    inside, go_on = asyncio.Event(), asyncio.Event()

    async def first() -> None:
        async with writer.body() as session:
            await session.ask(add, "first")
            inside.set()
            await go_on.wait()

    answered = asyncio.create_task(first())
    await inside.wait()
    last = asyncio.create_task(write(writer, "last"))
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.sleep(0)
    last.cancel()
    await asyncio.wait_for(answered, 20)
    await asyncio.gather(last, return_exceptions=True)
    assert "first" in await stored(writer)

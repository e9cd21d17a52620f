import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from pgqueuer.adapters.drivers.psycopg import PsycopgDriver
from pgqueuer.adapters.persistence.qb import QueryBuilderEnvironment, QueryQueueBuilder
from pgqueuer.adapters.persistence.queries import Queries
from sqlalchemy import CheckConstraint, Connection, MetaData, create_engine, inspect
from sqlalchemy.engine import make_url

from assay.ports import Work
from assay.store.migrate import migrate
from assay.store.opening import open_store
from assay.store.queue_schema import SETTINGS
from assay.store.tables import metadata, sqlite_metadata

OPEN = """
import asyncio, sys
from assay.store.opening import open_store

async def start():
    store, queue = await open_store(sys.argv[1])
    assert await queue.depth() == 0
    await queue.close()
    await store.close()

asyncio.run(start())
"""


@pytest.fixture
def migrated(database_url: str) -> Iterator[Connection]:
    url = make_url(database_url)
    if url.get_backend_name() == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    migrate(url)
    engine = create_engine(url)
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def declared(connection: Connection) -> list[MetaData]:
    return [metadata, sqlite_metadata] if connection.dialect.name == "sqlite" else [metadata]


def is_ours(_object: object, name: str | None, kind: str, _reflected: bool, _other: object) -> bool:
    return not (kind == "table" and name is not None and name.startswith("pgqueuer"))


def test_the_migrations_make_the_tables_that_are_declared(migrated: Connection) -> None:
    options = {"include_object": is_ours, "compare_type": True, "compare_server_default": True}
    context = MigrationContext.configure(migrated, opts=options)
    assert compare_metadata(context, declared(migrated)) == []  # pyright: ignore[reportArgumentType]


def test_the_migrations_make_the_constraints_that_are_declared(migrated: Connection) -> None:
    inspector = inspect(migrated)
    for table in (table for some in declared(migrated) for table in some.sorted_tables):
        wanted = {str(rule.name) for rule in table.constraints if isinstance(rule, CheckConstraint)}
        assert {f"{rule['name']}" for rule in inspector.get_check_constraints(table.name)} == wanted, table.name


def test_migrating_again_changes_nothing(migrated: Connection) -> None:
    before = sorted(inspect(migrated).get_table_names())
    migrate(migrated.engine.url)
    assert sorted(inspect(migrated).get_table_names()) == before


async def test_the_installed_pgqueuer_finds_its_schema_as_it_wants_it(postgres_url: str) -> None:
    store, queue = await open_store(postgres_url)
    await queue.close()
    await store.close()
    async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as connection:
        queries = Queries(PsycopgDriver(connection), QueryBuilderEnvironment(SETTINGS), QueryQueueBuilder(SETTINGS))
        plan = await queries.plan_upgrade()
    assert plan.statements == (), "PgQueuer's schema has changed: add a migration that runs these"


async def test_servers_that_start_at_once_migrate_once_whatever_pgqueuers_environment(
    database_url: str, tmp_path: Path
) -> None:
    environment = {**os.environ, "PGQUEUER_PREFIX": "other_", "CHANNEL": "other"}
    command = [sys.executable, "-c", OPEN, database_url]
    starting = [
        subprocess.Popen(command, stderr=subprocess.PIPE, env=environment, cwd=tmp_path)  # noqa: ASYNC220
        for _ in range(2)
    ]
    for process in starting:
        _, complaint = process.communicate(timeout=90)
        assert process.returncode == 0, complaint.decode()
    store, queue = await open_store(database_url)
    async with store.transaction() as transaction:
        await transaction.enqueue([Work(lane="l", payload=b"p", due_at_ns=0)])
    assert await queue.depth() == 1
    await queue.close()
    await store.close()

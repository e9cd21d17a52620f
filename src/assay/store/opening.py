"""Open the store that a database URL names, brought up to the newest schema, and its queue."""

import asyncio
import os
import sqlite3
from pathlib import Path

from alembic.util import CommandError
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DatabaseError

from assay.errors import ConfigurationError
from assay.ports import Queue, Store
from assay.store.migrate import migrate
from assay.store.sqlite_file import use_write_ahead_log
from assay.store.store_sqlite import SqliteStore

SQLITE = "sqlite"
POSTGRESQL = "postgresql"


async def open_store(database_url: str, *, lease_s: float = 30.0) -> tuple[Store, Queue]:
    """Return the store and the queue in its database; the schema is made or migrated first.

    A claim that nobody renews for `lease_s` seconds is taken over. Close the queue first, then the store.
    Raises ConfigurationError for a database of another kind, out of reach, or of a newer Assay.
    """
    url = _read(database_url)
    try:
        await asyncio.to_thread(_prepare, url)
    except (DatabaseError, sqlite3.Error, OSError) as error:
        cause = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        message = f"The database {url.render_as_string()!r} cannot be opened: {cause}"
        raise ConfigurationError(message) from error
    except CommandError as error:
        message = (
            f"The database {url.render_as_string()!r} was last used by a newer Assay ({error}); "
            "start that version or a later one."
        )
        raise ConfigurationError(message) from error
    if url.get_backend_name() == POSTGRESQL:
        # Its driver and queue take a third of a second to load, which those with a SQLite file need not wait for.
        from assay.store.store_postgres import PostgresStore

        shared = PostgresStore(url, lease_s=lease_s)
        return shared, shared.queue
    embedded = SqliteStore(url, lease_s=lease_s)
    return embedded, embedded.queue


def _prepare(url: URL) -> None:
    if url.drivername == SQLITE:
        path = Path(url.database or "")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # What SQLite lays beside it gets the same mode: traces are for the server's user alone.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        use_write_ahead_log(str(path))
    migrate(url)


def _read(database_url: str) -> URL:
    allowed = f"{SQLITE}:///path/to/file.db or {POSTGRESQL}://user:password@host/name"
    try:
        url = make_url(database_url)
        backend = url.get_backend_name()
    except ArgumentError as error:
        message = f"The database URL cannot be read; it must be like {allowed}."
        raise ConfigurationError(message) from error
    if backend not in (SQLITE, POSTGRESQL) or not url.database or url.database == ":memory:":
        message = f"The database URL {url.render_as_string()!r} names no store; it must be like {allowed}."
        raise ConfigurationError(message)
    return url.set(drivername=SQLITE if backend == SQLITE else f"{POSTGRESQL}+psycopg")

"""Open the store that a database URL names, brought up to the newest schema, and its queue."""

import asyncio
from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

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
    Raises ConfigurationError for a URL of another kind of database.
    """
    url = _read(database_url)
    if url.get_backend_name() == POSTGRESQL:
        # Its driver and queue take a third of a second to load, which those with a SQLite file need not wait for.
        from assay.store.store_postgres import PostgresStore

        url = url.set(drivername="postgresql+psycopg")
        await asyncio.to_thread(migrate, url)
        shared = PostgresStore(url, lease_s=lease_s)
        return shared, shared.queue
    url = url.set(drivername=SQLITE)
    path = Path(url.database or "")
    path.parent.mkdir(parents=True, exist_ok=True)
    await asyncio.to_thread(use_write_ahead_log, str(path))
    await asyncio.to_thread(migrate, url)
    embedded = SqliteStore(url, lease_s=lease_s)
    return embedded, embedded.queue


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
    return url

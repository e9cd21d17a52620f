"""Bring a database up to the newest schema; safe when several servers start at once."""

import sqlite3
import threading
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, create_engine, event, text
from sqlalchemy.engine import URL

MIGRATIONS = Path(__file__).parent / "migrations"
# Any number will do, as long as it is ours alone: "assay" in ASCII.
LOCK_KEY = 0x61737361_79
# Alembic keeps the migration under way in a module variable.
_ONE_AT_A_TIME = threading.Lock()


def migrate(url: URL) -> None:
    """Run the migrations the database lacks, alone: others that start meanwhile wait, and then find them done."""
    engine = create_engine(url)
    try:
        if engine.dialect.name == "sqlite":
            event.listen(engine, "connect", _prepare_sqlite)
            event.listen(engine, "begin", _begin_immediate)
        with _ONE_AT_A_TIME, engine.begin() as connection:
            if engine.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK_KEY})
            config = Config()
            config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    finally:
        engine.dispose()


def _prepare_sqlite(connection: object, _record: object) -> None:
    assert isinstance(connection, sqlite3.Connection)
    connection.isolation_level = None
    connection.execute("PRAGMA busy_timeout=60000")


def _begin_immediate(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")

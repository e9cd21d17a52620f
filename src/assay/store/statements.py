"""What both dialects can do but SQLAlchemy spells per dialect, and how much one statement may carry."""

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite

# SQLite takes 32,766 parameters a statement, and rows of keys have up to three; but a large statement also holds up
# the event loop that PostgreSQL is spoken to from while it is put together.
CHUNK = 1_000
Item = TypeVar("Item")


def insert_into(connection: Connection, table: Table) -> Any:
    """Return the insert statement that has the `on_conflict_…` methods; both dialects spell them alike."""
    return (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(table)


def in_chunks(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """Cut a list into pieces that fit a statement's parameters."""
    for start in range(0, len(items), CHUNK):
        yield items[start : start + CHUNK]

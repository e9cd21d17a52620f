"""API keys, by the digest of their text."""

from typing import Any

from sqlalchemy import Row, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from assay.domain.access import ApiKey
from assay.store.tables import keys


def _read(row: Row[Any]) -> ApiKey:
    return ApiKey(**row._mapping)


async def add_key(connection: AsyncConnection, key: ApiKey) -> None:
    """Write a new key."""
    await connection.execute(
        insert(keys).values(
            id=key.id,
            project_id=key.project_id,
            role=key.role,
            digest=key.digest,
            prefix=key.prefix,
            created_at_ns=key.created_at_ns,
        )
    )


async def key_by_digest(connection: AsyncConnection, digest: str) -> ApiKey | None:
    """Return the key with this digest."""
    row = (await connection.execute(select(keys).where(keys.c.digest == digest))).one_or_none()
    return None if row is None else _read(row)


async def list_keys(connection: AsyncConnection) -> list[ApiKey]:
    """Return all keys, oldest first."""
    query = select(keys).order_by(keys.c.created_at_ns, keys.c.id)
    return [_read(row) for row in (await connection.execute(query)).all()]

"""API keys, by the digest of their text."""

from sqlalchemy import Connection, delete, insert, select

from assay.domain.access import ApiKey
from assay.store.tables import keys


def add_key(connection: Connection, key: ApiKey) -> None:
    """Write a new key."""
    connection.execute(
        insert(keys).values(
            id=key.id,
            project_id=key.project_id,
            role=key.role,
            digest=key.digest,
            prefix=key.prefix,
            created_at_ns=key.created_at_ns,
        )
    )


def delete_key(connection: Connection, key_id: str) -> bool:
    """Delete a key; return whether it was there."""
    return connection.execute(delete(keys).where(keys.c.id == key_id)).rowcount > 0


def key_by_digest(connection: Connection, digest: str) -> ApiKey | None:
    """Return the key with this digest."""
    row = connection.execute(select(keys).where(keys.c.digest == digest)).mappings().one_or_none()
    return None if row is None else ApiKey(**row)


def list_keys(connection: Connection) -> list[ApiKey]:
    """Return all keys, oldest first."""
    query = select(keys).order_by(keys.c.created_at_ns, keys.c.id)
    return [ApiKey(**row) for row in connection.execute(query).mappings()]

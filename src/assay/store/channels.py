"""Channels; their targets, sealed, and their failing stand beside the settings, since others change them."""

from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row, Select, delete, func, insert, select, update

from assay.domain.channel import Channel, Failing
from assay.store.documents import decode_channel, encode
from assay.store.tables import channels, deliveries, notifications

_COLUMNS: Select[*tuple[Any, ...]] = select(
    channels.c.document, channels.c.sealed, channels.c.failing_since_ns, channels.c.failing_cause
)


def find_channel(connection: Connection, project_id: str, channel_id: str) -> Channel | None:
    """Return the channel with this id."""
    row = connection.execute(_one(project_id, channel_id)).one_or_none()
    return None if row is None else _read(row)


def lock_channel(connection: Connection, project_id: str, channel_id: str) -> Channel | None:
    """Return the channel, locked until the transaction ends."""
    row = connection.execute(_one(project_id, channel_id).with_for_update()).one_or_none()
    return None if row is None else _read(row)


def list_channels(connection: Connection, project_id: str) -> list[Channel]:
    """Return the project's channels, newest first."""
    query = _COLUMNS.where(channels.c.project_id == project_id).order_by(
        channels.c.created_at_ns.desc(), channels.c.id.desc()
    )
    return [_read(row) for row in connection.execute(query).all()]


def channels_of_all_projects(connection: Connection) -> list[Channel]:
    """Return the channels of all projects."""
    return [_read(row) for row in connection.execute(_COLUMNS).all()]


def add_channel(connection: Connection, channel: Channel) -> None:
    """Write a new channel."""
    connection.execute(
        insert(channels).values(
            id=channel.id,
            project_id=channel.project_id,
            created_at_ns=channel.created_at_ns,
            failing_since_ns=None,
            failing_cause=None,
            **_settings(channel),
        )
    )


def update_channel(connection: Connection, channel: Channel) -> None:
    """Write a channel's settings and target; whether it fails stays as it is."""
    connection.execute(update(channels).where(channels.c.id == channel.id).values(**_settings(channel)))


def reseal_channel(connection: Connection, channel_id: str, before: bytes, after: bytes) -> None:
    """Write a target sealed anew, unless somebody changed it meanwhile."""
    connection.execute(
        update(channels).where(channels.c.id == channel_id, channels.c.sealed == before).values(sealed=after)
    )


def mark_channel(connection: Connection, channel_id: str, failing: Failing | None) -> None:
    """Note whether a channel fails; since when stays what it was while it goes on failing."""
    since_ns = None if failing is None else func.coalesce(channels.c.failing_since_ns, failing.since_ns)
    connection.execute(
        update(channels)
        .where(channels.c.id == channel_id)
        .values(failing_since_ns=since_ns, failing_cause=None if failing is None else failing.cause)
    )


def delete_channel(connection: Connection, project_id: str, channel_id: str) -> bool:
    """Delete a channel with its log and what it was owed; return whether it was there."""
    if lock_channel(connection, project_id, channel_id) is None:
        return False
    for table in (deliveries, notifications):
        connection.execute(delete(table).where(table.c.channel_id == channel_id))
    connection.execute(delete(channels).where(channels.c.id == channel_id))
    return True


def _one(project_id: str, channel_id: str) -> Select[*tuple[Any, ...]]:
    return _COLUMNS.where(channels.c.project_id == project_id, channels.c.id == channel_id)


def _settings(channel: Channel) -> dict[str, Any]:
    return {"sealed": channel.sealed, "document": encode(replace(channel, sealed=b"", failing=None))}


def _read(row: Row[*tuple[Any, ...]]) -> Channel:
    failing = None
    if row.failing_since_ns is not None:
        failing = Failing(since_ns=row.failing_since_ns, cause=row.failing_cause or "")
    return replace(decode_channel(row.document), sealed=row.sealed, failing=failing)

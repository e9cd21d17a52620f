"""Notifications that channels are owed, and the log of what came of telling them."""

from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select

from assay.domain.notification import Delivery, Owed
from assay.ports import Page
from assay.store.documents import decode_delivery, decode_owed, encode
from assay.store.paging import cut, page_of
from assay.store.statements import insert_into
from assay.store.tables import deliveries, notifications

KEPT = 1_000
"""Lines kept of a channel's log."""


def open_notifications(connection: Connection, channel_id: str) -> list[Owed]:
    """Return what still gathers for a channel, which the caller holds locked, locked as well."""
    query = select(notifications.c.document).where(
        notifications.c.channel_id == channel_id, notifications.c.is_closed.is_(False)
    )
    return [decode_owed(document) for document in connection.execute(query.with_for_update()).scalars()]


def find_notification(connection: Connection, notification_id: str) -> Owed | None:
    """Return a notification that is still owed."""
    return _found(connection, select(notifications.c.document).where(notifications.c.id == notification_id))


def lock_notification(connection: Connection, notification_id: str) -> Owed | None:
    """Return a notification that is still owed, locked until the transaction ends."""
    query = select(notifications.c.document).where(notifications.c.id == notification_id)
    return _found(connection, query.with_for_update())


def count_notifications(connection: Connection, channel_id: str) -> int:
    """Return how many notifications a channel is owed."""
    query = select(func.count()).select_from(notifications).where(notifications.c.channel_id == channel_id)
    return connection.execute(query).scalar_one()


def put_notification(connection: Connection, owed: Owed) -> None:
    """Write a notification that is owed, new or changed."""
    statement = insert_into(connection, notifications)
    excluded = statement.excluded
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=[notifications.c.id],
            set_={"is_closed": excluded.is_closed, "document": excluded.document},
        ),
        [
            {
                "id": owed.notification.id,
                "channel_id": owed.notification.channel_id,
                "is_closed": owed.is_closed,
                "document": encode(owed),
            }
        ],
    )


def delete_notification(connection: Connection, notification_id: str) -> None:
    """Take away a notification that is owed no more."""
    connection.execute(delete(notifications).where(notifications.c.id == notification_id))


def add_delivery(connection: Connection, delivery: Delivery) -> None:
    """Write a line of a channel's log, and let go of those beyond the newest thousand."""
    connection.execute(
        insert(deliveries).values(
            id=delivery.id, channel_id=delivery.channel_id, at_ns=delivery.at_ns, document=encode(delivery)
        )
    )
    newest = (
        select(deliveries.c.at_ns)
        .where(deliveries.c.channel_id == delivery.channel_id)
        .order_by(deliveries.c.at_ns.desc(), deliveries.c.id.desc())
        .offset(KEPT)
        .limit(1)
    )
    connection.execute(
        delete(deliveries).where(
            deliveries.c.channel_id == delivery.channel_id, deliveries.c.at_ns <= newest.scalar_subquery()
        )
    )


def list_deliveries(connection: Connection, channel_id: str, page: Page) -> tuple[list[Delivery], str | None]:
    """Return a page of a channel's log, newest first."""
    query = select(deliveries.c.id, deliveries.c.at_ns, deliveries.c.document).where(
        deliveries.c.channel_id == channel_id
    )
    rows = connection.execute(page_of(query, deliveries.c.at_ns, deliveries.c.id, page, str)).all()
    return cut(rows, page, "at_ns", "id", _read)


def _found(connection: Connection, query: Any) -> Owed | None:
    document = connection.execute(query).scalar_one_or_none()
    return None if document is None else decode_owed(document)


def _read(row: Row[Any]) -> Delivery:
    return decode_delivery(row.document)

"""Tell channels what they are owed, and keep the account of it."""

from dataclasses import dataclass, replace
from typing import TypeAlias

from assay.domain.channel import Channel, Failing
from assay.domain.identity import new_id
from assay.domain.notification import (
    LONGEST_CAUSE,
    Delivery,
    DeliveryOutcome,
    Notification,
    Owed,
    held_until_ns,
    retry_wait_s,
)
from assay.ports import NotTold, Snapshot, Told, Transaction
from assay.recording.owe import NotificationDue


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A notification that is to be sent now; its content is settled for ever."""

    channel: Channel
    owed: Owed


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A notification that is to wait for the end of quiet hours, for so many seconds."""

    wait_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Moot:
    """There is nothing to tell: it was told, the channel is gone, or it does not want it any more."""

    channel: Channel | None
    owed: Owed | None


Due: TypeAlias = Ready | Held | Moot


async def look(snapshot: Snapshot, due: NotificationDue, *, now_ns: int) -> Due:
    """Tell what is to be done about a notification that has become due."""
    owed = await snapshot.notification(due.notification_id)
    channel = await snapshot.channel(due.project_id, due.channel_id)
    if channel is None or owed is None or not channel.enabled:
        return Moot(channel=channel, owed=owed)
    until_ns = held_until_ns(channel, owed.notification, now_ns=now_ns)
    if until_ns is not None:
        return Held(wait_s=max(0.0, (until_ns - now_ns) / 1e9))
    return Ready(channel=channel, owed=owed)


async def close(transaction: Transaction, ready: Ready) -> Ready | None:
    """Let nothing more into what gathered; None when it was told meanwhile."""
    await transaction.channel_for_update(ready.channel.project_id, ready.channel.id)
    owed = await transaction.notification_for_update(ready.owed.notification.id)
    if owed is None:
        return None
    closed = replace(owed, is_closed=True)
    await transaction.put_notification(closed)
    return replace(ready, owed=closed)


async def give_account(
    transaction: Transaction, ready: Ready, result: Told | NotTold, *, now_ns: int, duration_s: float
) -> float | None:
    """Write down what came of an attempt; return how long to wait for the next, in seconds, None when there is none."""
    notification, attempts = ready.owed.notification, ready.owed.attempts + 1
    channel = await transaction.channel_for_update(notification.project_id, notification.channel_id)
    if channel is None or await transaction.notification_for_update(notification.id) is None:
        return None
    if isinstance(result, Told):
        await transaction.add_delivery(_line(notification, "told", attempts, None, now_ns, duration_s))
        await transaction.mark_channel(channel.id, None)
        await transaction.delete_notification(notification.id)
        return None
    cause = result.cause[:LONGEST_CAUSE]
    await transaction.mark_channel(channel.id, Failing(since_ns=now_ns, cause=cause))
    wait_s = retry_wait_s(attempts, result.after_s)
    if wait_s is None:
        await transaction.add_delivery(_line(notification, "given-up", attempts, cause, now_ns, duration_s))
        await transaction.delete_notification(notification.id)
        return None
    line = _line(notification, "failed", attempts, cause, now_ns, duration_s)
    await transaction.add_delivery(replace(line, next_attempt_ns=now_ns + int(wait_s * 1e9)))
    await transaction.put_notification(replace(ready.owed, attempts=attempts))
    return wait_s


async def drop(transaction: Transaction, moot: Moot, *, now_ns: int) -> None:
    """Let go of a notification that its channel does not want any more, and say so in the log."""
    if moot.channel is None or moot.owed is None:
        return
    channel = await transaction.channel_for_update(moot.channel.project_id, moot.channel.id)
    owed = await transaction.notification_for_update(moot.owed.notification.id)
    if channel is not None and owed is not None:
        cause = "The channel was disabled before this was told."
        await transaction.add_delivery(_line(owed.notification, "dropped", owed.attempts, cause, now_ns, 0.0))
        await transaction.delete_notification(owed.notification.id)


def _line(
    notification: Notification,
    outcome: DeliveryOutcome,
    attempt: int,
    cause: str | None,
    now_ns: int,
    duration_s: float,
) -> Delivery:
    return Delivery(
        id=new_id("dlv", now_ns),
        channel_id=notification.channel_id,
        notification_id=notification.id,
        attempt=attempt,
        outcome=outcome,
        cause=cause,
        event_count=len(notification.events),
        is_test=notification.is_test,
        at_ns=now_ns,
        duration_s=duration_s,
    )

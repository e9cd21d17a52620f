"""Owe channels what became of signals."""

from collections.abc import Sequence

import msgspec

from assay.domain.channel import Channel
from assay.domain.notification import Owed, SignalEvent, TellAt, decide, event_of, owe
from assay.domain.signal import SignalChange
from assay.ports import Transaction, Work

NOTIFY_LANE = "notify:"


class NotificationDue(msgspec.Struct, frozen=True, array_like=True):
    """A notification that a channel is owed; what it says is in the store."""

    project_id: str
    channel_id: str
    notification_id: str


_encode = msgspec.msgpack.Encoder().encode
decode_notification_due = msgspec.msgpack.Decoder(NotificationDue).decode


async def owe_notifications(transaction: Transaction, changes: Sequence[SignalChange], *, now_ns: int) -> None:
    """Owe each channel the changes it wants to hear of, in the transaction that records them; muted ones none.

    Channels are locked in the order of their ids, so that two recordings never wait for each other in a ring.
    """
    heard = [change for change in changes if not change.muted]
    for project_id in sorted({change.signal.project_id for change in heard}):
        channels = await transaction.list_channels(project_id)
        if not channels:
            continue
        names = {agent.id: agent.name for agent in await transaction.list_agents(project_id)}
        events = [
            event_of(change, names.get(change.signal.agent_id or ""), now_ns=now_ns)
            for change in heard
            if change.signal.project_id == project_id
        ]
        for listed in sorted(channels, key=lambda channel: channel.id):
            if not any(isinstance(decide(listed, event, now_ns=now_ns), TellAt) for event in events):
                continue
            channel = await transaction.channel_for_update(project_id, listed.id)
            if channel is not None:
                await _owe_channel(transaction, channel, events, now_ns)


async def _owe_channel(transaction: Transaction, channel: Channel, events: Sequence[SignalEvent], now_ns: int) -> None:
    waiting = {owed.notification.id: owed for owed in await transaction.open_notifications(channel.id)}
    known = set(waiting)
    changed: dict[str, Owed] = {}
    before = await transaction.count_notifications(channel.id)
    for event in events:
        decision = decide(channel, event, now_ns=now_ns, waiting=before + len(changed.keys() - known))
        if isinstance(decision, TellAt):
            owed = owe(channel, event, decision, list(waiting.values()), now_ns=now_ns)
            waiting[owed.notification.id] = changed[owed.notification.id] = owed
    for owed in changed.values():
        await transaction.put_notification(owed)
    await transaction.enqueue([_work(owed) for name, owed in changed.items() if name not in known])


def _work(owed: Owed) -> Work:
    notification = owed.notification
    due = NotificationDue(notification.project_id, notification.channel_id, notification.id)
    return Work(lane=NOTIFY_LANE + notification.channel_id, payload=_encode(due), due_at_ns=owed.due_at_ns)

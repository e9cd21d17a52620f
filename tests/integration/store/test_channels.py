import asyncio
from dataclasses import replace

import pytest

from assay.domain.channel import Channel, Failing, QuietHours
from assay.domain.notification import Delivery
from assay.ports import Page, Store
from assay.testing import NOW_NS
from support.notifications import a_channel, a_notification, an_event, an_owed
from support.records import PROJECT

KEPT = 1_000
QUIET = QuietHours(zone="Europe/Berlin", from_minute=1320, to_minute=420, passing=("critical",))


@pytest.fixture
async def channel(store: Store) -> Channel:
    channel = a_channel(quiet_hours=QUIET, digest_s=60, scope_mode="selected", evaluator_ids=("evl_1", "evl_2"))
    async with store.transaction() as transaction:
        await transaction.add_channel(channel)
    return channel


def a_delivery(number: int, **fields: object) -> Delivery:
    delivery = Delivery(
        id=f"dlv_{number:05}",
        channel_id="chn_1",
        notification_id="ntf_1",
        attempt=1,
        outcome="failed",
        cause="it answered 500",
        event_count=2,
        is_test=False,
        at_ns=NOW_NS + number,
        duration_s=0.25,
        next_attempt_ns=NOW_NS + 5,
    )
    return replace(delivery, **fields)  # pyright: ignore[reportArgumentType]


async def listed(store: Store) -> list[Delivery]:
    found: list[Delivery] = []
    cursor: str | None = None
    while True:
        async with store.snapshot() as snapshot:
            page, cursor = await snapshot.list_deliveries("chn_1", Page(limit=200, cursor=cursor))
        found += page
        if cursor is None:
            return found


async def test_a_channel_comes_back_as_it_was_put_and_to_its_own_project_only(store: Store, channel: Channel) -> None:
    async with store.snapshot() as snapshot:
        assert await snapshot.channel(PROJECT, channel.id) == channel
        assert await snapshot.list_channels(PROJECT) == [channel]
        assert await snapshot.channel("other", channel.id) is None
        assert await snapshot.list_channels("other") == []


async def test_changing_a_channel_leaves_its_failing_as_it_is_and_the_other_way_round(
    store: Store, channel: Channel
) -> None:
    first, second = Failing(since_ns=1, cause="500"), Failing(since_ns=2, cause="503")
    async with store.transaction() as transaction:
        await transaction.mark_channel(channel.id, first)
        await transaction.update_channel(replace(channel, name="renamed", sealed=b"other"))
        await transaction.mark_channel(channel.id, second)
        assert await transaction.channel_for_update(PROJECT, channel.id) == replace(
            channel, name="renamed", sealed=b"other", failing=Failing(since_ns=1, cause="503")
        )
        await transaction.mark_channel(channel.id, None)
        await transaction.mark_channel(channel.id, second)
    async with store.snapshot() as snapshot:
        found = await snapshot.channel(PROJECT, channel.id)
    assert found is not None
    assert found.failing == second


async def test_a_target_is_sealed_anew_unless_it_was_changed_meanwhile(store: Store, channel: Channel) -> None:
    async with store.transaction() as transaction:
        await transaction.reseal_channel(channel.id, before=b"something else", after=b"lost")
        assert await transaction.channels_of_all_projects() == [channel]
        await transaction.reseal_channel(channel.id, before=channel.sealed, after=b"anew")
        assert await transaction.channels_of_all_projects() == [replace(channel, sealed=b"anew")]


async def test_a_notification_that_is_owed_comes_back_and_can_change(store: Store, channel: Channel) -> None:
    owed = an_owed(is_closed=False, gathering="digest")
    async with store.transaction() as transaction:
        await transaction.put_notification(owed)
        assert await transaction.open_notifications(channel.id) == [owed]
        more = replace(owed, notification=a_notification(an_event(), an_event("evt_2", kind="escalated")), attempts=2)
        await transaction.put_notification(more)
        assert await transaction.open_notifications(channel.id) == [more]
        closed = replace(more, is_closed=True)
        await transaction.put_notification(closed)
        assert await transaction.open_notifications(channel.id) == []
    async with store.snapshot() as snapshot:
        assert await snapshot.notification("ntf_1") == closed
        assert await snapshot.count_notifications(channel.id) == 1
    async with store.transaction() as transaction:
        await transaction.delete_notification("ntf_1")
        assert await transaction.notification_for_update("ntf_1") is None


async def test_of_a_log_the_newest_thousand_lines_are_kept_and_paged(store: Store, channel: Channel) -> None:
    async with store.transaction() as transaction:
        for number in range(KEPT + 5):
            await transaction.add_delivery(a_delivery(number))
    found = await listed(store)
    assert [delivery.id for delivery in found] == [f"dlv_{number:05}" for number in range(KEPT + 4, 4, -1)]
    assert found[0] == a_delivery(KEPT + 4)


async def test_a_channel_that_is_deleted_takes_its_log_and_what_it_was_owed_along(
    store: Store, channel: Channel
) -> None:
    async with store.transaction() as transaction:
        await transaction.put_notification(an_owed())
        await transaction.add_delivery(a_delivery(1))
        assert not await transaction.delete_channel("other", channel.id)
        assert await transaction.delete_channel(PROJECT, channel.id)
        assert not await transaction.delete_channel(PROJECT, channel.id)
    assert await listed(store) == []
    async with store.snapshot() as snapshot:
        assert await snapshot.notification("ntf_1") is None


async def test_sixteen_writers_lose_no_event_of_what_gathers(store: Store, channel: Channel) -> None:
    async def add(number: int) -> None:
        async with store.transaction() as transaction:
            await transaction.channel_for_update(PROJECT, channel.id)
            waiting = await transaction.open_notifications(channel.id)
            events = waiting[0].notification.events if waiting else ()
            notification = a_notification(*events, an_event(f"evt_{number}"))
            await transaction.put_notification(an_owed(notification, is_closed=False, gathering="digest"))

    await asyncio.gather(*(add(number) for number in range(16)))
    async with store.snapshot() as snapshot:
        owed = await snapshot.notification("ntf_1")
    assert owed is not None
    assert {event.id for event in owed.notification.events} == {f"evt_{number}" for number in range(16)}

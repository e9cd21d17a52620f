"""Owing and telling over a real store and queue, with a messenger that does as the test says."""

from dataclasses import replace

from assay.domain.channel import Channel, QuietHours
from assay.domain.evaluator import Severity
from assay.domain.notification import MOST_ATTEMPTS, Delivery, Notification
from assay.domain.outcome import Limits
from assay.domain.signal import SignalChange
from assay.engine import Engine
from assay.live.meters import Meters
from assay.live.pipeline import LivePipeline, Timing
from assay.ports import Claim, NotTold, Page, Queue, Store, Told, Work
from assay.recording.owe import owe_notifications
from assay.testing import NOW_NS, FixedClock
from support.notifications import a_channel
from support.records import PROJECT, a_check, a_signal, an_evaluator

LANE = "notify:chn_1"
FAR_NS = NOW_NS * 2


class Recorder:
    """A messenger that remembers what it is asked to send, and answers in turn."""

    def __init__(self, *results: Told | NotTold) -> None:
        self.sent: list[Notification] = []
        self._results = list(results) or [Told()]

    async def shown(self, url: str, project_id: str) -> str:
        return url

    async def send(self, channel: Channel, notification: Notification) -> Told | NotTold:
        self.sent.append(notification)
        return self._results.pop(0) if len(self._results) > 1 else self._results[0]

    async def close(self) -> None:
        return


class DueNow:
    """The queue under test, whose entries are all due: what they wait for is asserted and not waited for."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self.delays: list[float] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._queue, name)

    async def release(self, claims: list[Claim], delay_s: float) -> None:
        self.delays.append(delay_s)
        await self._queue.release(claims, 0)


def a_change(
    trace_id: str = "t1", *, evaluator_id: str = "evl_1", severity: Severity = "high", muted: bool = False
) -> SignalChange:
    check = a_check(trace_id, failed=True, evaluator_id=evaluator_id, agent_id="agt_1")
    signal = replace(a_signal(check), severity=severity)
    return SignalChange(kind="raised", signal=signal, evaluator=an_evaluator(evaluator_id), muted=muted)


async def owed(store: Store, *changes: SignalChange, now_ns: int = NOW_NS) -> None:
    async with store.transaction() as transaction:
        await owe_notifications(transaction, changes, now_ns=now_ns)


async def added(store: Store, *channels: Channel) -> None:
    async with store.transaction() as transaction:
        for channel in channels:
            await transaction.add_channel(channel)


async def worked_off(store: Store, queue: Queue, messenger: Recorder, clock: FixedClock, lane: str = LANE) -> DueNow:
    """Work off what one lane has to claim, once."""
    due_now = DueNow(queue)
    pipeline = LivePipeline(
        store=store,
        queue=due_now,  # pyright: ignore[reportArgumentType]
        engine=Engine({}, clock, Limits()),
        clock=clock,
        timing=Timing(),
        meters=Meters(),
        messengers={"webhook": messenger},
    )
    await pipeline._notify(lane, await queue.claim(lane, 100))  # pyright: ignore[reportPrivateUsage]
    return due_now


async def log_of(store: Store, channel_id: str = "chn_1") -> list[Delivery]:
    async with store.snapshot() as snapshot:
        found, _ = await snapshot.list_deliveries(channel_id, Page(limit=200))
    return found[::-1]


async def channel_of(store: Store) -> Channel:
    async with store.snapshot() as snapshot:
        channel = await snapshot.channel(PROJECT, "chn_1")
    assert channel is not None
    return channel


async def test_each_channel_is_told_what_it_wants_to_hear_in_a_lane_of_its_own(store: Store, queue: Queue) -> None:
    await added(store, a_channel(), a_channel(channel_id="chn_2", least_severity="critical"))
    await owed(store, a_change("t1"), a_change("t2", severity="critical", evaluator_id="evl_2"))
    assert sorted(await queue.lanes(FAR_NS)) == ["notify:chn_1", "notify:chn_2"]
    assert (await queue.depth_of(["notify:chn_1"]), await queue.depth_of(["notify:chn_2"])) == (2, 1)


async def test_nobody_hears_of_a_muted_signal_or_of_another_projects(store: Store, queue: Queue) -> None:
    await added(store, a_channel(), a_channel(channel_id="chn_2", project_id="other"))
    await owed(store, a_change(muted=True))
    assert await queue.depth() == 0
    await owed(store, a_change())
    assert await queue.lanes(FAR_NS) == [LANE]


async def test_what_was_told_is_in_the_log_and_gone_from_the_queue(store: Store, queue: Queue) -> None:
    await added(store, a_channel())
    await owed(store, a_change())
    messenger = Recorder()
    await worked_off(store, queue, messenger, FixedClock())
    (notification,) = messenger.sent
    assert [event.evaluator_name for event in notification.events] == ["check"]
    (line,) = await log_of(store)
    assert (line.outcome, line.attempt, line.notification_id, line.cause) == ("told", 1, notification.id, None)
    assert await queue.depth() == 0
    async with store.snapshot() as snapshot:
        assert await snapshot.notification(notification.id) is None


async def test_a_failure_is_logged_marks_the_channel_and_is_tried_again_under_the_same_id(
    store: Store, queue: Queue
) -> None:
    await added(store, a_channel())
    await owed(store, a_change())
    messenger = Recorder(NotTold(cause="it answered 500"), NotTold(cause="it answered 429", after_s=120), Told())
    clock = FixedClock()
    waits = await worked_off(store, queue, messenger, clock)
    clock.advance(5)
    waits.delays += (await worked_off(store, queue, messenger, clock)).delays
    failing = (await channel_of(store)).failing
    assert failing is not None
    assert (failing.since_ns, failing.cause) == (NOW_NS, "it answered 429")
    clock.advance(120)
    await worked_off(store, queue, messenger, clock)
    assert waits.delays == [5, 120]
    assert [(line.outcome, line.attempt) for line in await log_of(store)] == [
        ("failed", 1),
        ("failed", 2),
        ("told", 3),
    ]
    assert (await log_of(store))[0].next_attempt_ns == NOW_NS + 5_000_000_000
    assert len({notification.id for notification in messenger.sent}) == 1
    assert (await channel_of(store)).failing is None
    assert await queue.depth() == 0


async def test_after_the_last_attempt_it_is_given_up_and_the_log_and_the_channel_say_so(
    store: Store, queue: Queue
) -> None:
    await added(store, a_channel())
    await owed(store, a_change())
    messenger, clock = Recorder(NotTold(cause="it answered 500")), FixedClock()
    for _ in range(MOST_ATTEMPTS):
        await worked_off(store, queue, messenger, clock)
        clock.advance(1)
    last = (await log_of(store))[-1]
    assert (last.outcome, last.attempt, last.cause) == ("given-up", MOST_ATTEMPTS, "it answered 500")
    assert len(messenger.sent) == MOST_ATTEMPTS
    assert (await channel_of(store)).failing is not None
    assert await queue.depth() == 0


async def test_an_entry_that_comes_twice_tells_once(store: Store, queue: Queue) -> None:
    await added(store, a_channel())
    await owed(store, a_change())
    (claim,) = await queue.claim(LANE, 1)
    await queue.release([claim], 0)
    messenger = Recorder()
    await worked_off(store, queue, messenger, FixedClock())
    async with store.transaction() as transaction:
        await transaction.enqueue([Work(lane=claim.lane, payload=claim.payload, due_at_ns=0)])
    await worked_off(store, queue, messenger, FixedClock())
    assert len(messenger.sent) == 1
    assert await queue.depth() == 0


async def test_a_digest_gathers_and_is_told_as_one_and_what_comes_later_as_the_next(store: Store, queue: Queue) -> None:
    await added(store, a_channel(digest_s=60))
    for second in (0, 10, 59):
        await owed(store, a_change(f"t{second}"), now_ns=NOW_NS + second * 1_000_000_000)
    assert await queue.depth() == 1
    await owed(store, a_change("late"), now_ns=NOW_NS + 60_000_000_000)
    assert await queue.depth() == 2
    async with store.snapshot() as snapshot:
        assert await snapshot.count_notifications("chn_1") == 2


async def test_a_storm_of_signals_is_gathered_once_a_hundred_messages_wait(store: Store, queue: Queue) -> None:
    await added(store, a_channel())
    await owed(store, *(a_change(f"t{number}") for number in range(160)))
    assert await queue.depth() == 101
    async with store.snapshot() as snapshot:
        assert await snapshot.count_notifications("chn_1") == 101


async def test_a_digest_that_is_being_sent_takes_nothing_more_in(store: Store, queue: Queue) -> None:
    await added(store, a_channel(digest_s=1))
    await owed(store, a_change("t1"), now_ns=0)
    messenger = Recorder(NotTold(cause="it answered 500"))
    await worked_off(store, queue, messenger, FixedClock())
    await owed(store, a_change("t2"), now_ns=0)
    await worked_off(store, queue, messenger, FixedClock())
    contents = {notification.id: len(notification.events) for notification in messenger.sent}
    assert sorted(contents.values()) == [1, 1]
    assert len(messenger.sent) == 3


async def test_what_is_due_in_quiet_hours_waits_for_their_end(store: Store, queue: Queue) -> None:
    await added(store, a_channel())
    await owed(store, a_change())
    hours = QuietHours(zone="UTC", from_minute=15 * 60, to_minute=16 * 60)
    async with store.transaction() as transaction:
        await transaction.update_channel(a_channel(quiet_hours=hours))
    messenger, clock = Recorder(), FixedClock()
    held = await worked_off(store, queue, messenger, clock)
    assert held.delays == [53 * 60 + 20]
    assert messenger.sent == []
    clock.advance(held.delays[0])
    await worked_off(store, queue, messenger, clock)
    assert len(messenger.sent) == 1


async def test_a_channel_that_was_disabled_is_told_nothing_more_and_its_log_says_so(store: Store, queue: Queue) -> None:
    await added(store, a_channel())
    await owed(store, a_change())
    async with store.transaction() as transaction:
        await transaction.update_channel(a_channel(enabled=False))
    messenger = Recorder()
    await worked_off(store, queue, messenger, FixedClock())
    assert messenger.sent == []
    assert [line.outcome for line in await log_of(store)] == ["dropped"]
    assert await queue.depth() == 0


async def test_what_a_deleted_channel_was_owed_is_told_nobody(store: Store, queue: Queue) -> None:
    await added(store, a_channel())
    await owed(store, a_change())
    async with store.transaction() as transaction:
        await transaction.delete_channel(PROJECT, "chn_1")
    messenger = Recorder()
    await worked_off(store, queue, messenger, FixedClock())
    assert messenger.sent == []
    assert await queue.depth() == 0

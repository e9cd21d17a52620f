"""The live flow, from spans accepted to people told, and its four commits: accept, owe, record, told.

accept -> (a trace is due `settle_s` after each change) -> settle -> sample -> owe -> execute -> record -> notify

Every arrow is a durable queue entry. A kill anywhere leaves entries that another worker takes over, and whatever is
done twice is recorded once; a notification may be sent twice, under the same id. No user code and no network runs
inside a commit. What gathered for a channel is closed in a commit of its own before it is sent.
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import structlog

from assay.domain.channel import ChannelKind
from assay.domain.trace import Span
from assay.engine import Engine
from assay.lanes import Lanes, backoff_s
from assay.live.accept import accept
from assay.live.admit import Admission
from assay.live.batching import FIRST, next_size
from assay.live.execute import execute_while_wanted
from assay.live.meters import Meters
from assay.live.notify import Held, Moot, Ready, close, drop, give_account, look
from assay.live.sample import owe, sample
from assay.live.settle import settled
from assay.live.work import CHECK_LANE, SETTLE_LANE, decode_trace_due
from assay.ports import Claim, Clock, Messenger, Queue, Store, Told
from assay.recording.owe import NOTIFY_LANE, decode_notification_due, owe_notifications
from assay.recording.record import record

SETTLE_BATCH = 512

log = structlog.stdlib.get_logger("assay.live")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """When a trace counts as whole, how long a claim lasts, and how much may wait. Seconds, and entries."""

    settle_s: float = 2.0
    settle_max_s: float = 30.0
    lease_s: float = 10.0
    max_backlog: int = 100_000


class LivePipeline:
    """The flow of one server. `accept` serves requests; `run` works off the queue until stopped."""

    def __init__(
        self,
        *,
        store: Store,
        queue: Queue,
        engine: Engine,
        clock: Clock,
        timing: Timing,
        meters: Meters,
        messengers: Mapping[ChannelKind, Messenger],
    ) -> None:
        self._store = store
        self._queue = queue
        self._engine = engine
        self._clock = clock
        self._timing = timing
        self._meters = meters
        self._messengers = messengers
        self._sizes: dict[str, int] = {}
        self._lanes = Lanes(
            queue,
            clock,
            lease_s=timing.lease_s,
            steps={
                SETTLE_LANE: (self._settle_and_owe, lambda _: SETTLE_BATCH),
                CHECK_LANE: (self._execute_and_record, lambda lane: self._sizes.get(lane, FIRST)),
                NOTIFY_LANE: (self._notify, lambda _: 1),
            },
        )
        self._admission = Admission(
            store=store, queue=queue, clock=clock, meters=meters, max_backlog=timing.max_backlog
        )

    async def accept(self, project_id: str, spans: Sequence[Span]) -> int:
        """Commit spans together with the looks they owe; return how many traces changed.

        Raises OverloadedError when more waits than allowed, enough of it the project's own; then nothing was taken.
        """
        if not spans:
            return 0
        await self._admission.admit(project_id)
        async with self._store.transaction() as transaction:
            changed = await accept(
                transaction, project_id, spans, now_ns=self._clock.now_ns(), settle_s=self._timing.settle_s
            )
        self._meters.spans.inc(len(spans))
        self._meters.traces.inc(changed)
        return changed

    async def run(self) -> None:
        """Work off every lane side by side until `stop`; one lane never waits for another."""
        await self._lanes.run()

    async def stop(self, grace_s: float = 5.0) -> None:
        """Finish what runs, within the grace; what does not finish is given back to the queue."""
        await self._lanes.stop(grace_s)

    async def _settle_and_owe(self, lane: str, claims: list[Claim]) -> None:
        due = [decode_trace_due(claim.payload) for claim in claims]
        async with self._store.snapshot() as snapshot:
            records = await settled(snapshot, due, now_ns=self._clock.now_ns(), settle_max_s=self._timing.settle_max_s)
            checks = await sample(snapshot, records)
        async with self._store.transaction() as transaction:
            await owe(transaction, records, checks, now_ns=self._clock.now_ns())
            await transaction.settle(claims)

    async def _execute_and_record(self, lane: str, claims: list[Claim]) -> None:
        started_ns = self._clock.now_ns()
        executed = await execute_while_wanted(self._store, self._engine, claims)
        async with self._store.transaction() as transaction:
            now_ns = self._clock.now_ns()
            recorded = await record(transaction, executed.checks, now_ns=now_ns)
            await owe_notifications(transaction, recorded.changes, now_ns=now_ns)
            await transaction.settle(executed.done)
        if executed.retry:
            log.warning("checks-unavailable", lane=lane, count=len(executed.retry), cause=executed.causes[0])
            self._meters.retries.inc(len(executed.retry))
            await self._queue.release(executed.retry, max(backoff_s(executed.retry), *executed.waits_s))
        for status, count in recorded.statuses.items():
            self._meters.checks.labels(status=status).inc(count)
        self._meters.signals.inc(sum(change.kind in ("raised", "reopened") for change in recorded.changes))
        for kind, count in Counter(
            check.reading.error.kind for check in executed.checks if check.reading.error
        ).items():
            log.warning("checks-errored", lane=lane, kind=kind, count=count)
        for check in executed.checks:
            self._meters.latency.observe(check.duration_s)
        took_s = (self._clock.now_ns() - started_ns) / 1e9
        self._sizes[lane] = next_size(self._sizes.get(lane, FIRST), took_s, len(claims))

    async def _notify(self, lane: str, claims: list[Claim]) -> None:
        for claim in claims:
            async with self._store.snapshot() as snapshot:
                due = await look(snapshot, decode_notification_due(claim.payload), now_ns=self._clock.now_ns())
            match due:
                case Held():
                    await self._queue.release([claim], due.wait_s)
                case Moot():
                    async with self._store.transaction() as transaction:
                        await drop(transaction, due, now_ns=self._clock.now_ns())
                        await transaction.settle([claim])
                case Ready():
                    await self._tell(claim, due)

    async def _tell(self, claim: Claim, ready: Ready) -> None:
        if not ready.owed.is_closed:
            async with self._store.transaction() as transaction:
                closed = await close(transaction, ready)
                if closed is None:
                    await transaction.settle([claim])
                    return
            ready = closed
        started = time.monotonic()
        result = await self._messengers[ready.channel.kind].send(ready.channel, ready.owed.notification)
        duration_s = time.monotonic() - started
        async with self._store.transaction() as transaction:
            wait_s = await give_account(transaction, ready, result, now_ns=self._clock.now_ns(), duration_s=duration_s)
            if wait_s is None:
                await transaction.settle([claim])
        if isinstance(result, Told):
            self._meters.notifications.labels(outcome="told").inc()
            return
        self._meters.notifications.labels(outcome="given-up" if wait_s is None else "failed").inc()
        log.warning("channel-failed", channel=ready.channel.id, cause=result.cause, next_attempt_in_s=wait_s)
        if wait_s is not None:
            await self._queue.release([claim], wait_s)

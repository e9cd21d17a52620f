"""The store's questions and changes, over one connection: each file of an aggregate answers its own."""

from collections.abc import Callable, Sequence
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from sqlalchemy import Connection

from assay.domain.access import ApiKey
from assay.domain.agent import Agent
from assay.domain.channel import Channel, Failing
from assay.domain.check import Check
from assay.domain.credentials import SealedCredentials
from assay.domain.evaluator import Evaluator, Revision
from assay.domain.failure_window import FailureWindow
from assay.domain.notification import Delivery, Owed
from assay.domain.signal import Signal
from assay.domain.signal_log import LogEntry, LogKind
from assay.domain.trace import Span
from assay.ports import CheckFilter, Claim, LogEnds, Page, SignalFilter, SignalOrder, TraceRecord, Work
from assay.store import agents, channels, evaluators, failure_windows, keys, notifications, signal_log, traces
from assay.store import checks as check_rows
from assay.store import signals as signal_rows
from assay.store.batch_transaction import SqlBatchSnapshot, SqlBatchTransaction
from assay.store.sessions import Session

Answer = TypeVar("Answer")
P = ParamSpec("P")


class QueueRows(Protocol):
    """What a transaction asks of the queue that shares its database."""

    def enqueue(self, connection: Connection, work: Sequence[Work]) -> None:
        """Write entries on this connection."""
        ...

    def settle(self, connection: Connection, claims: Sequence[Claim]) -> None:
        """Delete entries on this connection."""
        ...


class SqlSnapshot(SqlBatchSnapshot):
    """Questions, all answered from the view of one open connection."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def trace(self, project_id: str, trace_id: str) -> TraceRecord | None:
        """Return what is known of a trace beside its spans."""
        return await self._ask(traces.find_trace, project_id, trace_id)

    async def traces(self, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], TraceRecord]:
        """Return the records of those traces that exist, by (project, trace id)."""
        return await self._ask(traces.find_traces, keys)

    async def spans(self, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], list[Span]]:
        """Return the spans of those traces that exist, by (project, trace id), each list by start time."""
        rows = await self._ask(traces.find_spans, keys)
        return await self._session.compute(lambda: traces.read_spans(rows), len(rows))

    async def list_traces(
        self, project_id: str, page: Page, agent_id: str | None = None
    ) -> tuple[list[TraceRecord], str | None]:
        """Return a page of traces, newest first, and the cursor of the next."""
        return await self._ask(traces.list_traces, project_id, page, agent_id)

    async def evaluator(self, project_id: str, evaluator_id: str) -> Evaluator | None:
        """Return the evaluator, unless it was deleted."""
        return await self._ask(evaluators.find_evaluator, project_id, evaluator_id)

    async def list_evaluators(self, project_id: str) -> list[Evaluator]:
        """Return the project's evaluators, newest first."""
        return await self._ask(evaluators.list_evaluators, project_id)

    async def evaluators_with_credentials(self) -> list[Evaluator]:
        """Return the evaluators of all projects that have credentials."""
        return await self._ask(evaluators.evaluators_with_credentials)

    async def revisions(self, project_id: str, evaluator_id: str) -> list[Revision]:
        """Return an evaluator's revisions, newest first."""
        return await self._ask(evaluators.list_revisions, project_id, evaluator_id)

    async def revisions_by_id(self, ids: Sequence[str]) -> dict[str, Revision]:
        """Return the revisions with these ids, of deleted evaluators too."""
        return await self._ask(evaluators.revisions_by_id, ids)

    async def checks(self, which: CheckFilter, page: Page) -> tuple[list[Check], str | None]:
        """Return a page of checks, newest first, and the cursor of the next."""
        return await self._ask(check_rows.list_checks, which, page)

    async def count_checks(self, which: CheckFilter) -> int:
        """Return how many checks the filter lets through."""
        return await self._ask(check_rows.count_checks, which)

    async def existing_checks(self, ids: Sequence[str]) -> set[str]:
        """Return those of the ids that are recorded."""
        return await self._ask(check_rows.existing_checks, ids)

    async def list_agents(self, project_id: str) -> list[Agent]:
        """Return the project's agents by name."""
        return await self._ask(agents.list_agents, project_id)

    async def unknown_agents(self, project_id: str, ids: Sequence[str]) -> set[str]:
        """Return those of the ids that are no agents of the project."""
        return await self._ask(agents.unknown_agents, project_id, ids)

    async def signal(self, project_id: str, signal_id: str) -> Signal | None:
        """Return the signal with this id."""
        return await self._ask(signal_rows.find_signal, project_id, signal_id)

    async def list_signals(
        self, which: SignalFilter, page: Page, order: SignalOrder = "seen"
    ) -> tuple[list[Signal], str | None]:
        """Return a page of signals and the cursor of the next."""
        return await self._ask(signal_rows.list_signals, which, page, order)

    async def signal_history(
        self, project_id: str, signal_id: str, kinds: Sequence[LogKind], page: Page
    ) -> tuple[list[LogEntry], str | None]:
        """Return a page of a signal's log entries, newest first, and the cursor of the next."""
        return await self._ask(signal_log.list_history, project_id, signal_id, kinds, page)

    async def signal_log(self, project_id: str, after: int, limit: int) -> list[LogEntry]:
        """Return log entries of the project that follow the one numbered `after`, oldest first."""
        return await self._ask(signal_log.list_after, project_id, after, limit)

    async def signal_log_ends(self, project_ids: Sequence[str]) -> dict[str, LogEnds]:
        """Return the ends of the projects' logs."""
        return await self._ask(signal_log.find_ends, project_ids)

    async def channel(self, project_id: str, channel_id: str) -> Channel | None:
        """Return the channel with this id."""
        return await self._ask(channels.find_channel, project_id, channel_id)

    async def list_channels(self, project_id: str) -> list[Channel]:
        """Return the project's channels, newest first."""
        return await self._ask(channels.list_channels, project_id)

    async def channels_of_all_projects(self) -> list[Channel]:
        """Return the channels of all projects."""
        return await self._ask(channels.channels_of_all_projects)

    async def notification(self, notification_id: str) -> Owed | None:
        """Return a notification that is still owed."""
        return await self._ask(notifications.find_notification, notification_id)

    async def count_notifications(self, channel_id: str) -> int:
        """Return how many notifications a channel is owed."""
        return await self._ask(notifications.count_notifications, channel_id)

    async def list_deliveries(self, channel_id: str, page: Page) -> tuple[list[Delivery], str | None]:
        """Return a page of a channel's log, newest first, and the cursor of the next."""
        return await self._ask(notifications.list_deliveries, channel_id, page)

    async def key_by_digest(self, digest: str) -> ApiKey | None:
        """Return the key whose text has this SHA-256."""
        return await self._ask(keys.key_by_digest, digest)

    async def list_keys(self) -> list[ApiKey]:
        """Return all keys, oldest first."""
        return await self._ask(keys.list_keys)


class SqlTransaction(SqlSnapshot, SqlBatchTransaction):
    """Changes on one connection; the store that opened it makes them durable."""

    def __init__(self, session: Session, queue: QueueRows) -> None:
        super().__init__(session)
        self._queue = queue
        self._marks: dict[tuple[str, str], int] = {}
        self.enqueued = False

    async def _ask(
        self, question: Callable[Concatenate[Connection, P], Answer], *args: P.args, **kwargs: P.kwargs
    ) -> Answer:
        if self._marks:
            await self.flush()
        return await self._session.ask(question, *args, **kwargs)

    async def flush(self) -> None:
        """Write the marks gathered so far: a batch marks hundreds of traces, one after the other."""
        marks, self._marks = self._marks, {}
        if marks:
            await self._session.ask(traces.mark_checked, marks)

    async def add_spans(self, project_id: str, spans: Sequence[Span], now_ns: int) -> dict[str, TraceRecord]:
        """Write spans; return the records of the traces that really changed, by trace id."""
        return await self._ask(traces.add_spans, project_id, spans, now_ns)

    async def mark_checked(self, project_id: str, trace_id: str, revision: int) -> None:
        """Note that the checks of this trace revision are owed (never lowers an earlier note)."""
        key = (project_id, trace_id)
        self._marks[key] = max(revision, self._marks.get(key, 0))

    async def add_evaluator(self, evaluator: Evaluator) -> None:
        """Write a new evaluator with its first revision."""
        await self._ask(evaluators.add_evaluator, evaluator)

    async def update_evaluator(self, evaluator: Evaluator) -> None:
        """Write settings, and the revision when it is new; raises NotFoundError and ConflictError."""
        await self._ask(evaluators.update_evaluator, evaluator)

    async def reseal_credentials(self, evaluator_id: str, before: SealedCredentials, after: SealedCredentials) -> None:
        """Write credentials sealed anew, unless somebody changed them meanwhile."""
        await self._ask(evaluators.reseal_credentials, evaluator_id, before, after)

    async def held_evaluators(self, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Evaluator]:
        """Return those that are not deleted, by (project, id), locked against change."""
        return await self._ask(evaluators.held_evaluators, keys) if keys else {}

    async def delete_evaluator(self, project_id: str, evaluator_id: str) -> bool:
        """Take the evaluator out of every listing, keeping its checks; return whether it was there."""
        return await self._ask(evaluators.delete_evaluator, project_id, evaluator_id)

    async def add_checks(self, checks: Sequence[Check]) -> set[str]:
        """Write the checks not there yet, and return their ids."""
        return await self._ask(check_rows.add_checks, checks)

    async def signal_for_update(self, project_id: str, evaluator_id: str, agent_id: str | None) -> Signal | None:
        """Return the signal, locked until the transaction ends, raised already or not."""
        return await self._ask(signal_rows.signal_for_update, project_id, evaluator_id, agent_id)

    async def put_signals(self, signals: Sequence[Signal], entries: Sequence[LogEntry]) -> None:
        """Write signals, new or changed, and log what was done to them."""
        if signals:
            await self._ask(signal_rows.put_signals, signals)
        if entries:
            await self._ask(signal_log.append, entries)

    async def failure_window(self, evaluator_id: str, agent_id: str | None) -> FailureWindow:
        """Return the last checks that count for this signal."""
        return await self._ask(failure_windows.find_window, evaluator_id, agent_id)

    async def put_failure_window(self, evaluator_id: str, agent_id: str | None, window: FailureWindow) -> None:
        """Write them."""
        await self._ask(failure_windows.put_window, evaluator_id, agent_id, window)

    async def add_channel(self, channel: Channel) -> None:
        """Write a new channel."""
        await self._ask(channels.add_channel, channel)

    async def channel_for_update(self, project_id: str, channel_id: str) -> Channel | None:
        """Return the channel, locked until the transaction ends."""
        return await self._ask(channels.lock_channel, project_id, channel_id)

    async def update_channel(self, channel: Channel) -> None:
        """Write a channel's settings and target."""
        await self._ask(channels.update_channel, channel)

    async def reseal_channel(self, channel_id: str, *, before: bytes, after: bytes) -> None:
        """Write a target sealed anew, unless somebody changed it meanwhile."""
        await self._ask(channels.reseal_channel, channel_id, before, after)

    async def mark_channel(self, channel_id: str, failing: Failing | None) -> None:
        """Note whether a channel fails."""
        await self._ask(channels.mark_channel, channel_id, failing)

    async def delete_channel(self, project_id: str, channel_id: str) -> bool:
        """Delete a channel with its log and what it was owed; return whether it was there."""
        return await self._ask(channels.delete_channel, project_id, channel_id)

    async def open_notifications(self, channel_id: str) -> list[Owed]:
        """Return what still gathers for a channel."""
        return await self._ask(notifications.open_notifications, channel_id)

    async def notification_for_update(self, notification_id: str) -> Owed | None:
        """Return a notification that is still owed, locked until the transaction ends."""
        return await self._ask(notifications.lock_notification, notification_id)

    async def put_notification(self, owed: Owed) -> None:
        """Write a notification that is owed, new or changed."""
        await self._ask(notifications.put_notification, owed)

    async def delete_notification(self, notification_id: str) -> None:
        """Take away a notification that is owed no more."""
        await self._ask(notifications.delete_notification, notification_id)

    async def add_delivery(self, delivery: Delivery) -> None:
        """Write a line of a channel's log."""
        await self._ask(notifications.add_delivery, delivery)

    async def add_key(self, key: ApiKey) -> None:
        """Write a new key."""
        await self._ask(keys.add_key, key)

    async def delete_key(self, key_id: str) -> bool:
        """Delete a key; return whether it was there."""
        return await self._ask(keys.delete_key, key_id)

    async def enqueue(self, work: Sequence[Work]) -> None:
        """Write queue entries."""
        if work:
            self.enqueued = True
            await self._ask(self._queue.enqueue, work)

    async def settle(self, claims: Sequence[Claim]) -> None:
        """Take finished entries out of the queue."""
        if claims:
            await self._ask(self._queue.settle, claims)

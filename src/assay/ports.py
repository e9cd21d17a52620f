"""Every seam of Assay on one page: what the flows and front doors ask of the outside."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from assay.batch_ports import BatchSnapshot, BatchTransaction
from assay.domain.access import ApiKey
from assay.domain.agent import Agent
from assay.domain.channel import Channel, Failing
from assay.domain.check import Check, CheckStatus
from assay.domain.credentials import SealedCredentials
from assay.domain.evaluator import Evaluator, Revision
from assay.domain.failure_window import FailureWindow
from assay.domain.notification import Delivery, Notification, Owed
from assay.domain.outcome import Call, Inspection, Limits, Outcome
from assay.domain.severity import Severity
from assay.domain.signal import Signal, SignalStatus
from assay.domain.signal_log import LogEntry, LogKind
from assay.domain.trace import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRecord:
    """What the store knows of a trace beside its spans.

    `revision` grows by one with every accepted change; `checked_revision` is the last one whose checks were owed.
    `pending_since_ns` is when the first change after that arrived; `updated_at_ns` is the last change.
    """

    project_id: str
    trace_id: str
    revision: int
    checked_revision: int
    agent_id: str | None
    name: str | None
    span_count: int
    created_at_ns: int
    updated_at_ns: int
    pending_since_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A queue entry to be: do `payload` in `lane` not before `due_at_ns`. One lane never holds up another."""

    lane: str
    payload: bytes
    due_at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A queue entry that is ours until its lease runs out; `attempt` is 1 the first time."""

    id: str
    lane: str
    payload: bytes
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of a listing, newest first: at most `limit` rows after `cursor` (opaque, from the page before)."""

    limit: int = 50
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFilter:
    """Which checks of a listing; `statuses` empty means all; `since_ns` is inclusive."""

    project_id: str
    evaluator_id: str | None = None
    trace_id: str | None = None
    agent_id: str | None = None
    statuses: tuple[CheckStatus, ...] = ()
    since_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalFilter:
    """Which signals of a listing: those seen last in [`since_ns`, `until_ns`), whose reasons have all the `words`.

    A word may stand anywhere in the reasons that are kept, in any case.
    """

    project_id: str
    status: SignalStatus | None = None
    severity: Severity | None = None
    evaluator_id: str | None = None
    agent_id: str | None = None
    since_ns: int | None = None
    until_ns: int | None = None
    words: tuple[str, ...] = ()


SignalOrder = Literal["seen", "raised"]
"""The signal seen last first, or the one raised last; the second never changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnds:
    """The number of a project's last log entry, and the one up to which folds are kept no more."""

    last: int = 0
    pruned_to: int = 0


class Snapshot(BatchSnapshot, Protocol):
    """Questions to the store, all answered from one consistent view."""

    async def trace(self, project_id: str, trace_id: str) -> TraceRecord | None:
        """Return what is known of a trace beside its spans."""
        ...

    async def traces(self, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], TraceRecord]:
        """Return the records of those traces that exist, by (project, trace id)."""
        ...

    async def spans(self, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], list[Span]]:
        """Return the spans of those traces that exist, by (project, trace id), each list by start time."""
        ...

    async def list_traces(
        self, project_id: str, page: Page, agent_id: str | None = None
    ) -> tuple[list[TraceRecord], str | None]:
        """Return a page of traces, newest first, and the cursor of the next."""
        ...

    async def evaluator(self, project_id: str, evaluator_id: str) -> Evaluator | None:
        """Return the evaluator, unless it was deleted."""
        ...

    async def list_evaluators(self, project_id: str) -> list[Evaluator]:
        """Return the project's evaluators, newest first."""
        ...

    async def evaluators_with_credentials(self) -> list[Evaluator]:
        """Return the evaluators of all projects that have credentials."""
        ...

    async def revisions(self, project_id: str, evaluator_id: str) -> list[Revision]:
        """Return an evaluator's revisions, newest first."""
        ...

    async def revisions_by_id(self, ids: Sequence[str]) -> dict[str, Revision]:
        """Return the revisions with these ids, of deleted evaluators too."""
        ...

    async def checks(self, which: CheckFilter, page: Page) -> tuple[list[Check], str | None]:
        """Return a page of checks, newest first, and the cursor of the next."""
        ...

    async def count_checks(self, which: CheckFilter) -> int:
        """Return how many checks the filter lets through."""
        ...

    async def existing_checks(self, ids: Sequence[str]) -> set[str]:
        """Return those of the ids that are recorded."""
        ...

    async def list_agents(self, project_id: str) -> list[Agent]:
        """Return the project's agents by name."""
        ...

    async def unknown_agents(self, project_id: str, ids: Sequence[str]) -> set[str]:
        """Return those of the ids that are no agents of the project."""
        ...

    async def signal(self, project_id: str, signal_id: str) -> Signal | None:
        """Return the signal with this id."""
        ...

    async def list_signals(
        self, which: SignalFilter, page: Page, order: SignalOrder = "seen"
    ) -> tuple[list[Signal], str | None]:
        """Return a page of signals and the cursor of the next; a cursor is of one order."""
        ...

    async def signal_history(
        self, project_id: str, signal_id: str, kinds: Sequence[LogKind], page: Page
    ) -> tuple[list[LogEntry], str | None]:
        """Return a page of a signal's log entries of these kinds, newest first, and the cursor of the next."""
        ...

    async def signal_log(self, project_id: str, after: int, limit: int) -> list[LogEntry]:
        """Return up to `limit` log entries of the project that follow the one numbered `after`, oldest first."""
        ...

    async def signal_log_ends(self, project_ids: Sequence[str]) -> dict[str, LogEnds]:
        """Return the ends of the projects' logs; a project without one is left out."""
        ...

    async def channel(self, project_id: str, channel_id: str) -> Channel | None:
        """Return the channel with this id."""
        ...

    async def list_channels(self, project_id: str) -> list[Channel]:
        """Return the project's channels, newest first."""
        ...

    async def channels_of_all_projects(self) -> list[Channel]:
        """Return the channels of all projects."""
        ...

    async def notification(self, notification_id: str) -> Owed | None:
        """Return a notification that is still owed."""
        ...

    async def count_notifications(self, channel_id: str) -> int:
        """Return how many notifications a channel is owed."""
        ...

    async def list_deliveries(self, channel_id: str, page: Page) -> tuple[list[Delivery], str | None]:
        """Return a page of a channel's log, newest first, and the cursor of the next."""
        ...

    async def key_by_digest(self, digest: str) -> ApiKey | None:
        """Return the key whose text has this SHA-256."""
        ...

    async def list_keys(self) -> list[ApiKey]:
        """Return all keys, oldest first."""
        ...


class Transaction(Snapshot, BatchTransaction, Protocol):
    """Changes to the store and its queue that become durable together, when the block ends, or not at all."""

    async def add_spans(self, project_id: str, spans: Sequence[Span], now_ns: int) -> dict[str, TraceRecord]:
        """Write spans (same id: the last content wins); return the traces that really changed, by trace id.

        Also keeps the trace rows (revision, span count, agent) and the agents seen. Raises TraceFullError, with all
        the traces concerned, when one would have more spans than are kept.
        """
        ...

    async def mark_checked(self, project_id: str, trace_id: str, revision: int) -> None:
        """Note that the checks of this trace revision are owed (never lowers an earlier note)."""
        ...

    async def add_evaluator(self, evaluator: Evaluator) -> None:
        """Write a new evaluator with its first revision."""
        ...

    async def update_evaluator(self, evaluator: Evaluator) -> None:
        """Store settings, and the revision when it is a new one."""
        ...

    async def reseal_credentials(self, evaluator_id: str, before: SealedCredentials, after: SealedCredentials) -> None:
        """Write credentials sealed anew, unless somebody changed them meanwhile."""
        ...

    async def held_evaluators(self, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Evaluator]:
        """Return those that are not deleted, by (project, id); none is deleted or changed before this ends."""
        ...

    async def delete_evaluator(self, project_id: str, evaluator_id: str) -> bool:
        """Take the evaluator out of every listing, keeping its checks; return whether it was there."""
        ...

    async def add_checks(self, checks: Sequence[Check]) -> set[str]:
        """Write checks not written before; return the ids of those that were new."""
        ...

    async def signal_for_update(self, project_id: str, evaluator_id: str, agent_id: str | None) -> Signal | None:
        """Return the signal, locked until the transaction ends; also serialises the first raising of it."""
        ...

    async def put_signals(self, signals: Sequence[Signal], entries: Sequence[LogEntry]) -> None:
        """Write signals, new or changed, and log what was done to them.

        It comes after every lock of the transaction: the log of a project is locked until it ends, so that entries are
        numbered in the order of the commits and nobody who follows the numbers misses one.
        """
        ...

    async def failure_window(self, evaluator_id: str, agent_id: str | None) -> FailureWindow:
        """Return the last checks that count for this signal; `signal_for_update` has locked them."""
        ...

    async def put_failure_window(self, evaluator_id: str, agent_id: str | None, window: FailureWindow) -> None:
        """Write them."""
        ...

    async def add_channel(self, channel: Channel) -> None:
        """Write a new channel."""
        ...

    async def channel_for_update(self, project_id: str, channel_id: str) -> Channel | None:
        """Return the channel, locked until the transaction ends; so nobody else adds to what gathers for it."""
        ...

    async def update_channel(self, channel: Channel) -> None:
        """Write a channel's settings and target; whether it fails stays as it is."""
        ...

    async def reseal_channel(self, channel_id: str, *, before: bytes, after: bytes) -> None:
        """Write a target sealed anew, unless somebody changed it meanwhile."""
        ...

    async def mark_channel(self, channel_id: str, failing: Failing | None) -> None:
        """Note whether a channel fails; since when stays what it was while it goes on failing."""
        ...

    async def delete_channel(self, project_id: str, channel_id: str) -> bool:
        """Delete a channel with its log and what it was owed; return whether it was there."""
        ...

    async def open_notifications(self, channel_id: str) -> list[Owed]:
        """Return what still gathers for a channel; the channel must be locked."""
        ...

    async def notification_for_update(self, notification_id: str) -> Owed | None:
        """Return a notification that is still owed, locked until the transaction ends."""
        ...

    async def put_notification(self, owed: Owed) -> None:
        """Write a notification that is owed, new or changed."""
        ...

    async def delete_notification(self, notification_id: str) -> None:
        """Take away a notification that is owed no more."""
        ...

    async def add_delivery(self, delivery: Delivery) -> None:
        """Write a line of a channel's log, of which the newest thousand are kept."""
        ...

    async def add_key(self, key: ApiKey) -> None:
        """Write a new key."""
        ...

    async def delete_key(self, key_id: str) -> bool:
        """Delete a key; return whether it was there."""
        ...

    async def enqueue(self, work: Sequence[Work]) -> None:
        """Put entries into the queue."""
        ...

    async def settle(self, claims: Sequence[Claim]) -> None:
        """Take finished entries out of the queue."""
        ...


class Store(Protocol):
    """The durable state."""

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """Open a block whose changes become durable when it ends, or none of them when it raises."""
        ...

    def snapshot(self) -> AbstractAsyncContextManager[Snapshot]:
        """Open a block whose questions are answered from one consistent view."""
        ...

    async def close(self) -> None:
        """Let go of everything."""
        ...


class Queue(Protocol):
    """The durable work queue; entries enter and leave it inside a store's Transaction."""

    async def lanes(self, now_ns: int) -> list[str]:
        """Return the lanes that have entries to claim now (due, and not leased to a live worker)."""
        ...

    async def claim(self, lane: str, limit: int) -> list[Claim]:
        """Lease up to `limit` due entries of a lane, oldest first; an expired lease counts as none."""
        ...

    async def extend(self, claims: Sequence[Claim]) -> None:
        """Heartbeat: renew the leases."""
        ...

    async def release(self, claims: Sequence[Claim], delay_s: float) -> None:
        """Give entries back, to be claimed again after the delay (a retry)."""
        ...

    async def depth(self) -> int:
        """Return how many entries wait or run."""
        ...

    async def depth_of(self, lanes: Sequence[str]) -> int:
        """Return how many entries of these lanes wait or run."""
        ...

    async def wait(self, timeout_s: float) -> None:
        """Return when something was enqueued, or after the timeout."""
        ...

    async def close(self) -> None:
        """Let go of everything."""
        ...


class Runner(Protocol):
    """Where an evaluator's code runs."""

    @property
    def description(self) -> str:
        """Name the runner and its level of isolation, as recorded on each check."""
        ...

    async def execute(self, revision: Revision, calls: Sequence[Call], limits: Limits) -> list[Outcome]:
        """Run a revision once per call; outcomes are as many and in the order given. Never raises for user code."""
        ...

    async def inspect(self, language: str, source: str, project_id: str = "") -> Inspection:
        """Look at a source without running it: syntax, and what it defines. Projects do not wait for each other."""
        ...

    async def close(self) -> None:
        """Let go of everything."""
        ...


@runtime_checkable
class CodeRunner(Runner, Protocol):
    """A Runner of evaluators' source, as ASSAY_CODE_RUNNER names one; installed packages may bring their own."""

    @property
    def languages(self) -> Sequence[str]:
        """Return the languages it runs, of python, javascript and typescript."""
        ...

    async def unready(self) -> str | None:
        """Return why no code can be run now, None when it can."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The channel took the notification."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotTold:
    """The channel did not take the notification: why, without secrets; and when it wants the next attempt, if it said.

    `after_s` is in seconds from now.
    """

    cause: str
    after_s: float | None = None


class Messenger(Protocol):
    """Brings notifications to channels of one kind."""

    async def shown(self, url: str, project_id: str) -> str:
        """Return what of a channel's URL may be shown; raise InvalidInputError for one nothing can be sent to."""
        ...

    async def send(self, channel: Channel, notification: Notification) -> Told | NotTold:
        """Send once, in bounded time. Never raises for what the other side does; at most one message results."""
        ...

    async def close(self) -> None:
        """Let go of everything."""
        ...


class Clock(Protocol):
    """The time of day."""

    def now_ns(self) -> int:
        """Return nanoseconds since the epoch, UTC."""
        ...

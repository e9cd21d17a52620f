"""Notifications: what a channel is told, when, and what is done when that fails. Pure decisions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from assay.domain.channel import Channel, is_quiet, quiet_until_ns
from assay.domain.identity import derived_id
from assay.domain.severity import SEVERITIES, Severity
from assay.domain.signal import ChangeKind, SignalChange

Gathering = Literal["nothing", "digest", "quiet"]
DeliveryOutcome = Literal["told", "failed", "given-up", "dropped"]

MOST_EVENTS = 100
CROWD = 100
CROWD_DIGEST_S = 300
MOST_ATTEMPTS = 30
FIRST_WAIT_S = 5.0
LONGEST_WAIT_S = 3600.0
LONGEST_CAUSE = 500
LONGEST_REASON = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalEvent:
    """What became of a signal, as it was at that moment: all that a message about it says."""

    id: str
    kind: ChangeKind
    occurred_at_ns: int
    signal_id: str
    evaluator_id: str
    evaluator_name: str
    agent_id: str | None
    agent_name: str | None
    severity: Severity
    count: int
    reason: str | None
    check_id: str | None
    trace_id: str | None
    first_seen_ns: int
    last_seen_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """One message to one channel. Its id is the same however often it is sent."""

    id: str
    project_id: str
    channel_id: str
    created_at_ns: int
    events: tuple[SignalEvent, ...]
    is_test: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Owed:
    """A notification that has not been told: when it is due, and how often that was tried.

    One that gathers takes further events in until it is due or full; then it is closed, before it is sent for the first
    time, so that nothing is sent under one id with two contents.
    """

    notification: Notification
    due_at_ns: int
    gathering: Gathering
    is_closed: bool
    attempts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A line of a channel's log: one attempt to tell it something, or the end of trying.

    `next_attempt_ns` is when it will be tried again. `duration_s` is that of the attempt.
    """

    id: str
    channel_id: str
    notification_id: str
    attempt: int
    outcome: DeliveryOutcome
    cause: str | None
    event_count: int
    is_test: bool
    at_ns: int
    duration_s: float
    next_attempt_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignore:
    """The channel does not want to hear of the event."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TellAt:
    """The channel wants to be told, at this time at the earliest, together with what gathers until then."""

    due_at_ns: int
    gathering: Gathering


Decision: TypeAlias = Ignore | TellAt


def event_of(change: SignalChange, agent_name: str | None, *, now_ns: int) -> SignalEvent:
    """Return what channels are told of a change; its reason is cut to 2,000 characters."""
    signal = change.signal
    last = signal.evidence[0] if signal.evidence else None
    reason = last.reason if last is not None else None
    return SignalEvent(
        id=derived_id("evt", signal.id, change.kind, last.check_id if last is not None else "", now_ns),
        kind=change.kind,
        occurred_at_ns=now_ns,
        signal_id=signal.id,
        evaluator_id=signal.evaluator_id,
        evaluator_name=change.evaluator.name,
        agent_id=signal.agent_id,
        agent_name=agent_name,
        severity=signal.severity,
        count=signal.count,
        reason=None if reason is None else reason[:LONGEST_REASON],
        check_id=last.check_id if last is not None else None,
        trace_id=last.trace_id if last is not None else None,
        first_seen_ns=signal.first_seen_ns,
        last_seen_ns=signal.last_seen_ns,
    )


def decide(channel: Channel, event: SignalEvent, *, now_ns: int, waiting: int = 0) -> Decision:
    """Decide whether and when a channel is told of an event, while so many notifications wait for it already.

    Where a hundred wait, what follows is gathered for five minutes at least, so that a storm of signals, or a channel
    that fails for long, does not pile up messages without end.
    """
    if not channel.enabled:
        return Ignore(why="the channel is disabled")
    if SEVERITIES.index(event.severity) < SEVERITIES.index(channel.least_severity):
        return Ignore(why=f"{event.severity} is below {channel.least_severity}")
    if channel.scope_mode == "selected" and event.evaluator_id not in channel.evaluator_ids:
        return Ignore(why="the channel is not for this evaluator")
    digest_s = channel.digest_s if waiting < CROWD else max(channel.digest_s, CROWD_DIGEST_S)
    due_at_ns = now_ns + digest_s * 1_000_000_000
    held_until_ns = _held_until_ns(channel, (event,), due_at_ns)
    if held_until_ns is not None:
        return TellAt(due_at_ns=held_until_ns, gathering="quiet")
    return TellAt(due_at_ns=due_at_ns, gathering="digest" if digest_s else "nothing")


def owe(channel: Channel, event: SignalEvent, told: TellAt, open_ones: Sequence[Owed], *, now_ns: int) -> Owed:
    """Return the notification that will tell the event: one of those still open with the event added, or a new one.

    A new one has no event but this; its id derives from the channel and the event.
    """
    for owed in open_ones:
        if _takes(owed, told, now_ns):
            notification = replace(owed.notification, events=(*owed.notification.events, event))
            return replace(owed, notification=notification, is_closed=len(notification.events) >= MOST_EVENTS)
    notification = Notification(
        id=derived_id("ntf", channel.id, event.id),
        project_id=channel.project_id,
        channel_id=channel.id,
        created_at_ns=now_ns,
        events=(event,),
    )
    return Owed(
        notification=notification,
        due_at_ns=told.due_at_ns,
        gathering=told.gathering,
        is_closed=told.gathering == "nothing",
    )


def held_until_ns(channel: Channel, notification: Notification, *, now_ns: int) -> int | None:
    """Return until when a notification that is due has to wait for quiet hours to end; None when it may go now."""
    return _held_until_ns(channel, notification.events, now_ns)


def retry_wait_s(attempts: int, asked_s: float | None) -> float | None:
    """Return how long to wait after so many failed attempts, in seconds; None when no more are made.

    5 s, doubling, an hour at most; longer, up to that hour, when the receiver asks for it. Thirty attempts take about
    twenty hours.
    """
    if attempts >= MOST_ATTEMPTS:
        return None
    return min(LONGEST_WAIT_S, max(FIRST_WAIT_S * 2.0 ** (attempts - 1), asked_s or 0.0))


def _held_until_ns(channel: Channel, events: Sequence[SignalEvent], at_ns: int) -> int | None:
    hours = channel.quiet_hours
    if hours is None or not events or any(event.severity in hours.passing for event in events):
        return None
    return quiet_until_ns(hours, at_ns) if is_quiet(hours, at_ns) else None


def _takes(owed: Owed, told: TellAt, now_ns: int) -> bool:
    if owed.is_closed or owed.gathering != told.gathering or owed.due_at_ns <= now_ns:
        return False
    return told.gathering == "digest" or owed.due_at_ns == told.due_at_ns

"""What people do with a signal: acknowledge, resolve, archive, mute, assign, note."""

from dataclasses import dataclass, replace

from assay.domain.signal import MutedUntil, Signal

MOST_NOTES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ImpossibleStep:
    """The signal cannot make this step now; `message` says why and what it can do."""

    message: str


def acknowledge(signal: Signal, *, now_ns: int) -> Signal | ImpossibleStep:
    """Note that somebody looks at it; only what is open can be, and once more changes nothing."""
    if signal.status == "acknowledged":
        return signal
    if signal.status != "open":
        return ImpossibleStep(
            message=f"This signal is {signal.status}; only an open one can be acknowledged. A new failure reopens it."
        )
    return replace(signal, status="acknowledged", is_unheard=False, updated_at_ns=now_ns)


def resolve(signal: Signal, *, reason: str, now_ns: int) -> Signal | ImpossibleStep:
    """Close it with a reason, which must be given; resolving again replaces the reason."""
    if not reason.strip():
        return ImpossibleStep(message="Resolving a signal needs a reason: say what was done about it.")
    if signal.status == "archived":
        return ImpossibleStep(
            message="This signal is archived; only an open, acknowledged or resolved one can be resolved."
        )
    if signal.status == "resolved" and signal.resolution == reason.strip():
        return signal
    return replace(_closed(signal, now_ns), status="resolved", resolution=reason.strip())


def archive(signal: Signal, *, now_ns: int) -> Signal:
    """Put it away, from any state; a resolution stays with it, and a new failure reopens it."""
    if signal.status == "archived":
        return signal
    return replace(_closed(signal, now_ns), status="archived")


def mute(signal: Signal, *, until: MutedUntil, now_ns: int) -> Signal | ImpossibleStep:
    """Tell nobody of it until then, in place of a mute it has; failures go on being counted.

    A mute until a time outlives closing, so that a reopening in that time is silent; one until it is resolved ends with
    closing in any way.
    """
    if until == "resolved" and signal.is_closed:
        return ImpossibleStep(
            message=f"This signal is {signal.status}, so it cannot be muted until it is resolved; give a time."
        )
    if until != "resolved" and until <= now_ns:
        return ImpossibleStep(message="The end of the mute has passed; give a time to come.")
    return signal if signal.muted_until == until else replace(signal, muted_until=until, updated_at_ns=now_ns)


def unmute(signal: Signal, *, now_ns: int) -> Signal:
    """Tell of it again; what happened while it was muted is told with its next failure."""
    if not signal.is_muted(now_ns):
        return signal
    return replace(signal, muted_until=None, updated_at_ns=now_ns)


def assign(signal: Signal, *, assignee: str | None, now_ns: int) -> Signal:
    """Say who sees to it; None for nobody."""
    return signal if signal.assignee == assignee else replace(signal, assignee=assignee, updated_at_ns=now_ns)


def note(signal: Signal, *, now_ns: int) -> Signal | ImpossibleStep:
    """Count one more note."""
    if signal.notes >= MOST_NOTES:
        return ImpossibleStep(message=f"This signal has {MOST_NOTES} notes, and no more are kept.")
    return replace(signal, notes=signal.notes + 1, updated_at_ns=now_ns)


def _closed(signal: Signal, now_ns: int) -> Signal:
    return replace(
        signal,
        closings=signal.closings + (not signal.is_closed),
        muted_until=None if signal.muted_until == "resolved" else signal.muted_until,
        is_unheard=False,
        updated_at_ns=now_ns,
    )

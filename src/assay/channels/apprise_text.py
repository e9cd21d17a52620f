"""What people read: a notification as a title and a few lines of plain text."""

import re

from assay.domain.notification import Notification, SignalEvent
from assay.domain.severity import SEVERITIES, Severity
from assay.domain.text import storable

LONGEST_TITLE = 200
LONGEST_LINE = 500
SHOWN_EVENTS = 20
BLANK = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029]+")
# What services take for a mention of people, or for a link, until it is kept apart.
STEERING = re.compile(r"([@<])(?=\S)")
APART = "\\1\u200b"
VERBS = {"raised": "fails", "reopened": "fails again", "escalated": "fails more severely", "resurfaced": "still fails"}


def title_of(notification: Notification) -> str:
    """Return the title, a line of at most 200 characters."""
    if notification.is_test:
        return "Test from Assay"
    first, *more = notification.events
    if not more:
        return plain(_headline(first), LONGEST_TITLE)
    return f"[{worst(notification)}] {len(notification.events)} signals"


def body_of(notification: Notification) -> str:
    """Return the body: a few lines for each event, of the first twenty."""
    if notification.is_test:
        return "This channel works: signals will be told here."
    shown = [_lines(event) for event in notification.events[:SHOWN_EVENTS]]
    left = len(notification.events) - len(shown)
    if left:
        shown.append(f"And {left} more; all of them are in the list of signals.")
    return "\n\n".join(shown)


def worst(notification: Notification) -> Severity:
    """Return the highest severity of the events, low when there are none."""
    named = {event.severity for event in notification.events}
    found: Severity = "low"
    for severity in SEVERITIES:
        found = severity if severity in named else found
    return found


def plain(text: str, longest: int) -> str:
    """Return the text as one bounded line that mentions nobody and links nowhere: other people decide what it says."""
    line = STEERING.sub(APART, BLANK.sub(" ", storable(text)).strip())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def _headline(event: SignalEvent) -> str:
    where = f" on {event.agent_name}" if event.agent_name else ""
    return f"[{event.severity}] {event.evaluator_name} {VERBS[event.kind]}{where}"


def _lines(event: SignalEvent) -> str:
    lines = [_headline(event)]
    if event.reason:
        lines.append(event.reason)
    times = "once" if event.count == 1 else f"{event.count} times"
    seen = f"Seen {times}"
    lines.append(f"{seen}, last in trace {event.trace_id}." if event.trace_id else f"{seen}.")
    lines.append(f"Signal {event.signal_id}")
    return "\n".join(plain(line, LONGEST_LINE) for line in lines)

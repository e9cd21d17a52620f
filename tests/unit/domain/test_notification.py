from dataclasses import replace

import pytest

from assay.domain.channel import QuietHours
from assay.domain.evaluator import Severity
from assay.domain.notification import (
    CROWD,
    CROWD_DIGEST_S,
    LONGEST_REASON,
    MOST_ATTEMPTS,
    MOST_EVENTS,
    Ignore,
    Owed,
    TellAt,
    decide,
    event_of,
    held_until_ns,
    owe,
    retry_wait_s,
)
from assay.domain.signal import SignalChange
from assay.testing import NOW_NS
from support.notifications import a_channel, a_notification, an_event
from support.records import a_check, a_signal, an_evaluator

SECOND_NS = 1_000_000_000
# NOW_NS is 15:06:40 UTC.
QUIET_NOW = QuietHours(zone="UTC", from_minute=15 * 60, to_minute=16 * 60, passing=("critical",))
QUIET_SOON = QuietHours(zone="UTC", from_minute=15 * 60 + 30, to_minute=16 * 60)
QUIET_ENDS_NS = NOW_NS + (53 * 60 + 20) * SECOND_NS


@pytest.mark.parametrize(
    ("least", "severity", "told"),
    [
        ("low", "low", True),
        ("medium", "low", False),
        ("medium", "medium", True),
        ("high", "critical", True),
        ("critical", "high", False),
    ],
)
def test_a_channel_hears_of_its_severity_and_worse(least: Severity, severity: Severity, told: bool) -> None:
    decision = decide(a_channel(least_severity=least), an_event(severity=severity), now_ns=NOW_NS)
    assert isinstance(decision, TellAt) is told


def test_a_channel_for_some_evaluators_hears_of_no_other() -> None:
    channel = a_channel(scope_mode="selected", evaluator_ids=("evl_2",))
    assert isinstance(decide(channel, an_event(evaluator_id="evl_2"), now_ns=NOW_NS), TellAt)
    assert decide(channel, an_event(evaluator_id="evl_1"), now_ns=NOW_NS) == Ignore(
        why="the channel is not for this evaluator"
    )


def test_a_disabled_channel_hears_of_nothing() -> None:
    assert isinstance(decide(a_channel(enabled=False), an_event(), now_ns=NOW_NS), Ignore)


def test_without_a_digest_everything_is_told_at_once_and_by_itself() -> None:
    told = TellAt(due_at_ns=NOW_NS, gathering="nothing")
    assert decide(a_channel(), an_event(), now_ns=NOW_NS) == told
    assert owe(a_channel(), an_event(), told, [], now_ns=NOW_NS).is_closed


def test_in_quiet_hours_only_what_passes_is_told() -> None:
    channel = a_channel(quiet_hours=QUIET_NOW)
    assert decide(channel, an_event(severity="high"), now_ns=NOW_NS) == TellAt(
        due_at_ns=QUIET_ENDS_NS, gathering="quiet"
    )
    assert decide(channel, an_event(severity="critical"), now_ns=NOW_NS) == TellAt(
        due_at_ns=NOW_NS, gathering="nothing"
    )


def test_a_digest_that_would_end_in_quiet_hours_waits_for_their_end() -> None:
    channel = a_channel(quiet_hours=QUIET_SOON, digest_s=1800)
    assert decide(channel, an_event(), now_ns=NOW_NS) == TellAt(due_at_ns=QUIET_ENDS_NS, gathering="quiet")


def test_where_a_hundred_wait_what_follows_is_gathered_for_five_minutes_or_longer_if_asked() -> None:
    told = [decide(a_channel(digest_s=digest_s), an_event(), now_ns=NOW_NS, waiting=CROWD) for digest_s in (0, 900)]
    assert told == [
        TellAt(due_at_ns=NOW_NS + seconds * SECOND_NS, gathering="digest") for seconds in (CROWD_DIGEST_S, 900)
    ]
    one_less = decide(a_channel(), an_event(), now_ns=NOW_NS, waiting=CROWD - 1)
    assert one_less == TellAt(due_at_ns=NOW_NS, gathering="nothing")


def gathered(digest_s: int, *after_s: int) -> list[Owed]:
    """Owe events that happen after so many seconds; return the notifications they made."""
    channel = a_channel(digest_s=digest_s)
    waiting: dict[str, Owed] = {}
    for number, seconds in enumerate(after_s):
        now_ns, event = NOW_NS + seconds * SECOND_NS, an_event(f"evt_{number}")
        told = decide(channel, event, now_ns=now_ns)
        assert isinstance(told, TellAt)
        owed = owe(channel, event, told, list(waiting.values()), now_ns=now_ns)
        waiting[owed.notification.id] = owed
    return list(waiting.values())


def test_what_gathers_in_the_window_of_a_digest_is_one_notification_due_when_the_window_ends() -> None:
    first, second = gathered(60, 0, 20, 59, 60)
    assert [event.id for event in first.notification.events] == ["evt_0", "evt_1", "evt_2"]
    assert first.due_at_ns == NOW_NS + 60 * SECOND_NS
    assert [event.id for event in second.notification.events] == ["evt_3"]


def test_a_digest_that_is_full_is_closed_and_another_begins() -> None:
    first, second = gathered(60, *([0] * (MOST_EVENTS + 1)))
    assert (len(first.notification.events), first.is_closed) == (MOST_EVENTS, True)
    assert (len(second.notification.events), second.is_closed) == (1, False)


def test_what_was_held_for_the_morning_takes_in_nothing_that_may_be_told_now() -> None:
    channel = a_channel(quiet_hours=QUIET_NOW, digest_s=60)
    held = decide(channel, an_event(severity="low"), now_ns=NOW_NS)
    assert isinstance(held, TellAt)
    night = owe(channel, an_event("evt_low", severity="low"), held, [], now_ns=NOW_NS)
    urgent = decide(channel, an_event(severity="critical"), now_ns=NOW_NS)
    assert isinstance(urgent, TellAt)
    alarm = owe(channel, an_event("evt_urgent", severity="critical"), urgent, [night], now_ns=NOW_NS)
    assert alarm.notification.id != night.notification.id
    assert alarm.due_at_ns == NOW_NS + 60 * SECOND_NS
    later = owe(channel, an_event("evt_more", severity="low"), held, [alarm, night], now_ns=NOW_NS)
    assert [event.id for event in later.notification.events] == ["evt_low", "evt_more"]


def test_the_same_event_makes_the_same_id_for_a_channel_and_others_for_others() -> None:
    told = TellAt(due_at_ns=NOW_NS, gathering="nothing")
    ids = {
        owe(a_channel(channel_id=channel), an_event(event), told, [], now_ns=now_ns).notification.id
        for channel, event, now_ns in [("chn_1", "evt_1", 1), ("chn_1", "evt_1", 2), ("chn_2", "evt_1", 1)]
    }
    assert len(ids) == 2


def test_what_is_due_in_quiet_hours_waits_for_their_end_unless_something_in_it_passes() -> None:
    channel = a_channel(quiet_hours=QUIET_NOW)
    high, critical = an_event(severity="high"), an_event("evt_2", severity="critical")
    assert held_until_ns(channel, a_notification(high), now_ns=NOW_NS) == QUIET_ENDS_NS
    assert held_until_ns(channel, a_notification(high, critical), now_ns=NOW_NS) is None
    assert held_until_ns(channel, a_notification(high), now_ns=QUIET_ENDS_NS) is None


def test_attempts_come_ever_more_slowly_and_end_within_a_day() -> None:
    waits = [retry_wait_s(attempts, None) for attempts in range(1, MOST_ATTEMPTS + 1)]
    assert waits[:4] == [5, 10, 20, 40]
    assert waits[-2:] == [3600, None]
    assert 20 * 3600 < sum(wait or 0 for wait in waits) < 24 * 3600


def test_a_receiver_may_ask_for_a_longer_wait_of_up_to_an_hour() -> None:
    assert retry_wait_s(1, 90) == 90
    assert retry_wait_s(1, 1) == 5
    assert retry_wait_s(1, 1e9) == 3600
    assert retry_wait_s(MOST_ATTEMPTS, 1) is None


def test_an_event_says_what_the_signal_was_like_with_a_bounded_reason() -> None:
    signal = a_signal(a_check(failed=True, agent_id="agt_1"))
    long = replace(signal, evidence=(replace(signal.evidence[0], reason="x" * 5000),))
    change = SignalChange(kind="reopened", signal=long, evaluator=an_evaluator(name="polite"), muted=False)
    event = event_of(change, "shop", now_ns=NOW_NS)
    assert (event.kind, event.evaluator_name, event.agent_name, event.severity) == (
        "reopened",
        "polite",
        "shop",
        signal.severity,
    )
    assert (event.check_id, event.trace_id) == (signal.evidence[0].check_id, signal.evidence[0].trace_id)
    assert event.reason == "x" * LONGEST_REASON

from typing import get_args

import pytest

from assay.channels.apprise_text import SHOWN_EVENTS, body_of, plain, title_of, worst
from assay.domain.signal import ChangeKind
from support.notifications import a_notification, an_event


def test_one_event_is_told_in_the_title_and_in_a_few_lines() -> None:
    notification = a_notification(an_event(count=3))
    assert title_of(notification) == "[high] no refusal fails on shop"
    assert body_of(notification).split("\n") == [
        "[high] no refusal fails on shop",
        "refused the customer",
        "Seen 3 times, last in trace t1.",
        "Signal sig_1",
    ]


def test_what_is_not_known_is_left_out() -> None:
    event = an_event(agent_id=None, agent_name=None, reason=None, trace_id=None)
    assert body_of(a_notification(event)).split("\n") == ["[high] no refusal fails", "Seen once.", "Signal sig_1"]


@pytest.mark.parametrize("kind", get_args(ChangeKind))
def test_every_kind_of_change_reads_as_a_sentence(kind: ChangeKind) -> None:
    assert " fail" in title_of(a_notification(an_event(kind=kind)))


def test_a_digest_tells_how_many_and_how_bad_and_shows_the_first_twenty() -> None:
    events = [an_event(f"evt_{number}", severity="low", evaluator_name=f"check {number}") for number in range(24)]
    notification = a_notification(*events, an_event("evt_bad", severity="critical"))
    assert title_of(notification) == "[critical] 25 signals"
    body = body_of(notification)
    assert f"check {SHOWN_EVENTS - 1} " in body
    assert f"check {SHOWN_EVENTS} " not in body
    assert body.endswith("And 5 more; all of them are in the list of signals.")


def test_a_test_says_that_it_is_one() -> None:
    notification = a_notification(is_test=True)
    assert (title_of(notification), worst(a_notification(an_event(severity="low")))) == ("Test from Assay", "low")
    assert "works" in body_of(notification)


def test_text_is_cut_and_kept_on_one_line() -> None:
    assert plain("a\n\tb" * 100, 10) == "a ba ba b…"

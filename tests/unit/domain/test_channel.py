from datetime import UTC, datetime

import pytest

from assay.domain.channel import QuietHours, is_quiet, quiet_until_ns

NIGHT = QuietHours(zone="Europe/Berlin", from_minute=22 * 60, to_minute=7 * 60)
LUNCH = QuietHours(zone="Europe/Berlin", from_minute=12 * 60, to_minute=13 * 60 + 30)


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) * 1_000_000_000


def utc(at_ns: int) -> str:
    return datetime.fromtimestamp(at_ns // 1_000_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.mark.parametrize(
    ("hours", "moment", "quiet"),
    [
        (NIGHT, "2026-07-01T21:59:59+02:00", False),
        (NIGHT, "2026-07-01T22:00:00+02:00", True),
        (NIGHT, "2026-07-02T03:00:00+02:00", True),
        (NIGHT, "2026-07-02T06:59:59+02:00", True),
        (NIGHT, "2026-07-02T07:00:00+02:00", False),
        (NIGHT, "2026-01-02T20:30:00+00:00", False),
        (NIGHT, "2026-07-02T20:30:00+00:00", True),
        (LUNCH, "2026-07-02T11:59:00+02:00", False),
        (LUNCH, "2026-07-02T13:29:59+02:00", True),
        (LUNCH, "2026-07-02T13:30:00+02:00", False),
    ],
)
def test_it_is_quiet_by_the_wall_clock_of_the_zone(hours: QuietHours, moment: str, quiet: bool) -> None:
    assert is_quiet(hours, at(moment)) is quiet


@pytest.mark.parametrize(
    ("hours", "moment", "until"),
    [
        (NIGHT, "2026-07-01T23:10:27+02:00", "2026-07-02T05:00:00Z"),
        (NIGHT, "2026-07-02T06:59:59+02:00", "2026-07-02T05:00:00Z"),
        (NIGHT, "2026-01-01T23:00:00+01:00", "2026-01-02T06:00:00Z"),
        (NIGHT, "2026-03-28T23:00:00+01:00", "2026-03-29T05:00:00Z"),
        (NIGHT, "2026-10-24T23:00:00+02:00", "2026-10-25T06:00:00Z"),
    ],
    ids=["over midnight", "in the last minute", "in winter", "the night of 23 hours", "the night of 25 hours"],
)
def test_quiet_hours_end_when_the_wall_clock_says_so(hours: QuietHours, moment: str, until: str) -> None:
    assert utc(quiet_until_ns(hours, at(moment))) == until


def test_quiet_hours_that_end_in_an_hour_that_is_left_out_end_with_it() -> None:
    hours = QuietHours(zone="Europe/Berlin", from_minute=22 * 60, to_minute=2 * 60 + 30)
    assert utc(quiet_until_ns(hours, at("2026-03-29T01:30:00+01:00"))) == "2026-03-29T01:00:00Z"


def test_quiet_hours_in_an_hour_that_comes_twice_are_quiet_twice() -> None:
    hours = QuietHours(zone="Europe/Berlin", from_minute=2 * 60, to_minute=2 * 60 + 30)
    assert utc(quiet_until_ns(hours, at("2026-10-25T02:10:00+02:00"))) == "2026-10-25T00:30:00Z"
    assert is_quiet(hours, at("2026-10-25T02:10:00+01:00"))


def test_a_zone_that_this_machine_does_not_know_counts_as_utc() -> None:
    hours = QuietHours(zone="Nowhere/At_All", from_minute=22 * 60, to_minute=7 * 60)
    assert is_quiet(hours, at("2026-07-01T23:00:00+00:00"))
    assert utc(quiet_until_ns(hours, at("2026-07-01T23:00:00+00:00"))) == "2026-07-02T07:00:00Z"

"""Channels: where people are told of signals, of which, and when."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from assay.domain.evaluator import ScopeMode
from assay.domain.severity import Severity

ChannelKind = Literal["apprise", "webhook"]
MINUTES_A_DAY = 1440
MINUTE_NS = 60 * 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietHours:
    """A part of the day, by the wall clock of a time zone, in which only the `passing` severities are told at once.

    Minutes of the day, 0 to 1439; it begins with `from_minute`, ends before `to_minute`, and may span midnight.
    """

    zone: str
    from_minute: int
    to_minute: int
    passing: tuple[Severity, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """Since when a channel could not be told anything, and why, the last time it was tried."""

    since_ns: int
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a channel leads, and what signs what is sent there: both secret, and stored sealed."""

    url: str
    signing_secret: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """A way to reach somebody; `sealed` is its Target, `shown_url` what of its URL may be shown.

    What gathers within `digest_s` seconds is told as one notification; with 0 everything is told at once.
    """

    id: str
    project_id: str
    name: str
    kind: ChannelKind
    shown_url: str
    sealed: bytes
    enabled: bool = True
    least_severity: Severity = "low"
    scope_mode: ScopeMode = "all"
    evaluator_ids: tuple[str, ...] = ()
    quiet_hours: QuietHours | None = None
    digest_s: int = 0
    created_at_ns: int
    updated_at_ns: int
    failing: Failing | None = None


def vault_place(channel_id: str) -> str:
    """Name the place a channel's target is sealed for."""
    return f"channel {channel_id}"


def target_text(target: Target) -> str:
    """Return the target as the text that is sealed."""
    return json.dumps({"url": target.url, "signing_secret": target.signing_secret})


def target_of(text: str) -> Target:
    """Return the target that was sealed as this text."""
    return Target(**json.loads(text))


def is_quiet(hours: QuietHours, at_ns: int) -> bool:
    """Tell whether this moment, in nanoseconds since the epoch, lies in the quiet hours."""
    local = datetime.fromtimestamp(at_ns // 1_000_000_000, _zone(hours.zone))
    minute = local.hour * 60 + local.minute
    if hours.from_minute < hours.to_minute:
        return hours.from_minute <= minute < hours.to_minute
    return minute >= hours.from_minute or minute < hours.to_minute


def quiet_until_ns(hours: QuietHours, at_ns: int) -> int:
    """Return the first whole minute after this moment that is not quiet; clocks may be put forward or back meanwhile.

    Quiet hours are shorter than a day, but a day on which the clock is put back is longer.
    """
    return _quiet_until_ns(hours, at_ns - at_ns % MINUTE_NS)


@lru_cache(maxsize=1024)
def _quiet_until_ns(hours: QuietHours, minute_ns: int) -> int:
    until_ns = minute_ns
    for _ in range(2 * MINUTES_A_DAY):
        until_ns += MINUTE_NS
        if not is_quiet(hours, until_ns):
            break
    return until_ns


@lru_cache(maxsize=1024)
def _zone(name: str) -> tzinfo:
    """Return the zone; UTC for one that this machine has forgotten, since signals must be told all the same."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError, ValueError):
        return UTC

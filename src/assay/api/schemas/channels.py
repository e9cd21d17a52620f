"""Channels and their log, as sent and as answered."""

import re
from functools import cache
from typing import Annotated, ClassVar, Literal
from zoneinfo import available_timezones

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from assay.api.schemas.fields import Answer, Cursor, Identifier, Limit, Name, Query, Request, Text, iso, shown
from assay.domain.channel import Channel, ChannelKind, QuietHours
from assay.domain.evaluator import ScopeMode, Severity
from assay.domain.notification import Delivery, DeliveryOutcome

LONGEST_URL = 2048
MOST_EVALUATORS = 1000
LONGEST_DIGEST_S = 86_400
MINUTES_AN_HOUR = 60
CLOCK = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")


def _clock(text: str) -> str:
    if not CLOCK.fullmatch(text):
        raise PydanticCustomError("text", "must be a time of day such as 07:30; found {found}", {"found": shown(text)})
    return text


@cache
def _zones() -> set[str]:
    return available_timezones()


def _zone(text: str) -> str:
    if text not in _zones():
        raise PydanticCustomError(
            "text", "must be the name of a time zone such as Europe/Berlin; found {found}", {"found": shown(text)}
        )
    return text


def _unechoed(text: str) -> str:
    """Refuse what is too long without repeating it, since it is secret."""
    if not 0 < len(text) <= LONGEST_URL:
        message = f"must have 1 to {LONGEST_URL} characters; found {len(text)}"
        raise PydanticCustomError("secret", "{message}", {"message": message})
    return text


SecretText = Annotated[Text, AfterValidator(_unechoed)]
ClockTime = Annotated[str, AfterValidator(_clock)]
ZoneName = Annotated[str, AfterValidator(_zone)]


class QuietHoursFields(Request):
    """A part of each day in which only some severities are told at once; the others wait for its end."""

    time_zone: ZoneName
    starts: Annotated[ClockTime, Field(alias="from")]
    ends: Annotated[ClockTime, Field(alias="to", description="May be earlier than `from`: over midnight.")]
    passing: Annotated[
        list[Severity], Field(alias="passSeverities", max_length=4, description="Told at once all the same.")
    ] = Field(default_factory=list[Severity])

    @model_validator(mode="after")
    def _demand_a_part(self) -> "QuietHoursFields":
        """Refuse hours that are no time, or all of it."""
        if self.starts == self.ends:
            raise PydanticCustomError("text", "from and to are the same time of day; they must differ")
        return self


class ChannelFields(Request):
    """What can be set of a channel. What is left out keeps its value, or its default in a new one."""

    read_only: ClassVar[frozenset[str]] = frozenset({"id", "kind", "status", "createdAt", "updatedAt"})

    secret: Annotated[
        SecretText | None,
        Field(description="Signs webhooks: `whsec_…`; made here when left out."),
    ] = None
    enabled: bool = True
    min_severity: Severity = "low"
    scope_mode: Annotated[
        ScopeMode, Field(description="`selected` tells of the evaluators in `evaluatorIds` only.")
    ] = "all"
    evaluator_ids: Annotated[list[Identifier], Field(max_length=MOST_EVALUATORS)] = Field(default_factory=list[str])
    quiet_hours: QuietHoursFields | None = None
    digest_seconds: Annotated[
        int, Field(ge=0, le=LONGEST_DIGEST_S, description="What gathers for so long is one message; 0 tells at once.")
    ] = 0


class ChannelChanges(ChannelFields):
    """Changes to a channel."""

    name: Name = ""
    url: SecretText = ""


class NewChannel(ChannelFields):
    """A new channel; `url` is one of apprise's, or `webhook:` and an https or http URL."""

    name: Name
    url: SecretText


class QuietHoursAnswer(Answer):
    """The quiet hours of a channel."""

    time_zone: str
    starts: Annotated[str, Field(serialization_alias="from")]
    ends: Annotated[str, Field(serialization_alias="to")]
    passing: Annotated[list[Severity], Field(serialization_alias="passSeverities")]


class ChannelStatus(Answer):
    """Whether the channel took what it was last told; if not, since when and why."""

    state: Literal["ok", "failing"]
    since: str | None
    last_error: str | None


class ChannelAnswer(Answer):
    """A channel. Of its URL only that is shown which is not secret; a signing secret only when it was made here."""

    id: str
    name: str
    kind: ChannelKind
    url: str
    enabled: bool
    min_severity: Severity
    scope_mode: ScopeMode
    evaluator_ids: list[str]
    quiet_hours: QuietHoursAnswer | None
    digest_seconds: int
    status: ChannelStatus
    created_at: str
    updated_at: str


class NewChannelAnswer(ChannelAnswer):
    """A channel just made; `secret` is there when it was made here, this once."""

    secret: str | None


class ChannelList(Answer):
    """All channels of the project, newest first."""

    channels: list[ChannelAnswer]


class DeliveryQuery(Query):
    """Which page of the log."""

    limit: Limit = 50
    cursor: Cursor = None


class DeliveryAnswer(Answer):
    """One attempt to tell the channel something, or the end of trying."""

    id: str
    notification_id: str
    outcome: DeliveryOutcome
    attempt: int
    error: str | None
    events: int
    is_test: Annotated[bool, Field(serialization_alias="test")]
    occurred_at: str
    duration_ms: float
    next_attempt_at: str | None


class DeliveryList(Answer):
    """A page of the log, newest first, and how many notifications the channel is owed now."""

    deliveries: list[DeliveryAnswer]
    owed: int
    next_cursor: str | None


class TestAnswer(Answer):
    """What came of a test notification."""

    ok: bool
    notification_id: str
    error: str | None
    duration_ms: float


def quiet_hours_of(fields: QuietHoursFields) -> QuietHours:
    """Return the quiet hours that somebody sent."""
    return QuietHours(
        zone=fields.time_zone,
        from_minute=_minute(fields.starts),
        to_minute=_minute(fields.ends),
        passing=tuple(dict.fromkeys(fields.passing)),
    )


def channel_answer(channel: Channel) -> ChannelAnswer:
    """Return a channel as the API shows it."""
    hours, failing = channel.quiet_hours, channel.failing
    return ChannelAnswer(
        id=channel.id,
        name=channel.name,
        kind=channel.kind,
        url=channel.shown_url,
        enabled=channel.enabled,
        min_severity=channel.least_severity,
        scope_mode=channel.scope_mode,
        evaluator_ids=list(channel.evaluator_ids),
        quiet_hours=None
        if hours is None
        else QuietHoursAnswer(
            time_zone=hours.zone,
            starts=_clock_time(hours.from_minute),
            ends=_clock_time(hours.to_minute),
            passing=list(hours.passing),
        ),
        digest_seconds=channel.digest_s,
        status=ChannelStatus(state="ok", since=None, last_error=None)
        if failing is None
        else ChannelStatus(state="failing", since=iso(failing.since_ns), last_error=failing.cause),
        created_at=iso(channel.created_at_ns),
        updated_at=iso(channel.updated_at_ns),
    )


def delivery_answer(delivery: Delivery) -> DeliveryAnswer:
    """Return a line of the log as the API shows it."""
    return DeliveryAnswer(
        id=delivery.id,
        notification_id=delivery.notification_id,
        outcome=delivery.outcome,
        attempt=delivery.attempt,
        error=delivery.cause,
        events=delivery.event_count,
        is_test=delivery.is_test,
        occurred_at=iso(delivery.at_ns),
        duration_ms=round(delivery.duration_s * 1000, 3),
        next_attempt_at=None if delivery.next_attempt_ns is None else iso(delivery.next_attempt_ns),
    )


def _minute(clock: str) -> int:
    hours, minutes = clock.split(":")
    return int(hours) * MINUTES_AN_HOUR + int(minutes)


def _clock_time(minute: int) -> str:
    return f"{minute // MINUTES_AN_HOUR:02}:{minute % MINUTES_AN_HOUR:02}"

"""What a request makes of a channel, and the test that tells whether it works."""

import base64
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from assay.api.schemas.channels import ChannelFields, NewChannel, TestAnswer, quiet_hours_of
from assay.api.services import Services
from assay.domain.channel import Channel, ChannelKind, Failing, Target, target_of, target_text, vault_place
from assay.domain.identity import new_id
from assay.domain.notification import LONGEST_CAUSE, Delivery, Notification
from assay.errors import InvalidInputError, NotFoundError
from assay.ports import NotTold, Snapshot
from assay.signing import PREFIX, demand_signing_secret

MOST_CHANNELS = 50
WEBHOOK_PREFIX = "webhook:"
SECRET_BYTES = 32
NAMES = {
    "name": "name",
    "enabled": "enabled",
    "min_severity": "least_severity",
    "scope_mode": "scope_mode",
    "digest_seconds": "digest_s",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A new channel, and its signing secret where it was made here."""

    channel: Channel
    secret: str | None


async def load_channel(snapshot: Snapshot, project_id: str, channel_id: str) -> Channel:
    """Return a channel; raise NotFoundError."""
    channel = await snapshot.channel(project_id, channel_id)
    if channel is None:
        raise NotFoundError(f"There is no channel {channel_id[:80]!r} in this project.")
    return channel


async def new_channel(services: Services, project_id: str, fields: NewChannel) -> Made:
    """Return a channel of these fields; raise InvalidInputError where it could tell nobody anything."""
    now_ns = services.clock.now_ns()
    kind = _kind(fields.url)
    secret = fields.secret
    made_here = None
    if kind == "webhook" and secret is None:
        secret = made_here = PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()
    channel_id = new_id("chn", now_ns)
    blank = Channel(
        id=channel_id,
        project_id=project_id,
        name=fields.name,
        kind=kind,
        shown_url=await services.messengers[kind].shown(fields.url, project_id),
        sealed=_sealed(services, channel_id, Target(url=fields.url, signing_secret=_demand_secret(kind, secret))),
        created_at_ns=now_ns,
        updated_at_ns=now_ns,
    )
    return Made(channel=_laid_over(blank, fields), secret=made_here)


async def changed_channel(services: Services, stored: Channel, fields: ChannelFields) -> Channel:
    """Return the channel with the fields that were given; its URL as we show it means the one that is stored."""
    given = fields.model_dump(include={"url", "secret"}, exclude_unset=True)
    if given.get("url") == stored.shown_url:
        del given["url"]
    merged = _laid_over(replace(stored, updated_at_ns=services.clock.now_ns()), fields)
    if not any(given.values()):
        return merged
    if given.get("url") and (given.get("secret") or stored.kind != "webhook"):
        target = Target(url="")
    else:
        target = target_of(services.vault.open(stored.sealed, place=vault_place(stored.id)))
    if given.get("secret") is not None:
        target = replace(target, signing_secret=_demand_secret(stored.kind, given["secret"]))
    if "url" in given:
        if _kind(given["url"]) != stored.kind:
            raise InvalidInputError(
                f"This channel is of the kind {stored.kind}, which cannot change; make a new one.", field="url"
            )
        shown = await services.messengers[stored.kind].shown(given["url"], stored.project_id)
        target, merged = replace(target, url=given["url"]), replace(merged, shown_url=shown)
    return replace(merged, sealed=_sealed(services, stored.id, target))


async def demand_known_evaluators(snapshot: Snapshot, channel: Channel) -> None:
    """Raise InvalidInputError for evaluators that the project does not have."""
    if not channel.evaluator_ids:
        return
    known = {evaluator.id for evaluator in await snapshot.list_evaluators(channel.project_id)}
    unknown = [evaluator_id for evaluator_id in channel.evaluator_ids if evaluator_id not in known]
    if unknown:
        raise InvalidInputError(
            f"There are no evaluators with these ids: {', '.join(unknown[:5])}.", field="evaluatorIds"
        )


async def test_channel(services: Services, channel: Channel) -> TestAnswer:
    """Send a test now; the log and the channel's status say what came of it, as of any notification."""
    now_ns = services.clock.now_ns()
    notification = Notification(
        id=new_id("ntf", now_ns),
        project_id=channel.project_id,
        channel_id=channel.id,
        created_at_ns=now_ns,
        events=(),
        is_test=True,
    )
    started = time.monotonic()
    result = await services.messengers[channel.kind].send(channel, notification)
    duration_s = time.monotonic() - started
    cause = result.cause[:LONGEST_CAUSE] if isinstance(result, NotTold) else None
    at_ns = services.clock.now_ns()
    delivery = Delivery(
        id=new_id("dlv", at_ns),
        channel_id=channel.id,
        notification_id=notification.id,
        attempt=1,
        outcome="told" if cause is None else "failed",
        cause=cause,
        event_count=0,
        is_test=True,
        at_ns=at_ns,
        duration_s=duration_s,
    )
    async with services.store.transaction() as transaction:
        if await transaction.channel_for_update(channel.project_id, channel.id) is not None:
            await transaction.add_delivery(delivery)
            failing = None if cause is None else Failing(since_ns=at_ns, cause=cause)
            await transaction.mark_channel(channel.id, failing)
    return TestAnswer(
        ok=cause is None,
        notification_id=notification.id,
        error=cause,
        duration_ms=round(duration_s * 1000, 3),
    )


def _laid_over(channel: Channel, fields: ChannelFields) -> Channel:
    given: Mapping[str, Any] = fields.model_dump(exclude_unset=True)
    changes = {ours: given[name] for name, ours in NAMES.items() if name in given}
    if "quiet_hours" in given:
        changes["quiet_hours"] = None if fields.quiet_hours is None else quiet_hours_of(fields.quiet_hours)
    if "evaluator_ids" in given:
        changes["evaluator_ids"] = tuple(dict.fromkeys(given["evaluator_ids"]))
        if given["evaluator_ids"] and "scope_mode" not in given:
            changes["scope_mode"] = "selected"
    merged = replace(channel, **changes)
    if merged.scope_mode == "selected" and not merged.evaluator_ids:
        raise InvalidInputError(
            "The scopeMode is selected, but evaluatorIds names no evaluator, so nothing would ever be told.",
            field="evaluatorIds",
        )
    return merged


def _kind(url: str) -> ChannelKind:
    return "webhook" if url.startswith(WEBHOOK_PREFIX) else "apprise"


def _demand_secret(kind: ChannelKind, secret: str | None) -> str | None:
    if secret is None:
        return None
    if kind != "webhook":
        raise InvalidInputError("Only webhook channels are signed; leave the secret out.", field="secret")
    return demand_signing_secret(secret, field="secret")


def _sealed(services: Services, channel_id: str, target: Target) -> bytes:
    return services.vault.seal(target_text(target), place=vault_place(channel_id))

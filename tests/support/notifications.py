"""Channels and what they are told, in their smallest form."""

from dataclasses import replace
from typing import Any

from assay.domain.channel import Channel, ChannelKind, Target, target_text, vault_place
from assay.domain.notification import Notification, Owed, SignalEvent
from assay.testing import NOW_NS
from assay.vault import Vault

SIGNING_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
VAULT = Vault(["a-key-of-the-operator-that-is-long-enough"])


def a_channel(url: str = "webhook:https://example.com/hook", channel_id: str = "chn_1", **settings: Any) -> Channel:
    kind: ChannelKind = "webhook" if url.startswith("webhook:") else "apprise"
    target = Target(url=url, signing_secret=SIGNING_SECRET if kind == "webhook" else None)
    channel = Channel(
        id=channel_id,
        project_id="default",
        name="on call",
        kind=kind,
        shown_url=url.partition("://")[0] + "://…",
        sealed=VAULT.seal(target_text(target), place=vault_place(channel_id)),
        created_at_ns=NOW_NS,
        updated_at_ns=NOW_NS,
    )
    return replace(channel, **settings)


def an_event(event_id: str = "evt_1", **fields: Any) -> SignalEvent:
    event = SignalEvent(
        id=event_id,
        kind="raised",
        occurred_at_ns=NOW_NS,
        signal_id="sig_1",
        evaluator_id="evl_1",
        evaluator_name="no refusal",
        agent_id="agt_1",
        agent_name="shop",
        severity="high",
        count=1,
        reason="refused the customer",
        check_id="chk_1",
        trace_id="t1",
        first_seen_ns=NOW_NS,
        last_seen_ns=NOW_NS,
    )
    return replace(event, **fields)


def a_notification(*events: SignalEvent, notification_id: str = "ntf_1", **fields: Any) -> Notification:
    notification = Notification(
        id=notification_id,
        project_id="default",
        channel_id="chn_1",
        created_at_ns=NOW_NS,
        events=events or (an_event(),),
    )
    return replace(notification, **fields)


def an_owed(notification: Notification | None = None, **fields: Any) -> Owed:
    owed = Owed(notification=notification or a_notification(), due_at_ns=NOW_NS, gathering="nothing", is_closed=True)
    return replace(owed, **fields)

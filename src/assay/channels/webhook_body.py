"""The body of the signed webhook, in the envelope of Standard Webhooks: type, timestamp, data."""

import msgspec

from assay.domain.json_value import JsonValue
from assay.domain.notification import Notification, SignalEvent
from assay.domain.text import mended_value
from assay.interfaces.spans import microseconds_iso

SCHEMA_VERSION = 1


def webhook_body(notification: Notification) -> bytes:
    """Return the body as UTF-8 JSON, the same for every attempt."""
    kind = "signals.test" if notification.is_test else "signals.changed"
    document: JsonValue = {
        "type": kind,
        "timestamp": microseconds_iso(notification.created_at_ns),
        "data": {
            "schemaVersion": SCHEMA_VERSION,
            "notificationId": notification.id,
            "channelId": notification.channel_id,
            "projectId": notification.project_id,
            "events": [_event(event) for event in notification.events],
        },
    }
    return msgspec.json.encode(mended_value(document))


def _event(event: SignalEvent) -> JsonValue:
    return {
        "id": event.id,
        "event": event.kind,
        "occurredAt": microseconds_iso(event.occurred_at_ns),
        "signal": {
            "id": event.signal_id,
            "severity": event.severity,
            "count": event.count,
            "reason": event.reason,
            "checkId": event.check_id,
            "traceId": event.trace_id,
            "firstSeenAt": microseconds_iso(event.first_seen_ns),
            "lastSeenAt": microseconds_iso(event.last_seen_ns),
        },
        "evaluator": {"id": event.evaluator_id, "name": event.evaluator_name},
        "agent": None if event.agent_id is None else {"id": event.agent_id, "name": event.agent_name},
    }

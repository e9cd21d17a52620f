"""Signatures by which a receiver knows that a request is ours: Standard Webhooks, https://www.standardwebhooks.com."""

import base64
import binascii
from collections.abc import Sequence
from datetime import UTC, datetime

from standardwebhooks import Webhook

from assay.errors import InvalidInputError

PREFIX = "whsec_"
LEAST_BYTES = 24
MOST_BYTES = 64


def demand_signing_secret(secret: str, *, field: str) -> str:
    """Return the secret; raise InvalidInputError, which does not repeat it, for one that nothing can be signed with."""
    try:
        size = len(base64.b64decode(secret.removeprefix(PREFIX), validate=True))
    except (binascii.Error, ValueError):
        size = 0
    if not secret.startswith(PREFIX) or not LEAST_BYTES <= size <= MOST_BYTES:
        raise InvalidInputError(
            f"A signing secret is {PREFIX} followed by {LEAST_BYTES} to {MOST_BYTES} random bytes in base64, for "
            f'instance from: echo "{PREFIX}$(openssl rand -base64 32)".',
            field=field,
        )
    return secret


def signature_headers(
    secrets: Sequence[str], *, message_id: str, timestamp_s: int, body: bytes
) -> list[tuple[str, str]]:
    """Return the three headers that sign a body, UTF-8 text, with each of the secrets.

    `message_id` stays the same however often a message is sent; `timestamp_s` is when this attempt was made.
    """
    moment = datetime.fromtimestamp(timestamp_s, UTC)
    text = body.decode()
    signatures = [Webhook(secret).sign(message_id, moment, text) for secret in secrets]
    return [
        ("webhook-id", message_id),
        ("webhook-timestamp", str(timestamp_s)),
        ("webhook-signature", " ".join(signatures)),
    ]

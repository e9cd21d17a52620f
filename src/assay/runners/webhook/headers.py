"""The headers of a call: what is sent, under which key, and by whom."""

import time

from assay.domain.credentials import Credentials
from assay.interfaces.webhook import SCHEMA_VERSION
from assay.signing import signature_headers


def headers_of(credentials: Credentials, key: str, body: bytes) -> list[tuple[bytes, bytes]]:
    """Return the headers of one attempt; the key is the same for every attempt, the time of the signature is not."""
    headers = [("Assay-Schema-Version", str(SCHEMA_VERSION)), ("Idempotency-Key", key), *credentials.headers]
    if credentials.bearer_token is not None:
        headers.append(("Authorization", f"Bearer {credentials.bearer_token}"))
    if credentials.signing_secrets:
        headers += signature_headers(
            credentials.signing_secrets, message_id=key, timestamp_s=int(time.time()), body=body
        )
    return [(name.encode(), value.encode()) for name, value in headers]

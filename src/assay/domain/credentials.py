"""What an external evaluator's endpoint knows us by, in clear only while it is used, and sealed wherever it is kept."""

import hashlib
import json
from dataclasses import dataclass, field

PRINT_DIGITS = 8
SHORTEST_REDACTED = 8
REDACTED = b"[redacted]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Headers by name, a bearer token, and up to two Standard Webhooks secrets, each of which signs."""

    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    bearer_token: str | None = field(default=None, repr=False)
    signing_secrets: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedCredentials:
    """Credentials as stored and passed around, for one origin only, with what of them may be shown."""

    origin: str
    header_names: tuple[str, ...] = ()
    has_bearer_token: bool = False
    signing_prints: tuple[str, ...] = ()
    sealed: bytes = field(repr=False)


def vault_place(project_id: str, origin: str) -> str:
    """Name the place credentials are sealed for, so that they open in no other project and for no other endpoint."""
    return f"evaluators of {project_id} at {origin}"


def credentials_text(credentials: Credentials) -> str:
    """Return the credentials as the text that is sealed."""
    return json.dumps(
        {
            "headers": credentials.headers,
            "bearer_token": credentials.bearer_token,
            "signing_secrets": credentials.signing_secrets,
        }
    )


def credentials_of(text: str) -> Credentials:
    """Return the credentials that were sealed as this text."""
    found = json.loads(text)
    return Credentials(
        headers=tuple((name, value) for name, value in found["headers"]),
        bearer_token=found["bearer_token"],
        signing_secrets=tuple(found["signing_secrets"]),
    )


def print_of(secret: str) -> str:
    """Return the start of a hash, by which the owner of a random secret tells it from another."""
    return hashlib.sha256(secret.encode()).hexdigest()[:PRINT_DIGITS]


def redacted(text: bytes, credentials: Credentials) -> bytes:
    """Return what an endpoint said without what it was sent as a secret; those of fewer than 8 characters stay."""
    sent = [value for _, value in credentials.headers]
    if credentials.bearer_token is not None:
        sent.append(credentials.bearer_token)
    # The longest first: one secret can hold another.
    for secret in sorted(sent, key=len, reverse=True):
        if len(secret) >= SHORTEST_REDACTED:
            text = text.replace(secret.encode(), REDACTED)
    return text

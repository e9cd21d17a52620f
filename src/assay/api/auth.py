"""Who asks, and whether they may: API keys by digest, and the roles each route is open to."""

import hashlib
import time
from collections.abc import Mapping

from fastapi import Request
from fastapi.security import APIKeyHeader, HTTPBearer

from assay.domain.access import ApiKey, Role
from assay.errors import ForbiddenError, NotAuthenticatedError
from assay.ports import Store

HEADER = "x-api-key"
BEARER = "bearer"
REMEMBERED_S = 5.0
MOST_REMEMBERED = 4096

SENDERS: frozenset[Role] = frozenset({"ingest", "member", "admin"})
"""May send traces."""
MEMBERS: frozenset[Role] = frozenset({"member", "admin"})
"""May read a project, write its evaluators and tend its signals."""

SCHEMES = (
    APIKeyHeader(name=HEADER, auto_error=False, scheme_name="key"),
    HTTPBearer(auto_error=False, scheme_name="bearer"),
)


class KeyRing:
    """Finds keys by their text, remembering those found for a few seconds, so that a revoked one soon stops."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._found: dict[str, tuple[ApiKey, float]] = {}

    async def find(self, text: str) -> ApiKey | None:
        """Return the key with this text."""
        digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
        now = time.monotonic()
        remembered = self._found.get(digest)
        if remembered is not None and now < remembered[1]:
            return remembered[0]
        async with self._store.snapshot() as snapshot:
            key = await snapshot.key_by_digest(digest)
        if key is None:
            self._found.pop(digest, None)
            return None
        if len(self._found) >= MOST_REMEMBERED:
            self._found.clear()
        self._found[digest] = (key, now + REMEMBERED_S)
        return key


async def authorised(request: Request, roles: frozenset[Role]) -> ApiKey:
    """Return the request's key; raise NotAuthenticatedError without a valid one, ForbiddenError for another role."""
    text = _key_text(request.headers)
    if text is None:
        raise NotAuthenticatedError(f"No API key came with the request; send it in {HEADER} or as a bearer token.")
    ring: KeyRing = request.app.state.key_ring
    key = await ring.find(text)
    if key is None:
        raise NotAuthenticatedError("This API key is not known; check it, or make one with `assay keys create`.")
    if key.role not in roles:
        allowed = " or ".join(sorted(roles))
        raise ForbiddenError(f"This key has the role {key.role}; this needs one with the role {allowed}.")
    request.state.key = key
    return key


def project_of(request: Request) -> str:
    """Return the project of the key that the request was let in with."""
    key: ApiKey = request.state.key
    return key.project_id


def actor_of(request: Request) -> str:
    """Return the id of the key that the request was let in with."""
    key: ApiKey = request.state.key
    return key.id


def _key_text(headers: Mapping[str, str]) -> str | None:
    given = headers.get(HEADER, "").strip()
    if given:
        return given
    scheme, _, token = headers.get("authorization", "").strip().partition(" ")
    return token.strip() or None if scheme.lower() == BEARER else None

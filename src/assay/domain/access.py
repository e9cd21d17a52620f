"""Who may do what: API keys and their roles."""

from dataclasses import dataclass
from typing import Literal

Role = Literal["ingest", "member", "admin"]
DEFAULT_PROJECT = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key as stored: only the SHA-256 of its text (256 random bits need no slow hash), and its first characters."""

    id: str
    project_id: str
    role: Role
    digest: str
    prefix: str
    created_at_ns: int

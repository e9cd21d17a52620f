"""Agents: the applications that make traces."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """An application, known by the name it sends; `id` derives from project and name."""

    id: str
    project_id: str
    name: str
    framework: str | None
    first_seen_ns: int
    last_seen_ns: int

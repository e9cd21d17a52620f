"""Agents seen."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, case, func, select

from assay.domain.agent import Agent
from assay.domain.trace import Span, agent_id_of
from assay.store.statements import insert_into
from assay.store.tables import agents

SEEN_STEP_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Sighting:
    """An agent named by a span just written."""

    name: str
    framework: str | None


def sightings(project_id: str, written: Iterable[Span]) -> dict[str, Sighting]:
    """Return the agents these spans name, by id, each with the last framework that came with it."""
    frameworks: dict[str, str | None] = {}
    for span in written:
        if span.agent is not None:
            frameworks[span.agent] = span.framework or frameworks.get(span.agent)
    return {agent_id_of(project_id, name): Sighting(name, framework) for name, framework in frameworks.items()}


def note_agents(connection: Connection, project_id: str, seen: dict[str, Sighting], now_ns: int) -> None:
    """Keep when agents were first and last seen.

    `last_seen_ns` moves in steps of a second: every ingest would otherwise queue up for its agent's row.
    """
    rows = connection.execute(select(agents).where(agents.c.id.in_(list(seen)))).all()
    known: dict[str, Row[Any]] = {row.id: row for row in rows}
    changed = [
        {
            "id": agent_id,
            "project_id": project_id,
            "name": sighting.name,
            "framework": sighting.framework,
            "first_seen_ns": now_ns,
            "last_seen_ns": now_ns,
        }
        for agent_id, sighting in sorted(seen.items())
        if _is_news(known.get(agent_id), sighting, now_ns)
    ]
    if changed:
        statement = insert_into(connection, agents)
        connection.execute(
            statement.on_conflict_do_update(
                index_elements=[agents.c.id],
                set_={
                    "last_seen_ns": case(
                        (statement.excluded.last_seen_ns > agents.c.last_seen_ns, statement.excluded.last_seen_ns),
                        else_=agents.c.last_seen_ns,
                    ),
                    "framework": func.coalesce(statement.excluded.framework, agents.c.framework),
                },
            ),
            changed,
        )


def _is_news(known: Row[Any] | None, sighting: Sighting, now_ns: int) -> bool:
    if known is None or now_ns - known.last_seen_ns >= SEEN_STEP_NS:
        return True
    return sighting.framework is not None and sighting.framework != known.framework


def list_agents(connection: Connection, project_id: str) -> list[Agent]:
    """Return the project's agents by name."""
    query = select(agents).where(agents.c.project_id == project_id).order_by(agents.c.name, agents.c.id)
    return [Agent(**row) for row in connection.execute(query).mappings()]


def unknown_agents(connection: Connection, project_id: str, ids: Sequence[str]) -> set[str]:
    """Return those of the ids that are no agents of the project."""
    query = select(agents.c.id).where(agents.c.project_id == project_id, agents.c.id.in_(list(ids)))
    return set(ids) - set(connection.execute(query).scalars())

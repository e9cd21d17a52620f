"""Evaluators and their revisions."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update
from sqlalchemy.exc import IntegrityError

from assay.domain.credentials import SealedCredentials
from assay.domain.evaluator import Evaluator, Revision
from assay.domain.failure_window import RaiseAfter
from assay.errors import ConflictError, NotFoundError
from assay.store.documents import decode_bands, decode_credentials, decode_list, decode_revision, encode
from assay.store.statements import in_chunks, insert_into
from assay.store.tables import evaluators, revisions

_CURRENT = (
    select(evaluators, revisions.c.document)
    .join(
        revisions,
        (revisions.c.evaluator_id == evaluators.c.id) & (revisions.c.number == evaluators.c.revision_number),
    )
    .where(evaluators.c.deleted.is_(False))
)


def _read(row: Row[Any]) -> Evaluator:
    return Evaluator(
        id=row.id,
        project_id=row.project_id,
        name=row.name,
        enabled=row.enabled,
        severity=row.severity,
        severity_bands=decode_bands(row.severity_bands),
        raise_after=RaiseAfter(failures=row.raise_failures, of=row.raise_of),
        sample_rate=row.sample_rate,
        scope_mode=row.scope_mode,
        agent_ids=tuple(decode_list(row.agent_ids)),
        created_at_ns=row.created_at_ns,
        updated_at_ns=row.updated_at_ns,
        credentials=None if row.credentials is None else decode_credentials(row.credentials),
        revision=decode_revision(row.document),
    )


def _settings(evaluator: Evaluator) -> dict[str, Any]:
    return {
        "name": evaluator.name,
        "enabled": evaluator.enabled,
        "severity": evaluator.severity,
        "severity_bands": encode(evaluator.severity_bands),
        "raise_failures": evaluator.raise_after.failures,
        "raise_of": evaluator.raise_after.of,
        "sample_rate": evaluator.sample_rate,
        "scope_mode": evaluator.scope_mode,
        "agent_ids": encode(evaluator.agent_ids),
        "updated_at_ns": evaluator.updated_at_ns,
        "revision_number": evaluator.revision.number,
        "credentials": None if evaluator.credentials is None else encode(evaluator.credentials),
    }


def evaluators_with_credentials(connection: Connection) -> list[Evaluator]:
    """Return the evaluators of all projects that have credentials."""
    query = _CURRENT.where(evaluators.c.credentials.is_not(None)).order_by(evaluators.c.id)
    return [_read(row) for row in connection.execute(query).all()]


def reseal_credentials(
    connection: Connection, evaluator_id: str, before: SealedCredentials, after: SealedCredentials
) -> None:
    """Write credentials sealed anew, unless somebody changed them meanwhile."""
    connection.execute(
        update(evaluators)
        .where(evaluators.c.id == evaluator_id, evaluators.c.credentials == encode(before))
        .values(credentials=encode(after))
    )


def find_evaluator(connection: Connection, project_id: str, evaluator_id: str) -> Evaluator | None:
    """Return the evaluator, unless it was deleted."""
    query = _CURRENT.where(evaluators.c.project_id == project_id, evaluators.c.id == evaluator_id)
    row = connection.execute(query).one_or_none()
    return None if row is None else _read(row)


def held_evaluators(connection: Connection, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Evaluator]:
    """Return those that are not deleted, by (project, id), and let nobody delete them before the transaction ends.

    They are locked in the order of their keys, so that two transactions never wait for each other in a ring.
    """
    found: dict[tuple[str, str], Evaluator] = {}
    for project_id, evaluator_id in sorted(set(keys)):
        query = _CURRENT.where(evaluators.c.project_id == project_id, evaluators.c.id == evaluator_id)
        row = connection.execute(query.with_for_update(read=True, of=evaluators)).one_or_none()
        if row is not None:
            found[project_id, evaluator_id] = _read(row)
    return found


def list_evaluators(connection: Connection, project_id: str) -> list[Evaluator]:
    """Return the project's evaluators, newest first."""
    query = _CURRENT.where(evaluators.c.project_id == project_id).order_by(
        evaluators.c.created_at_ns.desc(), evaluators.c.id.desc()
    )
    return [_read(row) for row in connection.execute(query).all()]


def list_revisions(connection: Connection, project_id: str, evaluator_id: str) -> list[Revision]:
    """Return an evaluator's revisions, newest first."""
    query = (
        select(revisions.c.document)
        .join(evaluators, evaluators.c.id == revisions.c.evaluator_id)
        .where(
            evaluators.c.project_id == project_id,
            evaluators.c.id == evaluator_id,
            evaluators.c.deleted.is_(False),
        )
        .order_by(revisions.c.number.desc())
    )
    return [decode_revision(document) for document in connection.execute(query).scalars()]


def revisions_by_id(connection: Connection, ids: Sequence[str]) -> dict[str, Revision]:
    """Return the revisions with these ids, of deleted evaluators too."""
    found: dict[str, Revision] = {}
    for chunk in in_chunks(ids):
        query = select(revisions.c.id, revisions.c.document).where(revisions.c.id.in_(chunk))
        found.update((row.id, decode_revision(row.document)) for row in connection.execute(query).all())
    return found


def add_evaluator(connection: Connection, evaluator: Evaluator) -> None:
    """Write a new evaluator with its first revision."""
    connection.execute(
        insert(evaluators).values(
            id=evaluator.id,
            project_id=evaluator.project_id,
            created_at_ns=evaluator.created_at_ns,
            deleted=False,
            **_settings(evaluator),
        )
    )
    _add_revision(connection, evaluator.revision)


def update_evaluator(connection: Connection, evaluator: Evaluator) -> None:
    """Write the settings, and the revision when it is a new one.

    Raises NotFoundError when it was deleted, ConflictError when somebody else made that revision number meanwhile.
    """
    changed = connection.execute(
        update(evaluators)
        .where(
            evaluators.c.project_id == evaluator.project_id,
            evaluators.c.id == evaluator.id,
            evaluators.c.deleted.is_(False),
        )
        .values(**_settings(evaluator))
    )
    if changed.rowcount == 0:
        message = f"there is no evaluator {evaluator.id!r} in this project."
        raise NotFoundError(message)
    _add_revision(connection, evaluator.revision)


def _add_revision(connection: Connection, revision: Revision) -> None:
    statement = insert_into(connection, revisions).on_conflict_do_nothing(index_elements=[revisions.c.id])
    try:
        connection.execute(
            statement,
            [
                {
                    "id": revision.id,
                    "evaluator_id": revision.evaluator_id,
                    "number": revision.number,
                    "created_at_ns": revision.created_at_ns,
                    "document": encode(revision),
                }
            ],
        )
    except IntegrityError as error:
        message = (
            f"evaluator {revision.evaluator_id!r} got its revision {revision.number} from somebody else meanwhile; "
            "read it again and repeat the change."
        )
        raise ConflictError(message) from error


def delete_evaluator(connection: Connection, project_id: str, evaluator_id: str) -> bool:
    """Take the evaluator out of every listing, with its credentials; its checks stay readable by trace.

    Returns whether it was there.
    """
    result = connection.execute(
        update(evaluators)
        .where(evaluators.c.project_id == project_id, evaluators.c.id == evaluator_id, evaluators.c.deleted.is_(False))
        .values(deleted=True, credentials=None)
    )
    return result.rowcount > 0

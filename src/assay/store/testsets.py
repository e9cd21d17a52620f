"""Test sets: their revisions share the blocks of rows that they have in common."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, delete, exists, insert, or_, select, update

from assay.batch_ports import MOST_LISTED_REVISIONS, BlockPlace, RowBlock
from assay.domain.testset import MOST_ROWS_OF_BLOCK as MOST_ROWS
from assay.domain.testset import Case, Testset, TestsetRevision
from assay.ports import Page
from assay.store.documents import decode_columns, encode
from assay.store.paging import cut, page_of
from assay.store.run_documents import decode_cases
from assay.store.statements import in_chunks, insert_into
from assay.store.tables import runs, testset_blocks, testset_contents, testset_revisions, testsets

KEPT_UNNAMED_NS = 24 * 3600 * 1_000_000_000
_REVISION: Select[*tuple[Any, ...]] = select(testset_revisions, testsets.c.project_id.label("project_id")).join_from(
    testset_revisions, testsets, testsets.c.id == testset_revisions.c.testset_id
)


def find_testset(connection: Connection, project_id: str, named: str) -> Testset | None:
    """Return the test set with this id, or else with this name."""
    query = select(testsets).where(
        testsets.c.project_id == project_id, or_(testsets.c.id == named, testsets.c.name == named)
    )
    rows = connection.execute(query).all()
    row = next((row for row in rows if row.id == named), rows[0] if rows else None)
    return None if row is None else _whole(connection, [row])[0]


def list_testsets(
    connection: Connection, project_id: str, limit: int, cursor: str | None
) -> tuple[list[Testset], str | None]:
    """Return a page of test sets, newest first."""
    page = Page(limit=limit, cursor=cursor)
    query = select(testsets).where(testsets.c.project_id == project_id)
    rows = connection.execute(page_of(query, testsets.c.created_at_ns, testsets.c.id, page, str)).all()
    kept, following = cut(rows, page, "created_at_ns", "id", lambda row: row)
    return _whole(connection, kept), following


def _whole(connection: Connection, rows: Sequence[Row[Any]]) -> list[Testset]:
    query = _REVISION.where(testset_revisions.c.id.in_([row.revision_id for row in rows]))
    current = {row.id: _read_revision(row) for row in connection.execute(query).all()}
    return [
        Testset(
            id=row.id,
            project_id=row.project_id,
            name=row.name,
            revision=current[row.revision_id],
            revision_count=row.revision_number,
            created_at_ns=row.created_at_ns,
            updated_at_ns=row.updated_at_ns,
        )
        for row in rows
    ]


def find_revision(connection: Connection, project_id: str, revision_id: str) -> TestsetRevision | None:
    """Return a revision of any test set of the project."""
    query = _REVISION.where(testset_revisions.c.id == revision_id, testsets.c.project_id == project_id)
    row = connection.execute(query).one_or_none()
    return None if row is None else _read_revision(row)


def list_revisions(connection: Connection, testset_id: str) -> list[TestsetRevision]:
    """Return a test set's revisions, the newest first."""
    query = _REVISION.where(testset_revisions.c.testset_id == testset_id)
    query = query.order_by(testset_revisions.c.number.desc()).limit(MOST_LISTED_REVISIONS)
    return [_read_revision(row) for row in connection.execute(query).all()]


def revision_of_digest(connection: Connection, testset_id: str, digest: str) -> TestsetRevision | None:
    """Return the revision with this content."""
    query = _REVISION.where(testset_revisions.c.testset_id == testset_id, testset_revisions.c.digest == digest)
    row = connection.execute(query).one_or_none()
    return None if row is None else _read_revision(row)


def _read_revision(row: Row[Any]) -> TestsetRevision:
    return TestsetRevision(
        id=row.id,
        testset_id=row.testset_id,
        project_id=row.project_id,
        number=row.number,
        digest=row.digest,
        columns=decode_columns(row.columns),
        row_count=row.row_count,
        created_at_ns=row.created_at_ns,
    )


def find_blocks(connection: Connection, revision_id: str, first_row: int, limit: int) -> list[Row[Any, Any, Any]]:
    """Return the blocks that hold these rows, for `read_rows`."""
    query = (
        select(testset_blocks.c.first_row, testset_blocks.c.row_count, testset_contents.c.document)
        .join_from(
            testset_blocks,
            testset_contents,
            (testset_contents.c.project_id == testset_blocks.c.project_id)
            & (testset_contents.c.digest == testset_blocks.c.digest),
        )
        .where(
            testset_blocks.c.revision_id == revision_id,
            testset_blocks.c.first_row < first_row + limit,
            testset_blocks.c.first_row + testset_blocks.c.row_count > first_row,
            # Blocks are bounded, so that the index finds the first one.
            testset_blocks.c.first_row > first_row - MOST_ROWS,
        )
        .order_by(testset_blocks.c.first_row)
    )
    return list(connection.execute(query).all())


def read_rows(blocks: Sequence[Row[Any, Any, Any]], first_row: int, limit: int) -> list[Case]:
    """Return the rows asked for out of the blocks that hold them."""
    found: list[Case] = []
    for block in blocks:
        start = max(0, first_row - block.first_row)
        found += decode_cases(block.document)[start : first_row + limit - block.first_row]
    return found


def put_contents(connection: Connection, project_id: str, blocks: Sequence[RowBlock], now_ns: int) -> None:
    """Write contents that are not there yet, and touch those that are, so that they are not thrown away meanwhile."""
    statement = insert_into(connection, testset_contents)
    statement = statement.on_conflict_do_update(
        index_elements=["project_id", "digest"], set_={"touched_at_ns": statement.excluded.touched_at_ns}
    )
    unlike = {block.digest: block for block in blocks}
    connection.execute(
        statement,
        [
            {"project_id": project_id, "digest": digest, "document": block.document, "touched_at_ns": now_ns}
            for digest, block in sorted(unlike.items())
        ],
    )


def add_testset(connection: Connection, testset: Testset, places: Sequence[BlockPlace]) -> bool:
    """Write a new test set with its first revision; return False when its name is taken."""
    statement = insert_into(connection, testsets).on_conflict_do_nothing().returning(testsets.c.id)
    values = {"id": testset.id, "created_at_ns": testset.created_at_ns, **_settings(testset)}
    if connection.execute(statement, values).scalar() is None:
        return False
    _add_revision(connection, testset.revision, places)
    return True


def add_revision(connection: Connection, testset: Testset, places: Sequence[BlockPlace]) -> bool:
    """Make this new revision the test set's content; return False when another one took its number meanwhile."""
    changed = connection.execute(
        update(testsets)
        .where(testsets.c.id == testset.id, testsets.c.revision_number == testset.revision.number - 1)
        .values(**_settings(testset))
    )
    if changed.rowcount != 1:
        return False
    _add_revision(connection, testset.revision, places)
    return True


def set_revision(connection: Connection, testset: Testset) -> None:
    """Make a revision there is already the test set's content, and set its name."""
    settings = _settings(testset)
    del settings["revision_number"]
    connection.execute(update(testsets).where(testsets.c.id == testset.id).values(**settings))


def _settings(testset: Testset) -> dict[str, Any]:
    return {
        "project_id": testset.project_id,
        "name": testset.name,
        "revision_id": testset.revision.id,
        "revision_number": testset.revision.number,
        "updated_at_ns": testset.updated_at_ns,
    }


def _add_revision(connection: Connection, revision: TestsetRevision, places: Sequence[BlockPlace]) -> None:
    connection.execute(
        insert(testset_revisions).values(
            id=revision.id,
            testset_id=revision.testset_id,
            number=revision.number,
            digest=revision.digest,
            columns=encode(revision.columns),
            row_count=revision.row_count,
            created_at_ns=revision.created_at_ns,
        )
    )
    for chunk in in_chunks(places):
        connection.execute(
            insert(testset_blocks),
            [
                {
                    "revision_id": revision.id,
                    "first_row": place.first_row,
                    "row_count": place.row_count,
                    "project_id": revision.project_id,
                    "digest": place.digest,
                }
                for place in chunk
            ],
        )


def runs_use(connection: Connection, testset_id: str) -> bool:
    """Tell whether any run is over a revision of this test set."""
    return bool(connection.execute(select(exists().where(runs.c.testset_id == testset_id))).scalar_one())


def delete_testset(connection: Connection, project_id: str, testset_id: str, now_ns: int) -> bool:
    """Delete a test set with its revisions, and the contents of the project that no revision names any more."""
    query = select(testsets.c.id).where(testsets.c.project_id == project_id, testsets.c.id == testset_id)
    if connection.execute(query.with_for_update()).scalar() is None:
        return False
    revision_ids = select(testset_revisions.c.id).where(testset_revisions.c.testset_id == testset_id)
    own = select(testset_blocks.c.digest).where(testset_blocks.c.revision_id.in_(revision_ids)).distinct()
    digests = connection.execute(own).scalars().all()
    connection.execute(delete(testset_blocks).where(testset_blocks.c.revision_id.in_(revision_ids)))
    connection.execute(delete(testset_revisions).where(testset_revisions.c.testset_id == testset_id))
    connection.execute(delete(testsets).where(testsets.c.id == testset_id))
    for chunk in in_chunks(digests):
        _delete_unnamed(connection, project_id, testset_contents.c.digest.in_(chunk))
    _delete_unnamed(connection, project_id, testset_contents.c.touched_at_ns < now_ns - KEPT_UNNAMED_NS)
    return True


def _delete_unnamed(connection: Connection, project_id: str, which: ColumnElement[bool]) -> None:
    named = exists().where(
        testset_blocks.c.project_id == testset_contents.c.project_id,
        testset_blocks.c.digest == testset_contents.c.digest,
    )
    connection.execute(delete(testset_contents).where(testset_contents.c.project_id == project_id, which, ~named))

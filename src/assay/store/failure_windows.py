"""The last checks of each evaluator and agent, where a signal takes more than one failure."""

from sqlalchemy import Connection, select

from assay.domain.failure_window import FailureWindow
from assay.store.documents import decode_failure_window, encode
from assay.store.statements import insert_into
from assay.store.tables import failure_windows


def find_window(connection: Connection, evaluator_id: str, agent_id: str | None) -> FailureWindow:
    """Return the window, an empty one where there is none yet."""
    query = select(failure_windows.c.document).where(
        failure_windows.c.evaluator_id == evaluator_id, failure_windows.c.agent_id == (agent_id or "")
    )
    document = connection.execute(query).scalar_one_or_none()
    return FailureWindow() if document is None else decode_failure_window(document)


def put_window(connection: Connection, evaluator_id: str, agent_id: str | None, window: FailureWindow) -> None:
    """Write the window."""
    statement = insert_into(connection, failure_windows)
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=[failure_windows.c.evaluator_id, failure_windows.c.agent_id],
            set_={"document": statement.excluded.document},
        ),
        [{"evaluator_id": evaluator_id, "agent_id": agent_id or "", "document": encode(window)}],
    )

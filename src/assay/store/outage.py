"""Failures of the database itself, told apart from mistakes of ours."""

from collections.abc import Generator
from contextlib import contextmanager

import structlog
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, TimeoutError

from assay.errors import StoreUnavailableError

log = structlog.stdlib.get_logger("assay.store")


@contextmanager
def outages_named() -> Generator[None]:
    """Raise StoreUnavailableError for a full disk, a lost connection, or a lock nobody gives up.

    Only the first line of the cause is logged: what follows can hold what a user sent.
    """
    try:
        yield
    except (OperationalError, InterfaceError, TimeoutError) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        told = str(cause).strip().splitlines() or [type(cause).__name__]
        log.error("store-unavailable", cause=told[0][:200])
        raise StoreUnavailableError(
            "The database cannot be written or reached now; nothing of this was stored. Try again."
        ) from error

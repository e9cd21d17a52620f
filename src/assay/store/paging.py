"""Cursors of listings that run newest first over (time, key)."""

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

import msgspec
from sqlalchemy import Column, Row, Select, tuple_

from assay.errors import InvalidInputError
from assay.ports import Page

Item = TypeVar("Item")
Key = TypeVar("Key", int, str)
Integer = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Text = Annotated[str, msgspec.Meta(pattern=r"^[^\x00]*$")]


def page_of(
    query: Select[*tuple[Any, ...]], time: Column[Any], key: Column[Any], page: Page, key_type: type[Key]
) -> Select[*tuple[Any, ...]]:
    """Return the query for one page, with one row more than asked for to tell whether another page follows.

    Raises InvalidInputError for a cursor that is not ours.
    """
    if page.cursor is not None:
        query = query.where(tuple_(time, key) < tuple_(*_read(page.cursor, key_type)))
    return query.order_by(time.desc(), key.desc()).limit(page.limit + 1)


def cut(
    rows: Sequence[Row[Any]], page: Page, time: str, key: str, read: Callable[[Row[Any]], Item]
) -> tuple[list[Item], str | None]:
    """Return the page's items and the cursor of the next page, None when this is the last."""
    kept = rows[: page.limit]
    cursor = _write(getattr(kept[-1], time), getattr(kept[-1], key)) if kept and len(rows) > page.limit else None
    return [read(row) for row in kept], cursor


def _write(time_ns: int, key: int | str) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode((time_ns, key))).decode().rstrip("=")


def _read(cursor: str, key_type: type[Key]) -> tuple[int, Key]:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        time_ns, key = msgspec.json.decode(
            base64.urlsafe_b64decode(padded.encode("ascii")), type=tuple[Integer, Integer | Text]
        )
        return time_ns, msgspec.convert(key, key_type)
    except (binascii.Error, UnicodeError, msgspec.MsgspecError) as error:
        message = f"The cursor {cursor[:80]!r} is not one of this listing; pass its nextCursor unchanged."
        raise InvalidInputError(message, field="cursor") from error

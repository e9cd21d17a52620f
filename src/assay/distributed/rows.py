"""Rows of a part as test cases; a row that cannot be one is the error that its check will have."""

import datetime
import decimal
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any, TypeAlias, cast

import msgspec

from assay.distributed.parquet import ROWS_AT_ONCE, Column, column_batches
from assay.distributed.parts import Part
from assay.distributed.storage import open_input
from assay.distributed.task import Task
from assay.domain.check import CheckError
from assay.domain.json_value import JsonObject, JsonValue
from assay.domain.subject import Testcase
from assay.ingest.json_document import kind_of

BYTES_AT_ONCE = 4 * 1024 * 1024
UTF8_MARK = b"\xef\xbb\xbf"
NO_COLUMN = "no-such-column"


@dataclass(frozen=True, slots=True)
class Row:
    """A row by its number in the file, from 1, and what is checked of it, or why nothing can be."""

    number: int
    subject: Testcase | CheckError


Rows: TypeAlias = Iterator[list[Row]]


class _NotJson(ValueError):
    """A value of Parquet has no JSON that holds all of it."""


def rows_of(part: Part, task: Task) -> Rows:
    """Yield the part's rows, in order, some at a time. Raises OSError or UNREADABLE when it cannot be read."""
    with open_input(part.file.source) as stream:
        read = _parquet_rows if part.file.format == "parquet" else _line_rows
        yield from read(part, task, stream)


def _line_rows(part: Part, task: Task, stream: IO[bytes]) -> Rows:
    stream.seek(part.start)
    number, left, rows, taken = part.first_row, part.stop - part.start, list[Row](), 0
    while left > 0 and (line := stream.readline()):
        left -= len(line)
        content = line.removeprefix(UTF8_MARK) if number == 1 else line
        if content.strip():
            rows.append(Row(number, _decoded(content, task)))
            taken += len(line)
        number += 1
        if len(rows) == ROWS_AT_ONCE or taken >= BYTES_AT_ONCE:
            yield rows
            rows, taken = [], 0
    if rows:
        yield rows


def _decoded(line: bytes, task: Task) -> Testcase | CheckError:
    try:
        values = msgspec.json.decode(line)
    except RecursionError:
        return CheckError(kind="not-json", message="The line is nested too deeply to be read.")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return CheckError(kind="not-json", message=f"The line is not JSON: {error}.")
    if not isinstance(values, dict):
        return CheckError(kind="not-an-object", message=f"The line is {kind_of(values)}; a row is an object.")
    return _testcase(cast("JsonObject", values), task)


def _parquet_rows(part: Part, task: Task, stream: IO[bytes]) -> Rows:
    for first, columns in column_batches(stream, part.start, part.stop):
        count = len(columns[0].values) if columns else 0
        yield [Row(first + index + 1, _converted(columns, index, task)) for index in range(count)]


def _converted(columns: list[Column], index: int, task: Task) -> Testcase | CheckError:
    values: JsonObject = {}
    for column in columns:
        value = column.values[index]
        try:
            values[column.name] = value if column.is_json else _as_json(value)
        except _NotJson as error:
            return CheckError(
                kind="not-representable", message=f"The column {column.name!r} holds {error}, which JSON cannot hold."
            )
    return _testcase(values, task)


def _as_json(value: Any) -> JsonValue:
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            if math.isfinite(value):
                return value
            raise _NotJson(str(value))
        case dict():
            return {str(key): _as_json(item) for key, item in cast("dict[Any, Any]", value).items()}
        case list() | tuple():
            return [_as_json(item) for item in cast("Sequence[Any]", value)]
        case datetime.datetime() | datetime.date() | datetime.time():
            return value.isoformat()
        case decimal.Decimal() if value.is_finite():
            return str(value)
        case bytes():
            raise _NotJson(f"{len(value)} bytes that are no text")
        case _:
            raise _NotJson(f"a {type(value).__name__}")


def _testcase(values: JsonObject, task: Task) -> Testcase | CheckError:
    for column in (task.outputs_column, task.expected_column):
        if column is not None and column not in values:
            known = ", ".join(repr(name) for name in values) or "none"
            return CheckError(kind=NO_COLUMN, message=f"The row has no column {column!r}; it has: {known}.")
    expected = None if task.expected_column is None else values[task.expected_column]
    return Testcase(inputs=values, outputs=values[task.outputs_column], expected=expected)

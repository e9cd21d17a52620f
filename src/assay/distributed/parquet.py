"""Parquet files: the only place that knows pyarrow, which has no types."""
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

import pyarrow
import pyarrow.parquet

ROWS_AT_ONCE = 1024
BUFFER_BYTES = 4 * 1024 * 1024
UNREADABLE: type[Exception] = pyarrow.ArrowException
"""What is raised for a file that is no Parquet, or is damaged."""


@dataclass(frozen=True, slots=True)
class Column:
    """Values of a column as Python has them; `is_json` tells that each is JSON as it is."""

    name: str
    values: list[Any]
    is_json: bool


def rows_by_group(stream: IO[bytes]) -> list[int]:
    """Return how many rows each row group has."""
    metadata = pyarrow.parquet.ParquetFile(stream).metadata
    return [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)]


def column_batches(stream: IO[bytes], start: int, stop: int) -> Iterator[tuple[int, list[Column]]]:
    """Yield the rows [start, stop), counted from 0, some at a time, each time with the index of the first."""
    groups, position = _groups_with(start, stop, rows_by_group(stream))
    file = pyarrow.parquet.ParquetFile(stream, buffer_size=BUFFER_BYTES, pre_buffer=False)
    for batch in file.iter_batches(batch_size=ROWS_AT_ONCE, row_groups=groups):
        first, last = max(start - position, 0), min(stop - position, batch.num_rows)
        if first < last:
            wanted = batch.slice(first, last - first)
            pairs = zip(wanted.schema, wanted.columns, strict=True)
            columns = [Column(field.name, values.to_pylist(), _is_json(field)) for field, values in pairs]
            yield position + first, columns
        position += batch.num_rows
        if position >= stop:
            return


def _groups_with(start: int, stop: int, sizes: Sequence[int]) -> tuple[list[int], int]:
    """Return the row groups that have rows of [start, stop), and the index of the first row of the first of them."""
    groups: list[int] = []
    first = position = 0
    for index, size in enumerate(sizes):
        if position + size > start and position < stop:
            first = first if groups else position
            groups.append(index)
        position += size
    return groups, first


def _is_json(field: Any) -> bool:
    types = pyarrow.types
    plain = (types.is_string, types.is_large_string, types.is_integer, types.is_boolean, types.is_null)
    return any(test(field.type) for test in plain)


def footer_value(stream: IO[bytes], key: bytes) -> bytes | None:
    """Return what a file's footer has under this key. Raises UNREADABLE when the file is not whole."""
    return (pyarrow.parquet.ParquetFile(stream).metadata.metadata or {}).get(key)


class TableWriter:
    """Writes records of these columns, given with their Arrow types, to a file that is whole once it is closed."""

    def __init__(self, file: IO[bytes], columns: Mapping[str, str]) -> None:
        self._schema = pyarrow.schema([(name, pyarrow.type_for_alias(alias)) for name, alias in columns.items()])
        self._writer = pyarrow.parquet.ParquetWriter(file, self._schema, compression="zstd")

    def add(self, records: list[dict[str, object]]) -> None:
        """Add records, in this order."""
        self._writer.write_batch(pyarrow.RecordBatch.from_pylist(records, schema=self._schema))

    def close(self, footer: Mapping[bytes, bytes]) -> None:
        """End the file, with these values in its footer."""
        self._writer.add_key_value_metadata(footer)
        self._writer.close()

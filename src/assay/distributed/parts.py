"""Parts of input files: what one worker does at a time, and a restart does again."""

import hashlib
import math
import os
from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec

from assay.distributed.parquet import rows_by_group
from assay.distributed.storage import file_name, open_input

InputFormat: TypeAlias = Literal["parquet", "jsonl"]
ROWS_OF_PART = 16_384
MOST_PARTS_OF_ROW_GROUP = 8
BYTES_OF_PART = 32 * 1024 * 1024
SHOWN_OF_DIGEST = 12


class InputFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file to be read: its absolute path or URL, its format, and its size in bytes."""

    source: str
    format: InputFormat
    size: int


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """The part of this number: rows [start, stop) of Parquet, or bytes [start, stop) of JSON Lines.

    `first_row` is the number, from 1, of its first row in the file; of JSON Lines, of its first line.
    """

    file: InputFile
    number: int
    first_row: int
    start: int
    stop: int

    @property
    def result_name(self) -> str:
        """Return the name of the file of its results, which depends on the input's path and on nothing else."""
        stem, _ = os.path.splitext(file_name(self.file.source))
        digest = hashlib.sha256(self.file.source.encode("utf-8", "surrogatepass")).hexdigest()
        return f"{stem}-{digest[:SHOWN_OF_DIGEST]}-{self.number:05}.parquet"


def parts_of(file: InputFile) -> list[Part]:
    """Return the parts of a file, in its order. Raises what opening it raises when it cannot be read."""
    spans = _parquet_spans(file) if file.format == "parquet" else _line_spans(file)
    return [
        Part(file=file, number=number, first_row=first_row, start=start, stop=stop)
        for number, (first_row, start, stop) in enumerate(spans)
    ]


def _parquet_spans(file: InputFile) -> Iterator[tuple[int, int, int]]:
    with open_input(file.source) as stream:
        groups = rows_by_group(stream)
    start = stop = 0
    for rows in groups:
        stop += rows
        # Each part of a row group reads what is before it in the group, too.
        step = max(ROWS_OF_PART, math.ceil(rows / MOST_PARTS_OF_ROW_GROUP))
        while stop - start >= step:
            yield start + 1, start, start + step
            start += step
    if start < stop or not stop:
        yield start + 1, start, stop


def _line_spans(file: InputFile) -> Iterator[tuple[int, int, int]]:
    if file.size <= BYTES_OF_PART:
        yield 1, 0, file.size
        return
    start, line = 0, 1
    with open_input(file.source) as stream:
        while block := stream.read(BYTES_OF_PART) + stream.readline():
            yield line, start, start + len(block)
            start += len(block)
            line += block.count(b"\n")

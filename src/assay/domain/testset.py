"""Test sets: named lists of test cases, whose every change is a revision of its own."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from assay.domain.json_value import JsonObject

MOST_ROWS_OF_BLOCK = 256
MOST_BYTES_OF_BLOCK = 1024 * 1024
LONGEST_NAME = 200

ColumnType: TypeAlias = Literal["text", "number", "bool", "json"]
"""What a column's cells are: all text, all numbers, all bools; or any JSON, mixed types among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column by its name, and what its cells are."""

    name: str
    type: ColumnType


@dataclass(frozen=True, slots=True, kw_only=True)
class TestsetRevision:
    """One content of a test set; `digest` is a SHA-256 over its columns and rows, so the same content is the same."""

    __test__ = False

    id: str
    testset_id: str
    project_id: str
    number: int
    digest: str
    columns: tuple[Column, ...]
    row_count: int
    created_at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Testset:
    """A named list of test cases; `revision` is its content now, and `revision_count` how many it has had."""

    __test__ = False

    id: str
    project_id: str
    name: str
    revision: TestsetRevision
    revision_count: int
    created_at_ns: int
    updated_at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One row: its cells by column, those that it lacks left out, and the trace that it was made from, if it was."""

    values: JsonObject
    trace_id: str | None = None

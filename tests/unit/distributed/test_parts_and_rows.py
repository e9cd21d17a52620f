"""Files cut into parts, and parts read as test cases: every row once, under its own number."""

import datetime
import decimal
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa: Any = pytest.importorskip("pyarrow")
pq: Any = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("daft", reason="Daft has no wheel for this platform: assay batch is not tested")

from assay.distributed import parts  # noqa: E402
from assay.distributed.parts import InputFile, InputFormat, parts_of  # noqa: E402
from assay.distributed.rows import Row, rows_of  # noqa: E402
from assay.distributed.task import Task  # noqa: E402
from assay.domain.check import CheckError  # noqa: E402
from assay.domain.evaluator import Revision  # noqa: E402
from assay.domain.subject import Testcase  # noqa: E402

REVISION = Revision(
    id="r", evaluator_id="", project_id="p", number=1, created_at_ns=0, evaluator_name="check", kind="code",
    language="python", interface="evaluate", source="def evaluate(inputs, outputs, trace): return True",
)  # fmt: skip
TASK = Task(revision=REVISION, outputs_column="outputs", expected_column=None, output="/nowhere")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "ROWS_OF_PART", 5)
    monkeypatch.setattr(parts, "BYTES_OF_PART", 40)


def read(path: Path, kind: InputFormat, task: Task = TASK) -> Iterator[Row]:
    file = InputFile(source=str(path), format=kind, size=path.stat().st_size)
    for part in parts_of(file):
        for rows in rows_of(part, task):
            yield from rows


def only(path: Path, kind: InputFormat, task: Task = TASK) -> Testcase | CheckError:
    [row] = read(path, kind, task)
    return row.subject


@settings(max_examples=40)
@given(groups=st.lists(st.integers(0, 60), max_size=5))
def test_every_row_of_parquet_is_read_once_whatever_its_row_groups(
    groups: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("parquet") / "cases.parquet"
    schema = pa.schema([("outputs", pa.int64())])
    total = 0
    with pq.ParquetWriter(path, schema) as writer:
        for size in groups:
            writer.write_table(pa.table({"outputs": list(range(total + 1, total + size + 1))}, schema=schema))
            total += size
    found = list(read(path, "parquet"))
    assert [row.number for row in found] == list(range(1, total + 1))
    assert [row.subject.outputs for row in found if isinstance(row.subject, Testcase)] == list(range(1, total + 1))


@given(texts=st.lists(st.one_of(st.none(), st.text(max_size=60)), max_size=30), ends=st.booleans())
def test_every_line_is_read_once_under_its_number_and_blank_ones_are_none(
    texts: list[str | None], ends: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("lines") / "cases.jsonl"
    lines = ["" if text is None else json.dumps({"outputs": text}) for text in texts]
    path.write_text("\n".join(lines) + ("\n" if ends else ""), encoding="utf-8")
    found = [
        (row.number, row.subject.outputs if isinstance(row.subject, Testcase) else row.subject)
        for row in read(path, "jsonl")
    ]
    assert found == [(number, text) for number, text in enumerate(texts, 1) if text is not None]


def test_the_number_of_parts_of_a_large_row_group_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "cases.parquet"
    pq.write_table(pa.table({"outputs": list(range(1000))}), path)
    file = InputFile(source=str(path), format="parquet", size=path.stat().st_size)
    assert len(parts_of(file)) == parts.MOST_PARTS_OF_ROW_GROUP


def test_parts_have_names_of_their_own_that_stay_the_same(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "cases.jsonl").write_text('{"outputs": 1}\n' * 10)
    files = [InputFile(source=str(path), format="jsonl", size=150) for path in tmp_path.rglob("*.jsonl")]
    names = [part.result_name for file in files for part in parts_of(file)]
    assert len(names) == len(set(names)) > 4
    assert names == [part.result_name for file in files for part in parts_of(file)]


@pytest.mark.parametrize(
    ("line", "kind", "said"),
    [
        (b"{not json", "not-json", "is not JSON"),
        (b'{"outputs": NaN}', "not-json", "is not JSON"),
        (b'{"outputs": "\xff"}', "not-json", "is not JSON"),
        (b'{"outputs": "\\ud800"}', "not-json", "is not JSON"),
        (b'{"outputs": ' + b"[" * 100_000, "not-json", "too deeply"),
        (b"[1, 2]", "not-an-object", "a list; a row is an object"),
        (b"null", "not-an-object", "null; a row is an object"),
        (b'{"answer": 1, "question": 2}', "no-such-column", "no column 'outputs'; it has: 'answer', 'question'"),
    ],
)
def test_a_line_that_is_no_case_is_an_error_that_says_why(tmp_path: Path, line: bytes, kind: str, said: str) -> None:
    (tmp_path / "cases.jsonl").write_bytes(line)
    error = only(tmp_path / "cases.jsonl", "jsonl")
    assert isinstance(error, CheckError)
    assert error.kind == kind
    assert said in error.message


def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path: Path) -> None:
    (tmp_path / "cases.jsonl").write_bytes(b'\xef\xbb\xbf{"outputs": 1}')
    case = only(tmp_path / "cases.jsonl", "jsonl")
    assert isinstance(case, Testcase)
    assert case.outputs == 1


def test_the_case_is_the_whole_row_with_the_columns_named(tmp_path: Path) -> None:
    (tmp_path / "cases.jsonl").write_text('{"answer": "a", "right": "r", "outputs": "o"}')
    task = Task(revision=REVISION, outputs_column="answer", expected_column="right", output="/nowhere")
    assert only(tmp_path / "cases.jsonl", "jsonl", task) == Testcase(
        inputs={"answer": "a", "right": "r", "outputs": "o"}, outputs="a", expected="r"
    )


VALUES = {
    "text": "ü",
    "large": 2**63 - 1,
    "half": 0.5,
    "flag": True,
    "nothing": None,
    "day": datetime.date(2026, 1, 2),
    "moment": datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
    "price": decimal.Decimal("12.30"),
    "list": [1, 2],
    "nested": {"inner": [{"deep": 1.5}]},
}


def test_values_of_parquet_arrive_as_json(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist([{"outputs": VALUES}]), tmp_path / "cases.parquet")
    case = only(tmp_path / "cases.parquet", "parquet")
    assert isinstance(case, Testcase)
    assert case.outputs == {
        **VALUES, "day": "2026-01-02", "moment": "2026-01-02T03:04:05+00:00", "price": "12.30",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (math.nan, "holds nan"),
        (-math.inf, "holds -inf"),
        (b"\x00\x01", "holds 2 bytes that are no text"),
        ([{"deep": math.nan}], "holds nan"),
        (datetime.timedelta(seconds=1), "holds a timedelta"),
    ],
)
def test_a_value_that_json_cannot_hold_is_an_error_of_its_row_alone(tmp_path: Path, value: Any, said: str) -> None:
    pq.write_table(pa.table({"outputs": [1, 2], "odd": [value, None]}), tmp_path / "cases.parquet")
    first, second = read(tmp_path / "cases.parquet", "parquet")
    assert isinstance(first.subject, CheckError)
    assert first.subject.kind == "not-representable"
    assert f"The column 'odd' {said}" in first.subject.message
    assert second.subject == Testcase(inputs={"outputs": 2, "odd": None}, outputs=2)


def test_the_digest_of_a_task_changes_with_all_that_decides_a_result_and_nothing_else() -> None:
    def changed(**fields: Any) -> Task:
        return replace(TASK, **fields)

    def revised(**fields: Any) -> Task:
        return changed(revision=replace(REVISION, **fields))

    assert TASK.digest == changed(output="/elsewhere").digest == revised(created_at_ns=5).digest
    others = [
        revised(source="def evaluate(inputs, outputs, trace): return False"),
        revised(threshold=0.7),
        revised(interface="evaluate-float"),
        changed(outputs_column="answer"),
        changed(expected_column="right"),
    ]
    assert len({TASK.digest, *(task.digest for task in others)}) == len(others) + 1

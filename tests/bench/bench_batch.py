"""Batches beside their limit: `pandas.apply` of the same function in this process, without any isolation.

Both are measured end to end, from a file of cases to a file of results. The limit is one process; ours is a command
that is started for each round, with a worker per core. Its start is what it takes when all results are there already.
Measurements take turns, so that a noisy machine is noisy to all of them; ratios are what to read.
"""

import random
import re
import statistics
import string
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import pyarrow
import pyarrow.parquet

ROUNDS = 3
ROWS = 200_000
ROW_BYTES = 2_000
ROWS_AT_ONCE = 20_000
TRIVIAL = """
def evaluate(inputs, outputs, trace):
    return outputs == inputs["correct_answer"]
"""
arrow: Any = pyarrow
parquet: Any = pyarrow.parquet
frames: Any = pandas


def made_rows(count: int, *, size: int = ROW_BYTES, seed: int = 0) -> list[dict[str, Any]]:
    """Return rows of about this many bytes of JSON each; one in ten is answered wrongly."""
    chance = random.Random(seed)
    letters = "".join(chance.choices(string.ascii_lowercase + " ", k=64 * 1024))
    rows: list[dict[str, Any]] = []
    for number in range(count):
        start = chance.randrange(len(letters) - size)
        answer = f"answer {number}"
        rows.append(
            {
                "question": letters[start : start + size - 80],
                "correct_answer": answer,
                "outputs": answer if number % 10 else "no idea",
            }
        )
    return rows


def write_parquet(path: Path, count: int) -> None:
    """Write so many rows as Parquet, in one file."""
    writer: Any = None
    for start in range(0, count, ROWS_AT_ONCE):
        table = arrow.Table.from_pylist(made_rows(min(ROWS_AT_ONCE, count - start), seed=start))
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    writer.close()


def write_lines(source: Path, path: Path) -> None:
    """Write the rows of a Parquet file as JSON Lines."""
    frames.read_parquet(source).to_json(path, orient="records", lines=True)


def pandas_rows_per_s(cases: Path, source: str, folder: Path) -> float:
    """Return rows a second of the function, applied by pandas in this process."""
    namespace: dict[str, Callable[..., object]] = {}
    exec(source, namespace)
    evaluate = namespace["evaluate"]
    begun = time.perf_counter()
    frame = frames.read_parquet(cases)

    def applied(row: Any) -> object:
        return evaluate(row.to_dict(), row["outputs"], None)

    frame.apply(applied, axis=1).to_frame("success").to_parquet(folder / "pandas.parquet")
    return len(frame) / (time.perf_counter() - begun)


def batch_s(cases: Path, evaluator: Path, output: Path) -> float:
    """Return how many seconds the command takes, from its start to its end."""
    command = [sys.executable, "-m", "assay.cli.main", "batch", evaluator, "--input", cases, "--output", output]
    begun = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    spent = time.perf_counter() - begun
    assert re.search(r" 0 errored$", done.stdout, re.MULTILINE), done.stdout + done.stderr
    return spent


def measure(folder: Path, cases: dict[str, Path], evaluator: Path) -> None:
    """Measure each kind of file in turns, and print a line for each."""
    spent: dict[str, list[float]] = {name: [] for name in cases}
    starts: list[float] = []
    limits: list[float] = []
    for index in range(ROUNDS):
        limits.append(pandas_rows_per_s(cases["Parquet"], TRIVIAL, folder))
        for name, path in cases.items():
            spent[name].append(batch_s(path, evaluator, folder / f"{name}-{index}"))
        starts.append(batch_s(cases["Parquet"], evaluator, folder / f"Parquet-{index}"))
    limit, start = statistics.median(limits), statistics.median(starts)
    for name, seconds in spent.items():
        middle = statistics.median(seconds)
        whole, warm = ROWS / middle, ROWS / (middle - start)
        print(f"| {name} | {whole:,.0f} | {warm:,.0f} | {limit:,.0f} | {whole / limit:.2f} | {warm / limit:.2f} |")


def main() -> None:
    """Measure, and print a table."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        evaluator = folder / "trivial.py"
        evaluator.write_text(TRIVIAL)
        cases = {"Parquet": folder / "cases.parquet", "JSON Lines": folder / "cases.jsonl"}
        write_parquet(cases["Parquet"], ROWS)
        write_lines(cases["Parquet"], cases["JSON Lines"])
        print(f"{ROWS:,} rows of {ROW_BYTES:,} bytes; medians of {ROUNDS} rounds\n")
        print("| `assay batch`, native | rows/s | without its start | pandas.apply | ratio | without its start |")
        print("| --- | ---: | ---: | ---: | ---: | ---: |", flush=True)
        measure(folder, cases, evaluator)


if __name__ == "__main__":
    main()

"""`assay batch`: run an evaluator file over Parquet or JSON Lines, on this machine or on a Ray cluster."""

import asyncio
import os
import sys
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from assay.app import open_engine
from assay.cli.configuration import read_settings
from assay.cli.evaluator_file import EvaluatorFile, read_evaluator, vetted_revision
from assay.distributed import UNTRACKED
from assay.domain.evaluator import DEFAULT_THRESHOLD, Interface, Revision
from assay.errors import ConfigurationError

if TYPE_CHECKING:
    from assay.distributed.worker import PartReport

OUTPUTS_COLUMN = "outputs"


def batch(
    file: Annotated[Path, typer.Argument(help="The evaluator: a file that defines evaluate or handler.")],
    inputs: Annotated[
        list[str], typer.Option("--input", help="A path, a URL (s3://, gs://, az://) or a glob; may be repeated.")
    ],
    output: Annotated[str, typer.Option(help="A folder, or the URL of a prefix, for Parquet files of results.")],
    input_format: Annotated[
        Literal["parquet", "jsonl"] | None, typer.Option(help="What the inputs are (default: by their endings).")
    ] = None,
    outputs_column: Annotated[str, typer.Option(help="What the application answered.")] = OUTPUTS_COLUMN,
    expected_column: Annotated[str | None, typer.Option(help="What handler gets as expected.")] = None,
    threshold: Annotated[float, typer.Option(min=0, max=1, help="Scores below it fail.")] = DEFAULT_THRESHOLD,
    interface: Annotated[
        Interface | None, typer.Option(help="How the function is called (default: seen from the code).")
    ] = None,
    runner: Annotated[Literal["native", "ray"], typer.Option(help="Processes of this machine, or Ray.")] = "native",
    ray_address: Annotated[str | None, typer.Option(help="The cluster (default: a Ray that is started here).")] = None,
    concurrency: Annotated[int | None, typer.Option(min=1, help="Workers (default: one per core).")] = None,
) -> None:
    """Write a result per row. Exit code 1 when any failed or errored or a file cannot be read, 2 when nothing ran."""
    _require("daft", *(["ray"] if runner == "ray" else []))
    os.environ.update(UNTRACKED | os.environ)
    from assay.distributed.job import Cluster, run
    from assay.distributed.task import Task

    evaluator = read_evaluator(file)
    task = Task(
        revision=asyncio.run(_revision(evaluator, interface, threshold)),
        outputs_column=outputs_column,
        expected_column=expected_column,
        output=output if "://" in output else os.path.abspath(output),
    )
    cluster = Cluster(runner=runner, ray_address=ray_address, concurrency=concurrency)
    begun = time.perf_counter()
    reports = list(run(inputs, input_format, task, cluster))
    _print(reports, task.folder, time.perf_counter() - begun)
    if any(report.problem or report.counts.failed or report.counts.errored for report in reports):
        raise typer.Exit(1)


def _require(*packages: str) -> None:
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        raise ConfigurationError(f"assay batch needs {' and '.join(missing)}: pip install 'assay[batch]'")


async def _revision(file: EvaluatorFile, interface: Interface | None, threshold: float) -> Revision:
    """Return the revision as a draft: it is not paused when it crashes on some rows in a row, since each row counts."""
    async with open_engine(read_settings()) as engine:
        revision = await vetted_revision(engine, file, interface=interface, threshold=threshold)
        return replace(revision, evaluator_id="")


def _print(reports: "list[PartReport]", folder: str, spent_s: float) -> None:
    """Print the totals over all parts, those that were there already among them, and the rate of the others."""
    for report in reports:
        if report.problem is not None:
            print(f"{report.source}, part {report.number}: {report.problem}", file=sys.stderr)
    rows, scored, failed, skipped, errored = (
        sum(getattr(report.counts, name) for report in reports)
        for name in ("rows", "scored", "failed", "skipped", "errored")
    )
    there = sum(report.was_there for report in reports)
    undone = sum(report.problem is not None for report in reports)
    evaluated = sum(report.counts.rows for report in reports if not report.was_there)
    print(f"{rows} rows: {scored} scored ({failed} failed), {skipped} skipped, {errored} errored")
    print(f"{len(reports)} parts: {there} were there already, {undone} could not be done")
    print(f"{evaluated} rows in {spent_s:.1f} s, {evaluated / spent_s:.0f} a second; results in {folder}")

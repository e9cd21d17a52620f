"""`assay eval`: run an evaluator file over a file of traces, without a server."""

import asyncio
import json
import time
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table

from assay.app import open_engine
from assay.batch.execute import execute
from assay.batch.load import load_traces
from assay.cli.configuration import read_settings
from assay.cli.evaluator_file import EvaluatorFile, read_evaluator, vetted_revision
from assay.domain.check import Check
from assay.domain.evaluator import DEFAULT_THRESHOLD, Interface
from assay.domain.json_value import JsonValue
from assay.domain.trace import Trace

SHOWN_OF_ID = 8
SHOWN_OF_OUTPUT = 60
COLOURS = {"scored": "green", "skipped": "dim", "errored": "red"}


def evaluate(
    file: Annotated[Path, typer.Argument(help="The evaluator: a file that defines evaluate or handler.")],
    traces: Annotated[Path, typer.Option(help="OTLP/JSON: one document, or one a line.")],
    output: Annotated[Literal["table", "json"], typer.Option("--format", help="How the checks are printed.")] = "table",
    threshold: Annotated[float, typer.Option(min=0, max=1, help="Scores below it fail.")] = DEFAULT_THRESHOLD,
    interface: Annotated[
        Interface | None, typer.Option(help="How the function is called (default: seen from the code).")
    ] = None,
) -> None:
    """Print a check per trace. Exit code 1 when any failed or errored, 2 when nothing could be run."""
    subjects = load_traces(traces, now_ns=time.time_ns())
    checks = asyncio.run(_evaluate(read_evaluator(file), subjects, threshold, interface))
    if output == "json":
        print(json.dumps([_as_json(check) for check in checks], indent=2, ensure_ascii=False))
    else:
        _print_table(checks, subjects)
    if any(check.failed or check.reading.status == "errored" for check in checks):
        raise typer.Exit(1)


async def _evaluate(
    file: EvaluatorFile, subjects: list[Trace], threshold: float, interface: Interface | None
) -> list[Check]:
    async with open_engine(read_settings()) as engine:
        revision = await vetted_revision(engine, file, interface=interface, threshold=threshold)
        return await execute(engine, revision, subjects)


def _as_json(check: Check) -> dict[str, object]:
    reading = check.reading
    error = reading.error
    return {
        "traceId": check.trace_id,
        "status": reading.status,
        "failed": check.failed,
        "metrics": reading.metrics,
        "name": reading.name,
        "reason": reading.reason,
        "metadata": reading.metadata,
        "error": {"kind": error.kind, "message": error.message, "line": error.line} if error else None,
        "logs": check.logs,
        "durationMs": round(check.duration_s * 1000, 3),
        "runner": check.runner,
    }


def _print_table(checks: list[Check], subjects: list[Trace]) -> None:
    console = Console()
    table = Table("trace", "output", "status", "metrics", "why", "ms", expand=False)
    for check, subject in zip(checks, subjects, strict=True):
        reading = check.reading
        status = "failed" if check.failed else reading.status
        colour = "red" if check.failed else COLOURS[reading.status]
        why = reading.reason or ""
        if reading.error is not None:
            where = f", line {reading.error.line}" if reading.error.line else ""
            why = f"{reading.error.message}{where}"
        metrics = ", ".join(f"{name}={value}" for name, value in reading.metrics.items() if name != "reason")
        table.add_row(
            f"…{(check.trace_id or '')[-SHOWN_OF_ID:]}",
            _plain(_shortened(subject.root.output)),
            f"[{colour}]{status}[/]",
            _plain(metrics),
            _plain(why),
            f"{check.duration_s * 1000:.1f}",
        )
    console.print(table)
    failed = sum(check.failed for check in checks)
    errored = sum(check.reading.status == "errored" for check in checks)
    skipped = sum(check.reading.status == "skipped" for check in checks)
    console.print(f"{len(checks)} checks: {failed} failed, {errored} errored, {skipped} skipped")


def _shortened(output: JsonValue) -> str:
    text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
    return text if len(text) <= SHOWN_OF_OUTPUT else text[:SHOWN_OF_OUTPUT] + "…"


def _plain(text: str) -> str:
    """Keep an author's text from being read as markup or as terminal control."""
    shown = "".join(
        character if character.isprintable() or character == "\n" else "\N{REPLACEMENT CHARACTER}" for character in text
    )
    return shown.replace("[", r"\[")

"""`assay doctor`: what the sandbox can use on this machine."""

import asyncio

import typer
from rich.console import Console
from rich.table import Table

from assay.runners.sandbox.doctor import RUNGS, examine


def doctor() -> None:
    """Print each part of the sandbox and each rung of its ladder. Exit code 1 when evaluators cannot run here."""
    findings = asyncio.run(examine())
    table = Table("", "available", "what was found", box=None)
    for finding in findings:
        table.add_row(finding.name, "[green]yes[/]" if finding.available else "[red]no[/]", finding.detail)
    Console(soft_wrap=True).print(table)
    if not any(finding.available for finding in findings[-len(RUNGS) :]):
        raise typer.Exit(1)

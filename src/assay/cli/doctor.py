"""`assay doctor`: what the sandbox can use on this machine."""

import asyncio

import typer
from rich.console import Console
from rich.table import Table

from assay.app import examine_sandbox
from assay.cli.configuration import read_settings


def doctor() -> None:
    """Print the parts of the sandbox and the rungs they make. Exit code 1 when code cannot be run here."""
    settings = read_settings()
    findings = asyncio.run(examine_sandbox())
    table = Table("part", "here", "detail")
    for finding in findings:
        table.add_row(finding.name, "[green]yes[/]" if finding.available else "[red]no[/]", finding.detail)
    console = Console()
    console.print(table)
    rungs = [finding for finding in findings if finding.name.startswith("sandbox")]
    best = next((rung for rung in rungs if rung.available), None)
    if settings.code_runner != "sandbox":
        console.print(f"Code would run without any of this: ASSAY_CODE_RUNNER={settings.code_runner}.")
        return
    if best is None:
        console.print(
            "Evaluator code cannot be run here: docs/security.md says what each rung needs, "
            "and what ASSAY_CODE_RUNNER=restricted does without."
        )
        raise typer.Exit(1)
    console.print(
        f"Code would run in: {best.name}. The least allowed is ASSAY_SANDBOX_MINIMUM={settings.sandbox_minimum}."
    )

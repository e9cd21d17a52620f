"""`assay doctor`: what the sandbox can use on this machine."""

import asyncio

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from assay.app import examine_sandbox
from assay.cli.configuration import read_settings

RUNGS = ("full", "no-namespaces", "no-landlock")
KINDS = ("javascript", "typescript", "python with ")


def doctor() -> None:
    """Print the parts of the sandbox, the rungs they make, and what runs there. Exit code 1 when code cannot run."""
    settings = read_settings()
    findings = asyncio.run(examine_sandbox(settings))
    table = Table("part", "here", "detail")
    for finding in findings:
        name = f"rung {finding.name}" if finding.name in RUNGS else finding.name
        table.add_row(name, "[green]yes[/]" if finding.available else "[red]no[/]", escape(finding.detail))
    console = Console()
    console.print(table)
    rungs = [finding for finding in findings if finding.name in RUNGS]
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
        f"Code would run on the rung {best.name}; the least allowed is "
        f"ASSAY_SANDBOX_MINIMUM={settings.sandbox_minimum}. docs/security.md says what each rung keeps out."
    )
    broken = [finding.name for finding in findings if finding.name.startswith(KINDS) and not finding.available]
    if broken:
        console.print(f"What cannot be run: {', '.join(broken)}.")
        raise typer.Exit(1)

"""`assay keys`: API keys, shown once and stored as hashes."""

import asyncio
from pathlib import Path
from typing import Annotated, Literal

import typer

from assay.app import create_key
from assay.cli.configuration import read_settings
from assay.domain.access import DEFAULT_PROJECT

app = typer.Typer(help="API keys: ingest sends traces, member reads and writes evaluators, admin does everything.")


@app.callback()
def keys() -> None:
    """Manage API keys."""


@app.command("create")
def create(
    role: Annotated[Literal["ingest", "member", "admin"], typer.Option(help="What the key may do.")],
    project: Annotated[str, typer.Option(help="The project it belongs to; made on first use.")] = DEFAULT_PROJECT,
    data_dir: Annotated[Path | None, typer.Option(help="Folder of the embedded database.")] = None,
    database_url: Annotated[str | None, typer.Option(help="postgresql://… for a shared store.")] = None,
) -> None:
    """Make a key and print it: it is not shown again."""
    settings = read_settings(data_dir=data_dir, database_url=database_url)
    print(asyncio.run(create_key(settings, role=role, project_id=project)))

"""`assay keys`: API keys, shown once and stored as hashes."""

import asyncio
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer
from rich.console import Console
from rich.table import Table

from assay.app import create_key, list_keys, revoke_key
from assay.cli.configuration import read_settings
from assay.domain.access import DEFAULT_PROJECT
from assay.errors import ConfigurationError

PROJECT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
DataDir: TypeAlias = Annotated[Path | None, typer.Option(help="Folder of the embedded database.")]
DatabaseUrl: TypeAlias = Annotated[str | None, typer.Option(help="postgresql://… for a shared store.")]

app = typer.Typer(help="API keys: ingest sends traces, member reads and writes evaluators, admin does everything.")


@app.callback()
def keys() -> None:
    """Manage API keys."""


@app.command("create")
def create(
    role: Annotated[Literal["ingest", "member", "admin"], typer.Option(help="What the key may do.")],
    project: Annotated[str, typer.Option(help="The project it belongs to; made on first use.")] = DEFAULT_PROJECT,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Make a key and print it: it is not shown again. Where it was stored is said on standard error."""
    if not PROJECT_NAME.fullmatch(project):
        raise ConfigurationError(
            f"The project is called {project!r}; a name has 1 to 64 letters, digits, dots, dashes and underscores."
        )
    settings = read_settings(data_dir=data_dir, database_url=database_url)
    is_new = settings.database_url is None and not (settings.data_dir / "assay.db").exists()
    text = asyncio.run(create_key(settings, role=role, project_id=project))
    place = "the shared database" if settings.database_url else settings.data_dir.resolve()
    print(f"Stored in {place}, for the project {project}.", file=sys.stderr)
    if is_new:
        print("That store is new: a server of another data folder will not know this key.", file=sys.stderr)
    print(text)


@app.command("list")
def show(data_dir: DataDir = None, database_url: DatabaseUrl = None) -> None:
    """Print all keys by their first characters, which is all that is left of them."""
    table = Table("id", "role", "project", "begins with", "made")
    for key in asyncio.run(list_keys(read_settings(data_dir=data_dir, database_url=database_url))):
        made = datetime.fromtimestamp(key.created_at_ns / 1e9, UTC)
        table.add_row(key.id, key.role, key.project_id, key.prefix, f"{made:%Y-%m-%d %H:%M} UTC")
    Console().print(table)


@app.command("revoke")
def revoke(
    key_id: Annotated[str, typer.Argument(help="The id that `assay keys list` shows.")],
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Delete a key: it stops working within five seconds."""
    asyncio.run(revoke_key(read_settings(data_dir=data_dir, database_url=database_url), key_id))

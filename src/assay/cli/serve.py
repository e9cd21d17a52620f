"""`assay serve`: the server."""

from pathlib import Path
from typing import Annotated

import typer

from assay.app import run_server
from assay.cli.configuration import read_settings


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on (default 127.0.0.1).")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on (default 4700).")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Folder of the embedded database.")] = None,
    database_url: Annotated[str | None, typer.Option(help="postgresql://… for a shared store.")] = None,
) -> None:
    """Start the server. Settings also come from ASSAY_* variables and assay.toml (docs/settings.md)."""
    run_server(read_settings(host=host, port=port, data_dir=data_dir, database_url=database_url))

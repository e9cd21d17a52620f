"""The subcommands of `assay`."""

from importlib import metadata
from typing import Annotated

import typer

from assay.cli import batch, demo, doctor, evaluate, keys, serve

app = typer.Typer(
    name="assay",
    help="Run the checks you write over what your LLM application did.",
    invoke_without_command=True,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def assay(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """Run the checks you write over what your LLM application did."""
    if version:
        print(f"assay {metadata.version('assay')}")
        raise typer.Exit


app.command("serve")(serve.serve)
app.command("demo")(demo.demo)
app.command("eval")(evaluate.evaluate)
app.command("batch")(batch.batch)
app.command("doctor")(doctor.doctor)
app.add_typer(keys.app, name="keys")

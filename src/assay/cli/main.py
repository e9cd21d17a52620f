"""The `assay` command."""

import sys
from importlib import metadata
from typing import Annotated

import typer

from assay.cli import demo, doctor, evaluate, keys, serve
from assay.errors import AssayError

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
app.command("doctor")(doctor.doctor)
app.add_typer(keys.app, name="keys")


def run() -> None:
    """Run the command line; our own errors become one line and exit code 2."""
    try:
        app()
    except AssayError as error:
        print(f"assay: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    run()

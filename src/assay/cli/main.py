"""The `assay` command."""

import sys

import typer

from assay.cli import demo, doctor, evaluate, keys, serve
from assay.errors import AssayError, InvalidInputError

app = typer.Typer(
    name="assay",
    help="Run the checks you write over what your LLM application did.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
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
        line = error.line if isinstance(error, InvalidInputError) else None
        print(f"assay: {error}" + (f" (line {line})" if line else ""), file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    run()

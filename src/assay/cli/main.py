"""The `assay` command."""

import os
import sys

INTERRUPTED = 130
UNUSABLE = 2


def run() -> None:
    """Run the command line; our own errors become one line and exit code 2, and Ctrl-C ends quietly at any moment."""
    try:
        _run()
    except SystemExit as ended:
        if "daft" in sys.modules and (ended.code is None or isinstance(ended.code, int)):
            _end_at_once(ended.code or 0)
        raise


def _end_at_once(code: int) -> None:
    """End without winding up the interpreter, which threads that Daft leaves behind abort now and then."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _run() -> None:
    try:
        # Loading takes a second, in which somebody may change their mind.
        from assay.cli.commands import app
        from assay.errors import AssayError

        try:
            app()
        except AssayError as error:
            print(f"assay: {error}", file=sys.stderr)
            sys.exit(UNUSABLE)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    run()

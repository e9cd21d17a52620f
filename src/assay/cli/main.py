"""The `assay` command."""

import sys

INTERRUPTED = 130
UNUSABLE = 2


def run() -> None:
    """Run the command line; our own errors become one line and exit code 2, and Ctrl-C ends quietly at any moment."""
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

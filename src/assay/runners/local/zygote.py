"""The warm process behind the local runner: its children are not confined, but bounded and killed like any others."""

import contextlib
import os
import signal
import socket

from assay.runners.children import languages
from assay.runners.children.bounds import die_with_parent
from assay.runners.children.zygote import Custody, serve


def main(control: int, language: str) -> None:
    """Serve; each child leads a session of its own, so that what it started ends with it."""
    channel = socket.socket(fileno=control)
    die_with_parent()
    os.dup2(1, 2)
    serve(channel, Custody(confine=os.setsid, speech=languages.named(language), kill=_kill_session))


def _kill_session(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)

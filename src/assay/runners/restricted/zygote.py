"""The warm process behind the restricted runner: its children run only what the policy compiles, with our builtins."""

import contextlib
import os
import socket

from assay.runners.restricted.builtins import RESTRICTED_BUILTINS
from assay.runners.restricted.policy import compile_restricted
from assay.runners.sandbox import confine
from assay.runners.sandbox.zygote import Custody, serve


def main(control: int) -> None:
    """Serve, with as few rights as this kernel lets a process give up without a sandbox."""
    channel = socket.socket(fileno=control)
    confine.die_with_parent()
    confine.limit_files()
    with contextlib.suppress(OSError):
        confine.forgo_privileges()
    os.dup2(1, 2)
    serve(channel, Custody(confine=_nothing_more, compile=compile_restricted, offered=RESTRICTED_BUILTINS))


def _nothing_more() -> None:
    """Leave the child as it is: the language confines it."""

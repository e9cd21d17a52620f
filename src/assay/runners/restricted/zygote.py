"""The warm process behind the restricted runner: its children run only what the policy compiles, with our builtins."""

import contextlib
import os
import socket

from assay.runners.children import bounds, languages
from assay.runners.children.zygote import Custody, serve
from assay.runners.restricted.builtins import RESTRICTED_BUILTINS
from assay.runners.restricted.policy import compile_restricted


def main(control: int) -> None:
    """Serve, with as few rights as this kernel lets a process give up without a sandbox."""
    channel = socket.socket(fileno=control)
    bounds.die_with_parent()
    bounds.limit_files()
    with contextlib.suppress(OSError):
        bounds.forgo_privileges()
    os.dup2(1, 2)
    speech = languages.python(compile_restricted, RESTRICTED_BUILTINS)
    serve(channel, Custody(confine=_nothing_more, speech=speech))


def _nothing_more() -> None:
    """Leave the child as it is: the language confines it."""

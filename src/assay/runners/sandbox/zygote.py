"""The warm process behind the sandbox, whose children confine themselves before they run code. It stays lean.

Started as `python -I -S -B -c ...`.
"""

import os
import socket
import sys
from collections.abc import Mapping, Sequence

from assay.runners.children import bounds, languages
from assay.runners.children.zygote import Custody, serve
from assay.runners.sandbox import confine


def main(
    control: int,
    language: str,
    readable: Sequence[str],
    hidden: Sequence[str],
    *,
    landlock: bool,
    preload: Sequence[str],
    files: Mapping[str, str],
    offered: Sequence[str],
) -> None:
    """Confine this process as far as it can bear, and serve.

    `readable` is all that may still be read; `hidden` is taken out of the import path. `files` are those of the
    modules that packages bring, by name; the `offered` ones must load.
    """
    channel = socket.socket(fileno=control)
    speech = languages.named(language)
    for name in preload:
        __import__(name)
    sys.path[:] = [path for path in sys.path if path not in hidden]
    if files:
        from assay.runners.sandbox.imports import bring_in

        bring_in(files, offered, whole=not landlock)
    bounds.die_with_parent()
    bounds.forgo_privileges()
    bounds.limit_files()
    if landlock:
        confine.confine_files(readable)
    confine_child = confine.prepare_filter(may_open=landlock)
    os.dup2(0, 1)
    os.dup2(0, 2)
    serve(channel, Custody(confine=confine_child, speech=speech))

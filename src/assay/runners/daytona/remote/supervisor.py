"""What runs in a remote sandbox: takes one batch from a file, runs it, and prints one answer behind the token."""

import base64
import contextlib
import ctypes
import json
import os
import sys
import time
from typing import Any

from assay.runners.daytona.remote.batch import TOKEN_BYTES, Batch, unpacked
from assay.runners.daytona.remote.javascript import DefectError, JavaScript, LackingError, Node, inspect_javascript
from assay.runners.daytona.remote.python import Python, inspect_python
from assay.runners.daytona.remote.watch import Budgets

# An answer is sent when so much has come together: what is left of the batch is asked for again.
_LONGEST_S = 20.0
_LARGEST_BYTES = 1024 * 1024
_SET_DUMPABLE, _SET_CHILD_SUBREAPER = 4, 36


def main(kit: str, worker: str, path: str) -> None:
    """Serve the batch in the file at `path`, which is removed before any of the author's code runs."""
    sys.path.remove(kit)
    token = bytearray(TOKEN_BYTES)
    with open(path, "rb", buffering=0) as file:
        file.readinto(token)
        batch = unpacked(file.read())
    os.unlink(path)
    _hide()

    def forget() -> None:
        for index in range(TOKEN_BYTES):
            token[index] = 0

    try:
        answer = _inspected(batch, worker) if batch.what == "inspect" else _ran(batch, worker, forget)
    except LackingError as error:
        answer = {"lacking": str(error)}
    line = b"\n" + bytes(token) + json.dumps(answer).encode() + b"\n"
    while line:
        line = line[os.write(1, line) :]


def _hide() -> None:
    """Have the kernel keep this process's memory and descriptors from others of the same user; adopt all orphans."""
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.prctl(_SET_DUMPABLE, 0, 0, 0, 0)
        libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _inspected(batch: Batch, worker: str) -> "dict[str, Any]":
    if batch.language == "python":
        return inspect_python(batch)
    node = Node(worker, batch.limits["memory_bytes"])
    try:
        return inspect_javascript(batch, node)
    finally:
        node.close()


def _ran(batch: Batch, worker: str, forget: Any) -> "dict[str, Any]":
    limits = batch.limits
    budgets = Budgets(
        wall_s=limits["wall_s"],
        cpu_s=limits["cpu_s"],
        result_bytes=limits["result_bytes"],
        log_bytes=limits["log_bytes"],
        memory_bytes=None if batch.language == "python" else limits["memory_bytes"],
    )
    language: Python | JavaScript
    if batch.language == "python":
        language = Python(batch, budgets, forget)
    else:
        try:
            language = JavaScript(batch, budgets, Node(worker, limits["memory_bytes"]))
        except DefectError as error:
            return {"defect": {"kind": "syntax-error", **error.defect}}
    began, size = time.monotonic(), 0
    answers: list[list[Any]] = []
    try:
        for arguments in batch.calls:
            if answers and (time.monotonic() - began > _LONGEST_S or size > _LARGEST_BYTES):
                break
            seen = language.evaluate(arguments)
            size += len(seen.value) + len(seen.logs)
            answers.append(
                [
                    seen.ended,
                    language.last_status if seen.ended == "died" else seen.status,
                    seen.spent_s,
                    base64.b64encode(seen.value).decode(),
                    base64.b64encode(seen.logs).decode(),
                    seen.written,
                    seen.cpu_s,
                    seen.peak_bytes,
                ]
            )
    finally:
        language.close()
    return {"answers": answers}

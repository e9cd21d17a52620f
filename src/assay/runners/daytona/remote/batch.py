"""The file that brings a batch into a remote sandbox: both sides agree on it here.

It is a token, one line of JSON (the head), then the source, then every argument of every call, one after the other.
The token marks the supervisor's answer on standard output.
"""

import json
from dataclasses import dataclass
from typing import Any

TOKEN_BYTES = 32


@dataclass(frozen=True)
class Batch:
    """What to do: `run` the calls, or `inspect` the source; `limits` are as in the head."""

    what: str
    language: str
    entry: str
    limits: dict[str, Any]
    source: bytes
    calls: list[list[bytes]]


def packed(batch: Batch) -> bytes:
    """Return the file without its token."""
    head = {
        "what": batch.what,
        "language": batch.language,
        "entry": batch.entry,
        "limits": batch.limits,
        "source": len(batch.source),
        "calls": [[len(argument) for argument in call] for call in batch.calls],
    }
    arguments = [argument for call in batch.calls for argument in call]
    return b"".join((json.dumps(head).encode(), b"\n", batch.source, *arguments))


def unpacked(raw: bytes) -> Batch:
    """Return the batch in a file from which the token was taken."""
    line, _, body = raw.partition(b"\n")
    head = json.loads(line)
    position = head["source"]
    calls: list[list[bytes]] = []
    for sizes in head["calls"]:
        call: list[bytes] = []
        for size in sizes:
            call.append(body[position : position + size])
            position += size
        calls.append(call)
    return Batch(head["what"], head["language"], head["entry"], head["limits"], body[: head["source"]], calls)

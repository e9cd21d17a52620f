"""One round with a child: ship a batch, read what it answers, and judge how it ended."""

import asyncio
import os
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import Literal

from assay.domain.outcome import Limits, Outcome
from assay.runners.sandbox import frames
from assay.runners.sandbox.answers import outcome_of
from assay.runners.sandbox.batches import Item, Program
from assay.runners.sandbox.zygote_process import ZygoteProcess

_READ_BYTES = 256 * 1024
_BEGIN_S = 10.0


@dataclass(slots=True)
class Round:
    """How a round went: the outcomes so far, in order, and why there are no more."""

    outcomes: list[Outcome] = field(default_factory=list[Outcome])
    end: Literal["answered", "hung", "closed", "forged", "not-begun"] = "answered"


def _request(program: Program, items: list[Item], batch_id: bytes, *, careful: bool, first: bool) -> bytes:
    width = len(items[0].arguments)
    entry = program.entry.encode() if first else b""
    code, source = (program.code, program.source) if first else (b"", b"")
    sizes = [len(raw) for item in items for raw in item.arguments]
    return b"".join(
        (
            frames.REQUEST.pack(batch_id, careful, len(items), width, len(entry), len(code), len(source)),
            entry, code, source,
            struct.pack(f"<{len(sizes)}I", *sizes),
            *[raw for item in items for raw in item.arguments],
        )
    )  # fmt: skip


async def converse(
    zygote: ZygoteProcess, channel: socket.socket, program: Program, items: list[Item], *, careful: bool, first: bool
) -> Round:
    """Run one batch in the child behind the channel. Nothing the child sends is trusted beyond its own batch."""
    batch_id = os.urandom(8)
    request = _request(program, items, batch_id, careful=careful, first=first)
    reader = _Reader(batch_id, len(items), program.limits)
    watch = _Watch(zygote, program.limits.wall_s)
    loop = asyncio.get_running_loop()
    sending = asyncio.ensure_future(loop.sock_sendall(channel, request))
    try:
        while not reader.complete:
            try:
                async with asyncio.timeout(watch.remaining_s()):
                    data = await loop.sock_recv(channel, _READ_BYTES)
            except TimeoutError:
                if watch.overdue():
                    reader.round.end = "hung" if watch.item else "not-begun"
                    break
                continue
            except OSError:
                data = b""
            if not data:
                reader.round.end = "closed"
                break
            if not reader.feed(data):
                reader.round.end = "forged"
                break
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
    return reader.round


class _Watch:
    """The deadline of the evaluation being run: a child that claims progress can stretch it at most twofold."""

    def __init__(self, zygote: ZygoteProcess, wall_s: float) -> None:
        self._zygote = zygote
        self._wall_s = wall_s
        self.item = 0
        self._seen_at = time.monotonic()

    def _look(self) -> float:
        """Return how long the present item has been running, in seconds."""
        item, claimed = self._zygote.progress()
        now = time.monotonic()
        if item > self.item:
            began = min(max(claimed, self._seen_at), now)
            self.item, self._seen_at = item, began
        return now - self._seen_at

    def remaining_s(self) -> float:
        """Return how long to wait for news before looking again."""
        ran_s = self._look()
        return max(0.001, (self._wall_s if self.item else _BEGIN_S) - ran_s)

    def overdue(self) -> bool:
        """Tell whether the present item has used up its time."""
        return self._look() >= (self._wall_s if self.item else _BEGIN_S)


class _Reader:
    """Takes result frames apart; anything but the next frame of this batch is a forgery."""

    def __init__(self, batch_id: bytes, count: int, limits: Limits) -> None:
        self._batch_id = batch_id
        self._count = count
        self._limits = limits
        self._buffer = bytearray()
        self.round = Round()

    @property
    def complete(self) -> bool:
        """Tell whether all items are answered."""
        return len(self.round.outcomes) == self._count

    def feed(self, data: bytes) -> bool:
        """Take more bytes; False when they cannot be the harness's."""
        buffer = self._buffer
        buffer += data
        position, end = 0, len(buffer)
        head, outcomes = frames.RESULT, self.round.outcomes
        while end - position >= head.size:
            batch_id, item, status, cut, spent, size, log_size = head.unpack_from(buffer, position)
            fits = size <= self._limits.result_bytes + 65536 and log_size <= self._limits.log_bytes
            if batch_id != self._batch_id or item != len(outcomes) or item >= self._count or not fits:
                return False
            start = position + head.size
            if end - start < size + log_size:
                break
            position = start + size + log_size
            value, logs = bytes(buffer[start : start + size]), bytes(buffer[start + size : position])
            outcome = outcome_of(status, value, logs, bool(cut), spent, self._limits)
            if outcome is None:
                return False
            outcomes.append(outcome)
        del buffer[:position]
        return not (self.complete and buffer)

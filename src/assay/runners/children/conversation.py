"""One round with a child: ship a batch, read what it answers, and find out which evaluation ended it, if one did."""

import asyncio
import os
import struct
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

from assay.domain.outcome import Limits, Outcome
from assay.runners.children import frames
from assay.runners.children.answers import outcome_of, shown_logs
from assay.runners.children.batches import Item, Program
from assay.runners.children.breaches import Used
from assay.runners.children.deadline import BEGIN_S, LEAST_LOOK_S, PATIENCE, Deadline
from assay.runners.children.zygote_process import Child

_READ_BYTES = 256 * 1024
_SPARE_S = 1.0
# The CPU time before an evaluation is known well enough when it was told so shortly before, as a share of the whole.
_WELL_KNOWN = 0.05


def longest_s(limits: Limits, count: int) -> float:
    """Return how long a child may take over so many evaluations at the most, in seconds by our own clock."""
    return BEGIN_S + count * PATIENCE * limits.wall_s + _SPARE_S


@dataclass(slots=True)
class Round:
    """How a round went.

    `outcomes` are those of the first items. Unless all were answered, `culprit` is the index of the item that was
    running at the end, `logs` what it printed and `spent_s` its time. `not-begun` is ours, all else is theirs.
    A hung one `is_over_cpu` when it was killed for its CPU time. `before` is a time at or before the start of the
    culprit (monotonic), and the CPU time of the child then, both in seconds.
    """

    outcomes: list[Outcome] = field(default_factory=list[Outcome])
    end: Literal["answered", "hung", "closed", "memory", "forged", "not-begun"] = "answered"
    culprit: int = 0
    logs: str = ""
    spent_s: float = 0.0
    is_over_cpu: bool = False
    before: tuple[float, float] = (0.0, 0.0)

    def used(self, cpu_s: float, peak_bytes: int) -> Used:
        """Return what the culprit had used, from what the whole child had at its end."""
        unknown_s = max(time.monotonic() - self.spent_s - self.before[0], 0.0)
        return Used(
            ran_s=self.spent_s,
            cpu_s=max(cpu_s - self.before[1], 0.0),
            cpu_is_bound=unknown_s > max(_WELL_KNOWN * self.spent_s, LEAST_LOOK_S),
            peak_bytes=peak_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A batch that was sent: so many evaluations, after `offset` that the child was given before."""

    batch_id: bytes
    count: int
    offset: int


class Conversation:
    """Batches sent to one child, and the rounds in which it answers them, in the same order."""

    def __init__(self, child: Child, program: Program) -> None:
        self._child = child
        self._program = program
        self._limits = program.limits
        self._asked: deque[_Asked] = deque()
        self._given = 0
        self._heard = 0
        self._sending: asyncio.Future[None] | None = None
        self._unread = b""
        self._killed = False
        self.begun = False

    @property
    def fresh(self) -> bool:
        """Tell whether the round heard last was the child's first."""
        return self._heard == 1

    def ask(self, items: list[Item]) -> None:
        """Send a batch, behind those sent before."""
        batch_id = os.urandom(8)
        request = _request(self._program, items, batch_id, first=not self._given)
        self._asked.append(_Asked(batch_id=batch_id, count=len(items), offset=self._given))
        self._given += len(items)
        self._sending = asyncio.ensure_future(self._send(self._sending, request))

    async def _send(self, before: asyncio.Future[None] | None, request: bytes) -> None:
        if before is not None:
            await asyncio.wait((before,))
        # A child that is gone shows when it is listened to.
        with suppress(OSError):
            await asyncio.get_running_loop().sock_sendall(self._child.channel, request)

    async def hear(self, more: Callable[[], list[Item]]) -> Round:
        """Return the round of the batch asked first. Nothing the child sends is trusted beyond its own batch.

        `more` gives the batch to be asked next, once this one is being answered, so that the child need not wait.
        """
        loop, channel, asked = asyncio.get_running_loop(), self._child.channel, self._asked.popleft()
        self._heard += 1
        reader = _Reader(asked.batch_id, asked.count, self._limits, self.begun)
        watch = _Watch(self._child, reader, self._limits, asked.offset, asked.count)
        data, self._unread = self._unread, b""
        try:
            while True:
                if data and not self._follows(reader, asked, data):
                    break
                if reader.round.outcomes and not self._asked and (items := more()):
                    self.ask(items)
                try:
                    data = await loop.sock_recv(channel, _READ_BYTES)
                except OSError:
                    data = b""
                if not data:
                    self._killed = self._killed or watch.fired
                    reader.round.end = ("hung" if self._killed else "closed") if reader.begun else "not-begun"
                    break
        finally:
            watch.stop()
            self._killed = self._killed or watch.fired
        self.begun = reader.begun
        if reader.round.end != "answered":
            self._find_culprit(reader.round, watch, asked.offset, asked.count)
        return reader.round

    def _follows(self, reader: "_Reader", asked: _Asked, data: bytes) -> bool:
        """Take in what the child said; tell whether more of the batch is to come."""
        if not reader.feed(data):
            return False
        if self._child.progress()[0] < asked.offset + len(reader.round.outcomes):
            reader.round.end = "forged"
            return False
        if reader.complete:
            self._unread = reader.rest
            if reader.rest and not self._asked:
                reader.round.end = "forged"
            return False
        return True

    async def close(self) -> None:
        """Stop sending."""
        if self._sending is not None and not self._sending.done():
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)

    def _find_culprit(self, ended: Round, watch: "_Watch", offset: int, count: int) -> None:
        """Ask the child's own counter, as far as it agrees with what was asked and answered."""
        begun, started = self._child.progress()
        culprit, answered = begun - offset - 1, len(ended.outcomes)
        if culprit >= count > 1 or (answered and culprit < answered):
            ended.end = "forged"
        ended.culprit = min(max(culprit, answered), count - 1)
        ended.logs = shown_logs(*self._child.logs(self._limits.log_bytes))
        deadline = watch.deadline
        ended.before, ended.is_over_cpu = deadline.before, deadline.is_over_cpu
        if ended.end == "hung":
            ended.spent_s = time.monotonic() - deadline.since
        else:
            ended.spent_s = min(max(time.monotonic() - started, 0.0), self._limits.wall_s) if started > 0 else 0.0


def _request(program: Program, items: list[Item], batch_id: bytes, *, first: bool) -> bytes:
    width = len(items[0].arguments)
    entry = program.entry.encode() if first else b""
    code, source = (program.code, program.source) if first else (b"", b"")
    arguments = [raw for item in items for raw in item.arguments]
    for at in program.unread:
        arguments[at::width] = [b""] * len(items)
    return b"".join(
        (
            frames.REQUEST.pack(batch_id, len(items), width, len(entry), len(code), len(source)),
            entry, code, source,
            struct.pack(f"<{len(arguments)}I", *map(len, arguments)),
            *arguments,
        )
    )  # fmt: skip


class _Watch:
    """Kills the child when an evaluation has used up its time; whatever the child wrote where, it does not outlive
    the longest that its whole batch may take.
    """

    def __init__(self, child: Child, reader: "_Reader", limits: Limits, offset: int, count: int) -> None:
        self._child = child
        self._reader = reader
        told = child.cpu or (child.forked_at, 0.0)
        self.deadline = Deadline(limits, begun=offset, told=told, now=time.monotonic())
        self.fired = False
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self.deadline.look_s, self._look)
        self._last = loop.call_later(longest_s(limits, count), self._end)

    def _look(self) -> None:
        left_s = 0.0
        try:
            reader = self._reader
            left_s = self.deadline.left_s(
                time.monotonic(),
                progress=self._child.progress(),
                answers=len(reader.round.outcomes),
                told=self._child.cpu,
                is_running=reader.begun,
            )
            self._child.ask_cpu()
        finally:
            # Also when looking failed: a child that is not watched is one that lives for ever.
            if left_s > 0:
                self._timer = asyncio.get_running_loop().call_later(max(left_s, 0.001), self._look)
            else:
                self._end()

    def _end(self) -> None:
        self.fired = True
        self._child.kill()

    def stop(self) -> None:
        """Stop watching."""
        self._timer.cancel()
        self._last.cancel()


class _Reader:
    """Takes result frames apart; anything but the next frame of this batch is a forgery."""

    def __init__(self, batch_id: bytes, count: int, limits: Limits, begun: bool) -> None:
        self._batch_id = batch_id
        self._count = count
        self._limits = limits
        self._buffer = b""
        self.begun = begun
        self.complete = False
        self.rest = b""
        self.round = Round()

    def feed(self, data: bytes) -> bool:
        """Take more bytes; False when nothing that follows matters: a forgery, or the last words of a child."""
        if not self.begun:
            if data[:1] != frames.BEGUN:
                return self._end("forged")
            self.begun, data = True, data[1:]
        buffer = self._buffer + data if self._buffer else data
        position, end = 0, len(buffer)
        unpack, head_size = frames.RESULT.unpack_from, frames.RESULT.size
        outcomes, limits = self.round.outcomes, self._limits
        largest, most_logs, expected = limits.result_bytes + 65536, limits.log_bytes, len(outcomes)
        while expected < self._count and end - position >= head_size:
            batch_id, item, status, spent_s, written, size, log_size = unpack(buffer, position)
            if batch_id != self._batch_id or item != expected:
                return self._end("forged")
            if size > largest or log_size > most_logs:
                return self._end("forged")
            start = position + head_size
            middle = start + size
            if end < middle + log_size:
                break
            position = middle + log_size
            logs = buffer[middle:position] if log_size else b""
            outcome = outcome_of(status, buffer[start:middle], logs, written, spent_s, limits)
            if outcome is None:
                return self._end("forged")
            if status == frames.STATUS_MEMORY:
                return self._end("memory")
            outcomes.append(outcome)
            expected += 1
        rest = self._buffer = buffer[position:]
        if expected == self._count:
            self.complete = rest.startswith(self._batch_id)
            self.rest = rest[len(self._batch_id) :]
            return self.complete or self._batch_id.startswith(rest) or self._end("forged")
        return True

    def _end(self, end: Literal["forged", "memory"]) -> bool:
        self.round.end = end
        return False

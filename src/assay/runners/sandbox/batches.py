"""What waits to be run, and how it is cut into batches: all that waits for one revision, within bounds."""

import asyncio
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import TypeAlias

from assay.domain.outcome import Call, Limits, Outcome

BATCH_ITEMS = 256
BATCH_BYTES = 1024 * 1024
_SPLIT_FROM = 32

Key: TypeAlias = tuple[str, str, str, str, Limits]


class Request:
    """One call of `execute`: its outcomes come in any order, and it is done when all are there."""

    def __init__(self, count: int) -> None:
        self._outcomes: list[Outcome | None] = [None] * count
        self._missing = count
        self.done: asyncio.Future[list[Outcome]] = asyncio.get_running_loop().create_future()

    def settle(self, index: int, outcome: Outcome) -> None:
        """Take the outcome of one call."""
        if self._outcomes[index] is None:
            self._outcomes[index] = outcome
            self._missing -= 1
        if not self._missing and not self.done.done():
            self.done.set_result([outcome for outcome in self._outcomes if outcome is not None])


@dataclass(frozen=True, slots=True)
class Item:
    """One call of a request, with the bytes that will be shipped for it."""

    request: Request
    index: int
    arguments: tuple[bytes, ...]
    size: int

    def settle(self, outcome: Outcome) -> None:
        """Hand the outcome to the request."""
        self.request.settle(self.index, outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What a child needs to run a revision: never shared between projects."""

    key: Key
    entry: str
    code: bytes
    source: bytes
    limits: Limits


class Waiting:
    """All that waits, by program; programs take turns."""

    def __init__(self) -> None:
        self._items: OrderedDict[Key, tuple[Program, deque[Item]]] = OrderedDict()
        self._some = asyncio.Event()
        self.idle = 0

    def add(self, program: Program, calls: list[tuple[int, Call]], unread: frozenset[int], request: Request) -> None:
        """Queue these calls, leaving out the arguments that the code never reads."""
        _, queue = self._items.setdefault(program.key, (program, deque()))
        for index, call in calls:
            arguments = call.arguments
            if unread:
                arguments = tuple([b"" if at in unread else raw for at, raw in enumerate(arguments)])
            queue.append(Item(request, index, arguments, sum(map(len, arguments))))
        self._some.set()

    async def take(self) -> tuple[Program, list[Item]]:
        """Wait for the next batch; what waits is shared with the workers that are idle too."""
        self.idle += 1
        try:
            while not self._items:
                self._some.clear()
                await self._some.wait()
            key, (program, queue) = next(iter(self._items.items()))
            share = len(queue) if len(queue) < _SPLIT_FROM else -(-len(queue) // self.idle)
        finally:
            self.idle -= 1
        batch = _cut(queue, min(share, BATCH_ITEMS))
        if queue:
            self._items.move_to_end(key)
        else:
            del self._items[key]
        return program, batch

    def take_more(self, key: Key) -> list[Item]:
        """Return a batch of the same program at once, when that is all that waits; nothing otherwise."""
        if len(self._items) != 1 or key not in self._items:
            return []
        _, queue = self._items[key]
        batch = _cut(queue, BATCH_ITEMS)
        if not queue:
            del self._items[key]
        return batch

    def drain(self) -> list[Item]:
        """Take everything out."""
        items = [item for _, queue in self._items.values() for item in queue]
        self._items.clear()
        return items


def _cut(queue: deque[Item], count: int) -> list[Item]:
    batch: list[Item] = []
    size = 0
    while queue and len(batch) < count and (not batch or size + queue[0].size <= BATCH_BYTES):
        item = queue.popleft()
        batch.append(item)
        size += item.size
    return batch

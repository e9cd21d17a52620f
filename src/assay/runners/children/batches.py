"""What waits to be run, and how it is cut into batches: all that waits for one revision, within bounds."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from assay.domain.breaker import FAILURES_TO_OPEN
from assay.domain.outcome import Limits, Outcome, Unavailable

BATCH_ITEMS = 256
BATCH_BYTES = 1024 * 1024
# Slow evaluations come in small batches, so that they spread over the workers and give way to others.
BATCH_S = 0.1
_SPLIT_FROM = 32
_PACES_KEPT = 4096

Key: TypeAlias = tuple[str, str, str, bytes, Limits]


class Request:
    """One call of `execute`: its outcomes come in any order, and it is done when all are there."""

    def __init__(self, count: int) -> None:
        self._outcomes: list[Outcome | None] = [None] * count
        self._missing = count
        self._crashes = 0
        self.done: asyncio.Future[list[Outcome]] = asyncio.get_running_loop().create_future()

    @property
    def abandoned(self) -> bool:
        """Tell whether nobody waits for it any more."""
        return self.done.done()

    def settle(self, index: int, outcome: Outcome) -> None:
        """Take the outcome of one call."""
        self._crashes = 0
        if self._outcomes[index] is None:
            self._outcomes[index] = outcome
            self._missing -= 1
        if not self._missing and not self.done.done():
            self.done.set_result([outcome for outcome in self._outcomes if outcome is not None])

    def crashed(self, index: int, outcome: Outcome) -> None:
        """Take the outcome of a call that cost its process; after so many in a row, give up those that are left."""
        crashes = self._crashes + 1
        self.settle(index, outcome)
        self._crashes = crashes
        if crashes >= FAILURES_TO_OPEN:
            cause = f"{crashes} evaluations in a row ended their process or used up a budget"
            for left, known in enumerate(self._outcomes):
                if known is None:
                    self.settle(left, Unavailable(cause=cause, is_given_up=True))


@dataclass(slots=True)
class Item:
    """One call of a request; `size` is how many bytes of its arguments are shipped.

    `alone`: its code changes what evaluations of one process share, or it ended a process that others had used before,
    so that it is run once more with nobody to blame but itself.
    `failures` counts the times that we could not run it.
    """

    request: Request
    index: int
    arguments: Sequence[bytes]
    size: int
    alone: bool = False
    failures: int = 0

    def settle(self, outcome: Outcome) -> None:
        """Hand the outcome to the request."""
        self.request.settle(self.index, outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What a child needs to run a revision: never shared between projects.

    `unread` are the positions of the arguments that the code never reads, so that they are not shipped.
    """

    key: Key
    entry: str
    code: bytes
    source: bytes
    limits: Limits
    unread: tuple[int, ...] = ()

    @property
    def project_id(self) -> str:
        """Return the project it belongs to."""
        return self.key[0]


_Programs: TypeAlias = OrderedDict[Key, tuple[Program, deque[Item]]]


class Waiting:
    """All that waits, by project and program; projects take turns, and so do the programs within one."""

    def __init__(self) -> None:
        self._projects: OrderedDict[str, _Programs] = OrderedDict()
        self._paces: OrderedDict[Key, float] = OrderedDict()

    def note_pace(self, key: Key, seconds: float) -> None:
        """Learn how long an evaluation of this program took."""
        self._paces[key] = (self._paces.pop(key, seconds) + seconds) / 2
        if len(self._paces) > _PACES_KEPT:
            self._paces.popitem(last=False)

    def _most(self, key: Key) -> int:
        """Return how many evaluations of this program make a batch at most."""
        return min(BATCH_ITEMS, int(BATCH_S / max(self._paces.get(key, 0.0), 1e-6)) or 1)

    def add(self, program: Program, items: Sequence[Item]) -> None:
        """Queue these items; what the code never reads of them weighs nothing."""
        for at in program.unread:
            for item in items:
                item.size -= len(item.arguments[at])
        self._queue_of(program).extend(items)

    def put_back(self, program: Program, items: Sequence[Item]) -> None:
        """Queue items again, before those of their program that wait already."""
        if items:
            self._queue_of(program).extendleft(reversed(items))

    def _queue_of(self, program: Program) -> deque[Item]:
        programs = self._projects.setdefault(program.project_id, OrderedDict())
        return programs.setdefault(program.key, (program, deque()))[1]

    def take(
        self, running: Mapping[str, int], eligible: Callable[[Program], bool], idle: int
    ) -> tuple[Program, list[Item]] | None:
        """Return the next batch of a program that may run, a fair share of what waits when more places are idle.

        The project with the fewest batches in `running` comes first, among equals the one whose turn was longest ago.
        """
        for project_id in sorted(self._projects, key=lambda project_id: running.get(project_id, 0)):
            programs = self._projects[project_id]
            for key, (program, queue) in list(programs.items()):
                if not eligible(program):
                    continue
                most = self._most(key)
                share = len(queue) if len(queue) < min(_SPLIT_FROM, most) else -(-len(queue) // idle)
                batch = _cut(queue, min(share, most))
                programs.move_to_end(key)
                self._projects.move_to_end(project_id)
                if not queue:
                    self._forget(project_id, key)
                if batch:
                    return program, batch
        return None

    def is_all(self, key: Key) -> bool:
        """Tell whether nothing but this program waits."""
        return all(project_id == key[0] and programs.keys() <= {key} for project_id, programs in self._projects.items())

    def take_more(self, key: Key, places: int) -> list[Item]:
        """Return another batch of this program, out of turn; nothing when none waits.

        Where nothing else waits, batches grow smaller towards the end, so that so many places finish together.
        """
        project_id = key[0]
        programs = self._projects.get(project_id)
        if programs is None or key not in programs:
            return []
        _, queue = programs[key]
        if queue[0].alone:
            return []
        share = max(_SPLIT_FROM, len(queue) // (2 * places)) if self.is_all(key) else len(queue)
        batch = _cut(queue, min(self._most(key), share))
        if not queue:
            self._forget(project_id, key)
        return batch

    def _forget(self, project_id: str, key: Key) -> None:
        del self._projects[project_id][key]
        if not self._projects[project_id]:
            del self._projects[project_id]

    def drain(self) -> list[Item]:
        """Take everything out."""
        queues = [queue for programs in self._projects.values() for _, queue in programs.values()]
        self._projects.clear()
        return [item for queue in queues for item in queue]


def _cut(queue: deque[Item], count: int) -> list[Item]:
    """Take a batch off the queue; an item that must be alone is one. What nobody waits for is thrown away."""
    batch: list[Item] = []
    size = 0
    wanted: Request | None = None
    while queue and len(batch) < count:
        item = queue[0]
        if item.request is not wanted:
            if item.request.abandoned:
                queue.popleft()
                continue
            wanted = item.request
        if batch and (item.alone or size + item.size > BATCH_BYTES):
            break
        batch.append(queue.popleft())
        size += item.size
        if item.alone:
            break
    return batch

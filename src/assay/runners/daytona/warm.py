"""The remote sandboxes that are kept warm, one per key, until nobody used them for a while."""

import asyncio
import logging
import math
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Hashable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from assay.runners.daytona.failure import ServiceError
from assay.runners.daytona.service import Remote, Service

log = logging.getLogger("assay.daytona")


@dataclass(slots=True)
class _Place:
    """`users` hold it or wait for it; `idle_since` is in monotonic seconds."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    remote: Remote | None = None
    users: int = 0
    idle_since: float = 0.0


@dataclass(frozen=True, slots=True)
class Held:
    """A sandbox in use; `is_new` when it was started for this use."""

    remote: Remote
    is_new: bool


class WarmSandboxes:
    """At most `most` sandboxes with these labels; one is deleted after `idle_s`, or when its room is needed."""

    def __init__(self, service: Service, labels: Mapping[str, str], *, idle_s: float, most: int) -> None:
        self._service = service
        self._labels = labels
        self._idle_s = idle_s
        self._most = most
        self._places: OrderedDict[Hashable, _Place] = OrderedDict()
        self._started = 0
        self._freed = asyncio.Event()
        self._deleting: set[asyncio.Task[None]] = set()
        self._closed = False
        self._sweeping = asyncio.create_task(self._sweep(), name="daytona-idle")

    @asynccontextmanager
    async def held(self, key: Hashable) -> AsyncGenerator[Held]:
        """Yield the sandbox of a key, to one user at a time. Raises ServiceError when it cannot be had."""
        place = self._places.setdefault(key, _Place())
        self._places.move_to_end(key)
        place.users += 1
        try:
            async with place.turn:
                is_new = place.remote is None
                if place.remote is None:
                    place.remote = await self._start()
                yield Held(place.remote, is_new)
        finally:
            place.users -= 1
            place.idle_since = time.monotonic()
            self._freed.set()

    def discard(self, key: Hashable, remote: Remote) -> None:
        """Delete a sandbox that can no longer be used; the next use of its key starts another."""
        place = self._places.get(key)
        if place is not None and place.remote is remote:
            self._drop(place)

    async def close(self) -> None:
        """Delete them all."""
        self._closed = True
        self._sweeping.cancel()
        with suppress(asyncio.CancelledError):
            await self._sweeping
        for place in self._places.values():
            self._drop(place)
        self._freed.set()
        if self._deleting:
            await asyncio.wait(self._deleting)

    async def _start(self) -> Remote:
        while self._started >= self._most and not self._closed and not self._make_room():
            self._freed.clear()
            await self._freed.wait()
        if self._closed:
            raise ServiceError("the server is shutting down")
        self._started += 1
        try:
            remote = await self._service.create(self._labels, math.ceil(self._idle_s / 60) + 1)
        except BaseException:
            self._started -= 1
            raise
        if self._closed:
            self._delete(remote)
            raise ServiceError("the server is shutting down")
        return remote

    def _make_room(self) -> bool:
        """Delete the sandbox that was unused for longest; tell whether there was one."""
        for key, place in self._places.items():
            if place.users == 0 and place.remote is not None:
                self._drop(place)
                del self._places[key]
                return True
        return False

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(self._idle_s / 4)
            oldest = time.monotonic() - self._idle_s
            for key, place in list(self._places.items()):
                if place.users == 0 and place.idle_since < oldest:
                    self._drop(place)
                    del self._places[key]

    def _drop(self, place: _Place) -> None:
        remote, place.remote = place.remote, None
        if remote is not None:
            self._delete(remote)

    def _delete(self, remote: Remote) -> None:
        self._started -= 1
        task = asyncio.create_task(delete_quietly(remote))
        self._deleting.add(task)
        task.add_done_callback(self._deleting.discard)


async def delete_quietly(remote: Remote) -> None:
    """Delete a sandbox; when that fails, the service does it after its idle time."""
    try:
        await remote.delete()
    except ServiceError as error:
        log.warning("a remote sandbox could not be deleted: %s", error)

"""Work off the lanes of the queue: every lane in a task of its own, its claims held while a step runs."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias

import structlog

from assay.errors import StoreUnavailableError
from assay.ports import Claim, Clock, Queue

LONGEST_BACKOFF_S = 60.0
IDLE_S = 0.05
PAUSE_S = 0.005
FAILED_S = 1.0

Step: TypeAlias = Callable[[str, list[Claim]], Coroutine[None, None, None]]
"""Does the work of some claims of a lane, and settles or releases each of them."""
Size: TypeAlias = Callable[[str], int]
"""Returns how many entries of a lane are claimed next."""

log = structlog.stdlib.get_logger("assay.lanes")


class Lanes:
    """Works off all lanes whose names begin with one of the prefixes, side by side; none waits for another."""

    def __init__(self, queue: Queue, clock: Clock, *, lease_s: float, steps: Mapping[str, tuple[Step, Size]]) -> None:
        self._queue = queue
        self._clock = clock
        self._lease_s = lease_s
        self._steps = steps
        self._running: dict[str, asyncio.Task[None]] = {}
        self.stopping = asyncio.Event()

    async def run(self) -> None:
        """Work until `stop`."""
        while not self.stopping.is_set():
            try:
                lanes = await self._queue.lanes(self._clock.now_ns())
            except Exception:
                log.exception("queue-unreadable")
                lanes = []
                await asyncio.sleep(1)
            for lane in lanes:
                found = next((self._steps[prefix] for prefix in self._steps if lane.startswith(prefix)), None)
                if found is not None and lane not in self._running:
                    task = asyncio.create_task(self._work_off(lane, *found), name=lane)
                    self._running[lane] = task
                    task.add_done_callback(lambda _, lane=lane: self._running.pop(lane, None))
            await asyncio.sleep(PAUSE_S)
            await self._queue.wait(IDLE_S)

    async def stop(self, grace_s: float) -> None:
        """Finish what runs, within the grace; what does not finish is given back to the queue."""
        self.stopping.set()
        running = list(self._running.values())
        if running:
            _, late = await asyncio.wait(running, timeout=grace_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _work_off(self, lane: str, step: Step, size: Size) -> None:
        while not self.stopping.is_set():
            try:
                claims = await self._queue.claim(lane, size(lane))
                if not claims:
                    return
                async with self._held(claims):
                    await step(lane, claims)
            except StoreUnavailableError:
                await self._pause()
                return
            except Exception:
                log.exception("lane-failed", lane=lane)
                await self._pause()
                return

    async def _pause(self) -> None:
        """Wait before a lane that failed is tried again, unless the server stops."""
        with suppress(TimeoutError):
            async with asyncio.timeout(FAILED_S):
                await self.stopping.wait()

    @asynccontextmanager
    async def _held(self, claims: Sequence[Claim]):
        """Renew the claims' leases while their step runs; give them back with a delay when it fails or is cancelled."""
        beating = asyncio.create_task(self._heartbeat(claims))
        try:
            yield
        except asyncio.CancelledError:
            await asyncio.shield(self._queue.release(claims, 0))
            raise
        except Exception:
            await self._queue.release(claims, backoff_s(claims))
            raise
        finally:
            beating.cancel()
            with suppress(asyncio.CancelledError):
                await beating

    async def _heartbeat(self, claims: Sequence[Claim]) -> None:
        while True:
            await asyncio.sleep(self._lease_s / 3)
            await self._queue.extend(claims)


def backoff_s(claims: Sequence[Claim]) -> float:
    """Return how long to wait before the next attempt: 1, 2, 4 ... at most 60 seconds."""
    return min(LONGEST_BACKOFF_S, 2.0 ** min(max(claim.attempt for claim in claims) - 1, 10))

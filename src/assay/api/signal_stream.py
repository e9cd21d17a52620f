"""What happens to signals as server-sent events, read from the store's log, so that any server can go on with any."""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager, suppress

import structlog
from fastapi import Request, Response
from fastapi.sse import format_sse_event
from starlette.types import Receive, Scope, Send

from assay.api.auth import MEMBERS, authorised
from assay.api.schemas.signals import log_entry_answer
from assay.errors import (
    ForbiddenError,
    InvalidInputError,
    NotAuthenticatedError,
    OverloadedError,
    StoreUnavailableError,
)
from assay.ports import LogEnds, Store

STREAMS = 20
HEARTBEAT_S = 15.0
STALLED_S = 30.0
LOOK_S = 0.25
AT_ONCE = 100
RECONNECT_MS = 2000
RETRY_AFTER_S = 10
LONGEST_NUMBER = 18
HEARTBEAT = b": still here\n\n"

log = structlog.stdlib.get_logger("assay.api")


def start_after(last_event_id: str | None) -> int | None:
    """Return the number to go on after, None for now. Raises InvalidInputError for what no event of ours had as id."""
    given = (last_event_id or "").strip()
    if not given:
        return None
    if not (given.isascii() and given.isdecimal() and len(given) <= LONGEST_NUMBER):
        raise InvalidInputError(
            f"Last-Event-ID is {given[:40]!r}; it must be the id of an event of this stream, a whole number.",
            field="Last-Event-ID",
        )
    return int(given)


class Streams:
    """The streams that are open, so many of a project at most; they are woken by one look at the store for them all."""

    def __init__(
        self,
        store: Store,
        *,
        most: int = STREAMS,
        heartbeat_s: float = HEARTBEAT_S,
        stalled_s: float = STALLED_S,
    ) -> None:
        self._store = store
        self._most = most
        self.heartbeat_s = heartbeat_s
        self.stalled_s = stalled_s
        self.ended = False
        self._waiting: dict[str, list[asyncio.Event]] = {}
        self._seen: dict[str, int] = {}
        self._looking: asyncio.Task[None] | None = None

    @contextmanager
    def following(self, project_id: str) -> Generator[asyncio.Event]:
        """Lend an event that is set when the project's log has grown, or the streams end. Raises OverloadedError."""
        waiting = self._waiting.setdefault(project_id, [])
        if len(waiting) >= self._most:
            raise OverloadedError(
                f"This project has {self._most} streams of signals open here, which is the most; close one.",
                retry_after_s=RETRY_AFTER_S,
            )
        grown = asyncio.Event()
        waiting.append(grown)
        if self._looking is None:
            self._looking = asyncio.create_task(self._look(), name="signal-streams")
        try:
            yield grown
        finally:
            waiting.remove(grown)
            if not waiting:
                self._waiting.pop(project_id, None)
                self._seen.pop(project_id, None)
            if not self._waiting:
                self._looking.cancel()
                self._looking = None

    def end(self) -> None:
        """End all streams, now and from now on: the server stops."""
        self.ended = True
        for waiting in self._waiting.values():
            for grown in waiting:
                grown.set()

    async def _look(self) -> None:
        while True:
            with suppress(StoreUnavailableError):
                async with self._store.snapshot() as snapshot:
                    ends = await snapshot.signal_log_ends(list(self._waiting))
                for project_id, found in ends.items():
                    if found.last != self._seen.get(project_id):
                        self._seen[project_id] = found.last
                        for grown in self._waiting.get(project_id, ()):
                            grown.set()
            await asyncio.sleep(LOOK_S)


class SignalStream(Response):
    """A response that lasts: it holds a place in the log, and nothing more, for as long as its client reads."""

    media_type = "text/event-stream"

    def __init__(self, store: Store, streams: Streams, request: Request, project_id: str, after: int | None) -> None:
        super().__init__(headers={"cache-control": "no-cache", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._store = store
        self._streams = streams
        self._request = request
        self._project_id = project_id
        self._after = after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the client leaves or stops reading, its key is revoked, or the server stops."""
        with self._streams.following(self._project_id) as grown:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            tasks = [asyncio.create_task(self._send_all(send, grown)), asyncio.create_task(_left(receive))]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            if tasks[0].done() and not tasks[0].cancelled():
                tasks[0].result()

    async def _send_all(self, send: Send, grown: asyncio.Event) -> None:
        try:
            async for chunk in self._chunks(grown):
                async with asyncio.timeout(self._streams.stalled_s):
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
        except TimeoutError:
            # Without its end the response is cut off, and what the client left unread is dropped.
            log.debug("stream-stalled")
            return
        except (StoreUnavailableError, NotAuthenticatedError, ForbiddenError):
            log.debug("stream-ended")
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _chunks(self, grown: asyncio.Event) -> AsyncGenerator[bytes]:
        """Yield events in the log's order; the first tells where the stream begins, so that any break can be mended."""
        after = await self._start()
        yield format_sse_event(id=str(after), retry=RECONNECT_MS)
        while not self._streams.ended:
            grown.clear()
            async with self._store.snapshot() as snapshot:
                ends = (await snapshot.signal_log_ends([self._project_id])).get(self._project_id, LogEnds())
                entries = await snapshot.signal_log(self._project_id, after, AT_ONCE)
            if after < ends.pruned_to or after > ends.last:
                after = ends.last
                yield format_sse_event(id=str(after), event="reset", data_str="{}")
            elif entries:
                after = entries[-1].number
                yield b"".join(
                    format_sse_event(
                        id=str(entry.number),
                        event=entry.kind,
                        data_str=log_entry_answer(entry).model_dump_json(),
                    )
                    for entry in entries
                )
            elif not await self._has_grown(grown):
                await authorised(self._request, MEMBERS)
                yield HEARTBEAT

    async def _start(self) -> int:
        if self._after is not None:
            return self._after
        async with self._store.snapshot() as snapshot:
            return (await snapshot.signal_log_ends([self._project_id])).get(self._project_id, LogEnds()).last

    async def _has_grown(self, grown: asyncio.Event) -> bool:
        if self._streams.ended:
            return True
        try:
            async with asyncio.timeout(self._streams.heartbeat_s):
                await grown.wait()
        except TimeoutError:
            return False
        return True


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue

"""The zygotes and what runs in their children: who runs next, and who is blamed when a child ends early."""

import asyncio
import math
import os
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from weakref import WeakValueDictionary

from assay.domain.outcome import Exceeded, Outcome, Unavailable
from assay.errors import SandboxUnavailableError
from assay.runners.children import frames
from assay.runners.children.answers import forger
from assay.runners.children.batches import Item, Program, Request, Waiting
from assay.runners.children.breaches import Used, out_of_cpu, out_of_memory, out_of_time, outcome_of_death
from assay.runners.children.conversation import Conversation, Round, longest_s
from assay.runners.children.zygote_process import SILENCE_S, Child, Launch, ZygoteLostError, ZygoteProcess

# So long a child is given more of its revision although others wait, since a fork costs what a hundred evaluations do;
# one that runs longer no longer keeps others from starting.
_BRISK_S = 0.1
_LEAST_CHILDREN = 32
_MOST_FAILURES = 3
_STEP_OF_NICENESS = 5
_MOST_NICENESS = 15
_INSPECTIONS = 16
_INSPECTIONS_OF_ONE = 2
_INSPECT_S = 10.0
_INSPECT_MEMORY = 512 * 1024 * 1024


class _Running:
    """A batch in a child, and the one that follows it there."""

    def __init__(self, program: Program, items: list[Item]) -> None:
        self.program = program
        self.items = items
        self.following: list[Item] = []
        self.child: Child | None = None
        self.brisk = True
        self.due_by = math.inf

    @property
    def abandoned(self) -> bool:
        """Tell whether nobody waits for any of it any more."""
        return all(item.request.abandoned for item in self.unsettled)

    @property
    def unsettled(self) -> list[Item]:
        """Return all items that have no outcome yet, or may have none."""
        return [*self.items, *self.following]


class Pool:
    """Runs batches in children of its zygotes.

    As many run side by side as there are workers. A batch that takes long gives up its place but goes on, up to
    bounds on all children, on those of one project and on those of one revision: what hangs holds up nobody else.
    No project has more children than are left free for all others, so that one of them alone gets half, two a third
    each, and who has none yet finds room.
    """

    def __init__(self, launch: Launch, zygotes: list[ZygoteProcess]) -> None:
        self._launch = launch
        self._zygotes = zygotes
        self._workers = len(zygotes)
        self._most_children = max(_LEAST_CHILDREN, 8 * self._workers)
        self._waiting = Waiting()
        self._running: dict[asyncio.Task[None], _Running] = {}
        self._dispatching = False
        self._replacing = asyncio.Lock()
        self._inspecting = asyncio.Semaphore(_INSPECTIONS)
        self._inspecting_of: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._closed = False

    @classmethod
    async def start(cls, launch: Launch, workers: int) -> "Pool":
        """Start the zygotes; `workers` 0 means one per core. Raises SandboxUnavailableError."""
        count = workers or len(os.sched_getaffinity(0))
        started = await asyncio.gather(*[ZygoteProcess.start(launch) for _ in range(count)], return_exceptions=True)
        zygotes = [zygote for zygote in started if isinstance(zygote, ZygoteProcess)]
        failures = [failure for failure in started if isinstance(failure, BaseException)]
        if failures:
            for zygote in zygotes:
                zygote.stop()
            raise failures[0]
        return cls(launch, zygotes)

    @property
    def zygote_pids(self) -> list[int]:
        """Return the process ids of the zygotes."""
        return [zygote.pid for zygote in self._zygotes]

    async def run(self, program: Program, items: Sequence[Item], request: Request) -> list[Outcome]:
        """Run these items, and return the outcomes of their whole request when all are there."""
        if self._closed:
            for item in items:
                item.settle(_shut())
        else:
            self._waiting.add(program, items)
            self._dispatch_soon()
        try:
            return await request.done
        except asyncio.CancelledError:
            request.done.cancel()
            self._end_abandoned()
            raise

    def _dispatch_soon(self) -> None:
        """Start what may start after the present turn of the loop, so that what is asked for together runs together."""
        if not self._dispatching and not self._closed:
            self._dispatching = True
            asyncio.get_running_loop().call_soon(self._dispatch)

    def _dispatch(self) -> None:
        self._dispatching = False
        if self._closed:
            return
        projects = Counter(running.program.project_id for running in self._running.values())
        programs = Counter(running.program.key for running in self._running.values())
        idle = self._workers - sum(running.brisk for running in self._running.values())

        def eligible(program: Program) -> bool:
            free = self._most_children - len(self._running)
            return projects[program.project_id] < free and programs[program.key] < max(2, self._workers)

        while idle > 0:
            taken = self._waiting.take(projects, eligible, idle)
            if taken is None:
                return
            running = _Running(*taken)
            projects[running.program.project_id] += 1
            programs[running.program.key] += 1
            idle -= 1
            task = asyncio.get_running_loop().create_task(self._run(running))
            self._running[task] = running
            task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        running = self._running.pop(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            for item in running.unsettled:
                item.settle(Unavailable(cause=f"the sandbox failed: {type(error).__name__}: {error}"))
        self._dispatch_soon()

    def _give_way(self, running: _Running) -> None:
        running.brisk = False
        self._dispatch_soon()

    async def _run(self, running: _Running) -> None:
        """Run a batch in a new child, and further ones of the same revision while nothing else waits."""
        program = running.program
        timer = asyncio.get_running_loop().call_later(_BRISK_S, self._give_way, running)
        conversation: Conversation | None = None
        try:
            zygote = await self._zygote()
            if running.abandoned:
                running.items = []
                return
            limits = program.limits
            cpu_s = limits.cpu_s if limits.cpu_s < limits.wall_s else 0.0
            child = running.child = zygote.fork(
                frames.CONTROL_RUN,
                limits.memory_bytes,
                cpu_s,
                limits.result_bytes,
                limits.log_bytes,
                self._niceness(program.project_id),
            )
            conversation = Conversation(child, program)
            conversation.ask(running.items)
            while running.items:
                begun = time.monotonic()
                running.due_by = begun + longest_s(limits, len(running.items)) + SILENCE_S
                ended = await conversation.hear(partial(self._follow, running))
                if ended.end != "answered":
                    await self._judge(running, child, conversation, ended)
                    return
                self._waiting.note_pace(program.key, (time.monotonic() - begun) / len(running.items))
                _settle(running.items, ended.outcomes)
                running.items, running.following = running.following, []
                if not running.items and self._follow(running):
                    running.items, running.following = running.following, []
                    conversation.ask(running.items)
        except (ZygoteLostError, SandboxUnavailableError) as error:
            self._try_again(running, str(error))
        finally:
            timer.cancel()
            if conversation is not None:
                await conversation.close()
            if running.child is not None:
                running.child.close()

    def _follow(self, running: _Running) -> list[Item]:
        """Return what the child is given next: more of its revision while its slice lasts."""
        running.following = self._waiting.take_more(running.program.key, self._workers) if running.brisk else []
        return running.following

    def _niceness(self, project_id: str) -> int:
        """Return how far a project's next child gives way on the CPU: further with each child that it keeps busy.

        The wall deadline does not ask whether an evaluation got any CPU, so many busy loops of one project could have
        run out the time of another's that only needs a little. The kernel weighs five steps of niceness threefold:
        all the children of a project together weigh less than two of a project that has no other.
        """
        long = sum(not other.brisk and other.program.project_id == project_id for other in self._running.values())
        return min(_STEP_OF_NICENESS * long, _MOST_NICENESS)

    @property
    def is_stuck(self) -> bool:
        """Tell whether all places are held by children that should have ended, so that nothing new can start."""
        now = time.monotonic()
        return sum(running.due_by < now for running in self._running.values()) >= self._most_children

    async def _zygote(self) -> ZygoteProcess:
        """Return the zygote with the fewest children, after replacing those that were lost."""
        if any(zygote.lost for zygote in self._zygotes):
            async with self._replacing:
                for place, zygote in enumerate(self._zygotes):
                    if zygote.lost:
                        self._zygotes[place] = await ZygoteProcess.start(self._launch)
        return min(self._zygotes, key=lambda zygote: zygote.load)

    async def _judge(self, running: _Running, child: Child, conversation: Conversation, ended: Round) -> None:
        """Settle what is certain of a batch that ended early, and queue the rest again."""
        items, limits = running.items, running.program.limits
        if ended.end == "not-begun":
            child.kill()
            ending = await child.ending()
            raise ZygoteLostError(f"the confined child ended before it ran any code (wait status {ending.status})")
        if ended.end == "forged":
            self._judge_forgery(running)
            return
        # An evaluation that ended its process is blamed only when it was the first in it: what came before may have
        # spoilt the process. Otherwise it gets one of its own.
        is_first = conversation.fresh and ended.culprit == 0
        verdict: Outcome | None
        if ended.end == "hung":
            used = await _used(child, ended)
            verdict = (out_of_cpu if ended.is_over_cpu else out_of_time)(ended.logs, limits, used)
            self._waiting.note_pace(running.program.key, limits.wall_s)
        elif ended.end == "memory":
            child.kill()
            verdict = out_of_memory(ended.logs, limits, await _used(child, ended)) if is_first else None
        else:
            ending = await child.ending()
            death = outcome_of_death(ending.status, ended.logs, limits, ended.used(ending.cpu_s, ending.peak_bytes))
            verdict = death if is_first or isinstance(death, Exceeded) else None
        _settle(items, ended.outcomes)
        rest = items[len(ended.outcomes) :]
        culprit = items[ended.culprit]
        if verdict is None:
            culprit.alone = True
        else:
            self._crashed(culprit, verdict)
            rest.remove(culprit)
        self._waiting.put_back(running.program, [*rest, *running.following])

    def _crashed(self, culprit: Item, verdict: Outcome) -> None:
        """Settle an evaluation that cost its process, and end what runs of its request when that is given up."""
        culprit.request.crashed(culprit.index, verdict)
        self._end_abandoned()

    def _end_abandoned(self) -> None:
        for running in self._running.values():
            if running.child is not None and running.abandoned:
                running.child.kill()

    def _judge_forgery(self, running: _Running) -> None:
        """Believe nothing of a batch in which something was forged: each evaluation gets a process of its own."""
        if len(running.items) == 1:
            self._crashed(running.items[0], forger())
        else:
            for item in running.items:
                item.alone = True
            self._waiting.put_back(running.program, running.items)
        self._waiting.put_back(running.program, running.following)

    def _try_again(self, running: _Running, cause: str) -> None:
        """Queue again what we could not run, unless that failed repeatedly."""
        again: list[Item] = []
        for item in running.unsettled:
            item.failures += 1
            if item.failures >= _MOST_FAILURES:
                item.settle(Unavailable(cause=cause))
            else:
                again.append(item)
        self._waiting.put_back(running.program, again)

    async def inspect(self, source: bytes, project_id: str) -> tuple[bytes, bytes] | None:
        """Return the description (JSON) and the compiled code of a source; None when its compilation did not end.

        Those of one project wait for each other, so that what is slow to compile is not in the way of others.
        Raises ZygoteLostError or SandboxUnavailableError when we could not look.
        """
        own = self._inspecting_of.setdefault(project_id, asyncio.Semaphore(_INSPECTIONS_OF_ONE))
        async with own, self._inspecting:
            if self._closed:
                raise ZygoteLostError(_shut().cause)
            child = (await self._zygote()).fork(frames.CONTROL_INSPECT, _INSPECT_MEMORY, 0.0, 0, 0)
            try:
                async with asyncio.timeout(_INSPECT_S):
                    return await _ask(child, source)
            except (TimeoutError, OSError):
                return None
            finally:
                child.close()

    async def close(self) -> None:
        """Kill everything; what waits or runs ends as Unavailable."""
        self._closed = True
        items = [*self._waiting.drain(), *[item for running in self._running.values() for item in running.unsettled]]
        for zygote in self._zygotes:
            zygote.lose()
        tasks = list(self._running)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for item in items:
            item.settle(_shut())


async def _used(child: Child, ended: Round) -> Used:
    """Return what the evaluation that was running had used when its child was killed."""
    try:
        ending = await child.ending()
    except ZygoteLostError:
        return Used(ran_s=ended.spent_s)
    return ended.used(ending.cpu_s, ending.peak_bytes)


def _settle(items: list[Item], outcomes: list[Outcome]) -> None:
    for item, outcome in zip(items, outcomes, strict=False):
        item.request.settle(item.index, outcome)


def _shut() -> Unavailable:
    return Unavailable(cause="the sandbox is shut")


async def _ask(child: Child, source: bytes) -> tuple[bytes, bytes]:
    """Have the child inspect the source. Raises OSError when it dies over it, ZygoteLostError when before."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(child.channel, frames.INSPECT.pack(len(source)) + source)
    if await loop.sock_recv(child.channel, len(frames.BEGUN)) != frames.BEGUN:
        raise ZygoteLostError("the confined child ended before it could look at the source")
    answer = b""
    head = frames.INSPECTED
    while len(answer) < head.size or len(answer) < head.size + sum(head.unpack_from(answer)):
        data = await loop.sock_recv(child.channel, 1 << 20)
        if not data:
            raise ConnectionResetError("the child ended while compiling")
        answer += data
    length, _ = head.unpack_from(answer)
    return answer[head.size : head.size + length], answer[head.size + length :]

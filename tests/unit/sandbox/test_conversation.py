"""Batches sent to one child, one behind the other, and what it may answer."""

import asyncio
import socket
import struct
import time
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest_asyncio

from assay.domain.outcome import Limits, Outcome, Returned
from assay.runners.children import frames
from assay.runners.children.batches import Item, Program, Request
from assay.runners.children.conversation import Conversation
from assay.runners.children.zygote_process import Child

LIMITS = Limits(wall_s=20)
PROGRAM = Program(
    key=("p", "r", "evaluate", b"", LIMITS), entry="evaluate", code=b"code", source=b"source", limits=LIMITS
)


class ScriptedChild:
    """The far end of a child's channel, in the hands of the test: a real socket, and no process behind it."""

    def __init__(self) -> None:
        self.channel, self._far = socket.socketpair()
        self.channel.setblocking(False)
        self._far.setblocking(False)
        self.cpu = None
        self.forked_at = time.monotonic()
        self.begun = 0
        self.killed = False

    def progress(self) -> tuple[int, float]:
        return self.begun, time.monotonic()

    def logs(self, limit: int) -> tuple[bytes, int]:
        return b"", 0

    def ask_cpu(self) -> None:
        pass

    def kill(self) -> None:
        self.killed = True

    async def receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += await asyncio.get_running_loop().sock_recv(self._far, size - len(data))
        return data

    async def take_batch(self) -> tuple[bytes, int]:
        """Read the next batch off the channel; return its id and how many evaluations it has."""
        head = await self.receive(frames.REQUEST.size)
        batch_id, count, width, *lengths = frames.REQUEST.unpack(head)
        await self.receive(sum(lengths))
        sizes = struct.unpack(f"<{count * width}I", await self.receive(4 * count * width))
        await self.receive(sum(sizes))
        return batch_id, count

    async def say(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self._far, data)

    def hang_up(self) -> None:
        self._far.close()

    def close(self) -> None:
        self.channel.close()
        self._far.close()


@pytest_asyncio.fixture
async def child() -> AsyncIterator[ScriptedChild]:
    made = ScriptedChild()
    yield made
    made.close()


def items(count: int) -> list[Item]:
    request = Request(count)
    return [Item(request, index, (b"1", b"2"), 2) for index in range(count)]


def answers(batch_id: bytes, values: list[int], first: int = 0) -> bytes:
    return b"".join(
        frames.RESULT.pack(batch_id, item, 0, 0.1, 0, len(str(value)), 0) + str(value).encode()
        for item, value in enumerate(values, first)
    )


def values(outcomes: list[Outcome]) -> list[Any]:
    return [outcome.value for outcome in outcomes if isinstance(outcome, Returned)]


def nothing() -> list[Item]:
    return []


async def test_the_next_batch_is_sent_while_this_one_is_being_answered(child: ScriptedChild) -> None:
    conversation = Conversation(cast("Child", child), PROGRAM)
    conversation.ask(items(2))
    hearing = asyncio.ensure_future(conversation.hear(lambda: items(3)))
    first, _ = await child.take_batch()
    child.begun = 2
    await child.say(frames.BEGUN + answers(first, [10]))
    second, count = await child.take_batch()
    assert count == 3
    child.begun = 5
    await child.say(answers(first, [11], first=1) + first + answers(second, [20, 21, 22]) + second)
    assert values((await hearing).outcomes) == [10, 11]
    following = await conversation.hear(nothing)
    assert (following.end, values(following.outcomes)) == ("answered", [20, 21, 22])


async def test_words_after_the_last_batch_are_a_forgery(child: ScriptedChild) -> None:
    conversation = Conversation(cast("Child", child), PROGRAM)
    conversation.ask(items(2))
    hearing = asyncio.ensure_future(conversation.hear(nothing))
    batch_id, _ = await child.take_batch()
    child.begun = 2
    await child.say(frames.BEGUN + answers(batch_id, [1, 2]) + batch_id + b"x")
    assert (await hearing).end == "forged"


async def test_answers_to_a_batch_under_the_id_of_the_one_before_are_a_forgery(child: ScriptedChild) -> None:
    conversation = Conversation(cast("Child", child), PROGRAM)
    conversation.ask(items(1))
    conversation.ask(items(1))
    hearing = asyncio.ensure_future(conversation.hear(nothing))
    first, _ = await child.take_batch()
    child.begun = 2
    await child.say(frames.BEGUN + answers(first, [1]) + first + answers(first, [1]) + first)
    assert (await hearing).end == "answered"
    assert (await conversation.hear(nothing)).end == "forged"


async def test_answers_before_they_were_begun_are_a_forgery(child: ScriptedChild) -> None:
    conversation = Conversation(cast("Child", child), PROGRAM)
    conversation.ask(items(2))
    hearing = asyncio.ensure_future(conversation.hear(nothing))
    batch_id, _ = await child.take_batch()
    child.begun = 1
    await child.say(frames.BEGUN + answers(batch_id, [1, 2]) + batch_id)
    assert (await hearing).end == "forged"


async def test_a_child_that_ends_in_the_second_batch_is_blamed_for_an_item_of_it(child: ScriptedChild) -> None:
    conversation = Conversation(cast("Child", child), PROGRAM)
    conversation.ask(items(2))
    conversation.ask(items(3))
    hearing = asyncio.ensure_future(conversation.hear(nothing))
    first, _ = await child.take_batch()
    second, _ = await child.take_batch()
    child.begun = 4
    await child.say(frames.BEGUN + answers(first, [1, 2]) + first + answers(second, [3]))
    child.hang_up()
    assert values((await hearing).outcomes) == [1, 2]
    ended = await conversation.hear(nothing)
    assert (ended.end, ended.culprit, values(ended.outcomes)) == ("closed", 1, [3])
    assert not conversation.fresh

"""Where bodies are decoded and big answers made: beside the event loop, so that nobody else waits for them."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

BIG_BYTES = 64 * 1024
AT_ONCE = 2
_threads = ThreadPoolExecutor(AT_ONCE, "decoding")
Decoded = TypeVar("Decoded")


async def off_the_loop(body: bytes, decode: Callable[[], Decoded]) -> Decoded:
    """Return what `decode` makes of the body; when it would take long, in one of two threads of its own.

    More of them would only take the interpreter from the event loop more often, and others wait for threads too.
    """
    return decode() if len(body) < BIG_BYTES else await in_a_thread(decode)


async def in_a_thread(make: Callable[[], Decoded]) -> Decoded:
    """Return what `make` makes, in one of the threads for bodies."""
    return await asyncio.get_running_loop().run_in_executor(_threads, make)

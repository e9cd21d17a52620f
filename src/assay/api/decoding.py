"""Where bodies are decoded: small ones at once, big ones beside the event loop, so that nobody else waits for them."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

BIG_BYTES = 64 * 1024
Decoded = TypeVar("Decoded")


async def off_the_loop(body: bytes, decode: Callable[[], Decoded]) -> Decoded:
    """Return what `decode` makes of the body; in a thread when it would take long."""
    if len(body) < BIG_BYTES:
        return decode()
    return await asyncio.to_thread(decode)

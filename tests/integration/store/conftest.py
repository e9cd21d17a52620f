from collections.abc import AsyncGenerator

import pytest

from assay.ports import Queue, Store
from assay.store.opening import open_store


@pytest.fixture
async def store_and_queue(database_url: str) -> AsyncGenerator[tuple[Store, Queue]]:
    store, queue = await open_store(database_url)
    yield store, queue
    await queue.close()
    await store.close()


@pytest.fixture
def store(store_and_queue: tuple[Store, Queue]) -> Store:
    return store_and_queue[0]


@pytest.fixture
def queue(store_and_queue: tuple[Store, Queue]) -> Queue:
    return store_and_queue[1]

from collections.abc import AsyncGenerator

import pytest

from assay.ports import Queue, Store
from assay.store.opening import open_store


@pytest.fixture
async def opened(database_url: str) -> AsyncGenerator[tuple[Store, Queue]]:
    store, queue = await open_store(database_url)
    yield store, queue
    await queue.close()
    await store.close()


@pytest.fixture
def store(opened: tuple[Store, Queue]) -> Store:
    return opened[0]


@pytest.fixture
def queue(opened: tuple[Store, Queue]) -> Queue:
    return opened[1]

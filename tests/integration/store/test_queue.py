"""What every queue must do; both adapters are held to it."""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import psycopg
import pytest

from assay.ports import Claim, Queue, Store, Work
from assay.store.opening import open_store

LANE = "check:evl_1"
SHORT_LEASE_S = 1.5
HOUR_NS = 3_600 * 10**9
HOLDER = """
import asyncio, sys
from assay.store.opening import open_store

async def hold():
    _, queue = await open_store(sys.argv[1], lease_s=float(sys.argv[2]))
    claims = await queue.claim(sys.argv[3], 10)
    print(len(claims), flush=True)
    while True:
        await queue.extend(claims)
        await asyncio.sleep(0.1)

asyncio.run(hold())
"""


def work(*payloads: str, lane: str = LANE, due_at_ns: int | None = None) -> list[Work]:
    due = time.time_ns() if due_at_ns is None else due_at_ns
    return [Work(lane=lane, payload=payload.encode(), due_at_ns=due) for payload in payloads]


async def enqueue(store: Store, entries: list[Work]) -> None:
    async with store.transaction() as transaction:
        await transaction.enqueue(entries)


async def settle(store: Store, claims: list[Claim]) -> None:
    async with store.transaction() as transaction:
        await transaction.settle(claims)


@asynccontextmanager
async def another_server(url: str, lease_s: float = 30.0) -> AsyncGenerator[tuple[Store, Queue]]:
    store, queue = await open_store(url, lease_s=lease_s)
    try:
        yield store, queue
    finally:
        await queue.close()
        await store.close()


async def claimed_within(queue: Queue, timeout_s: float = 20.0) -> list[Claim]:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if LANE in await queue.lanes(time.time_ns()) and (claims := await queue.claim(LANE, 10)):
            return claims
        await asyncio.sleep(0.05)
    raise AssertionError(f"nothing could be claimed within {timeout_s} s")


def payloads(claims: list[Claim]) -> list[str]:
    return [claim.payload.decode() for claim in claims]


async def test_entries_are_claimed_in_batches_oldest_first(store: Store, queue: Queue) -> None:
    await enqueue(store, work("a", "b", "c"))
    first = await queue.claim(LANE, 2)
    second = await queue.claim(LANE, 2)
    assert (payloads(first), payloads(second)) == (["a", "b"], ["c"])
    assert {(claim.lane, claim.attempt) for claim in first + second} == {(LANE, 1)}
    assert await queue.claim(LANE, 2) == []


async def test_a_payload_is_bytes_of_any_kind(store: Store, queue: Queue) -> None:
    payload = bytes(range(256))
    await enqueue(store, [Work(lane=LANE, payload=payload, due_at_ns=0)])
    (claim,) = await queue.claim(LANE, 1)
    assert claim.payload == payload


async def test_an_entry_is_not_there_before_its_transaction_commits(store: Store, queue: Queue) -> None:
    async with store.transaction() as transaction:
        await transaction.enqueue(work("a"))
        assert await queue.lanes(time.time_ns()) == []
        assert await queue.depth() == 0
    assert await queue.lanes(time.time_ns()) == [LANE]


async def test_entries_go_with_a_transaction_that_fails(store: Store, queue: Queue) -> None:
    async def fail() -> None:
        async with store.transaction() as transaction:
            await transaction.enqueue(work("a"))
            raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        await fail()
    assert await queue.depth() == 0


async def test_an_entry_waits_for_its_due_time(store: Store, queue: Queue) -> None:
    await enqueue(store, work("later", due_at_ns=time.time_ns() + HOUR_NS))
    await enqueue(store, work("soon", due_at_ns=time.time_ns() + HOUR_NS // 18_000))
    assert payloads(await claimed_within(queue)) == ["soon"]
    assert await queue.claim(LANE, 10) == []
    assert await queue.lanes(time.time_ns()) == []
    assert await queue.depth() == 2


async def test_a_full_lane_takes_nothing_from_another(store: Store, queue: Queue) -> None:
    await enqueue(store, work(*(f"{number}" for number in range(2_000)), lane="check:slow"))
    await enqueue(store, work("a"))
    assert sorted(await queue.lanes(time.time_ns())) == [LANE, "check:slow"]
    assert len(await queue.claim("check:slow", 5_000)) == 2_000
    assert await queue.lanes(time.time_ns()) == [LANE]
    assert payloads(await queue.claim(LANE, 10)) == ["a"]


async def test_every_lane_with_something_due_is_listed_once(store: Store, queue: Queue) -> None:
    lanes = {f"check:{number} grüß" for number in range(60)}
    for _ in range(2):
        await enqueue(store, [entry for lane in lanes for entry in work("a", lane=lane)])
    await enqueue(store, work("a", lane="later", due_at_ns=time.time_ns() + HOUR_NS))
    listed = await queue.lanes(time.time_ns())
    assert (set(listed), len(listed)) == (lanes, len(lanes))


async def test_a_settled_entry_is_gone(store: Store, queue: Queue) -> None:
    await enqueue(store, work("a", "b"))
    claims = await queue.claim(LANE, 1)
    assert await queue.depth() == 2
    await settle(store, claims)
    assert await queue.depth() == 1
    assert payloads(await queue.claim(LANE, 10)) == ["b"]


async def test_the_depth_of_some_lanes_counts_what_waits_and_runs_there(store: Store, queue: Queue) -> None:
    await enqueue(store, work("a", "b", lane="check:1 grüß"))
    await enqueue(store, work("c", "d", "e", lane="settle:p", due_at_ns=time.time_ns() + HOUR_NS))
    await enqueue(store, work("f", lane="settle:p2"))
    await queue.claim("check:1 grüß", 1)
    assert await queue.depth_of(["check:1 grüß"]) == 2
    assert await queue.depth_of(["settle:p", "check:1 grüß", "none"]) == 5
    assert await queue.depth_of([f"lane {number}" for number in range(40_000)]) == 0
    assert await queue.depth_of([]) == 0


async def test_settling_goes_with_a_transaction_that_fails(store: Store, queue: Queue) -> None:
    await enqueue(store, work("a"))
    claims = await queue.claim(LANE, 1)

    async def fail() -> None:
        async with store.transaction() as transaction:
            await transaction.settle(claims)
            raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        await fail()
    assert await queue.depth() == 1
    await queue.release(claims, 0)
    assert payloads(await claimed_within(queue)) == ["a"]


async def test_settling_twice_is_harmless(store: Store, queue: Queue) -> None:
    await enqueue(store, work("a", "b"))
    claims = await queue.claim(LANE, 1)
    await settle(store, claims)
    await settle(store, claims)
    assert await queue.depth() == 1


async def test_a_released_entry_comes_back_after_its_delay_with_the_next_attempt(store: Store, queue: Queue) -> None:
    await enqueue(store, work("now", "later"))
    now, later = await queue.claim(LANE, 2)
    await queue.release([later], 3_600)
    await queue.release([now], 0.2)
    (again,) = await claimed_within(queue)
    assert (again.payload, again.attempt) == (b"now", 2)
    assert await queue.claim(LANE, 10) == []
    assert await queue.depth() == 2


async def test_no_claims_are_nothing_to_do(store: Store, queue: Queue) -> None:
    await queue.extend([])
    await queue.release([], 1)
    await settle(store, [])
    await enqueue(store, [])
    assert await queue.depth() == 0


async def test_a_lease_that_is_renewed_is_kept(database_url: str) -> None:
    async with (
        another_server(database_url, SHORT_LEASE_S) as (store, ours),
        another_server(database_url, SHORT_LEASE_S) as (_, theirs),
    ):
        await enqueue(store, work("a"))
        claims = await ours.claim(LANE, 1)
        end = time.monotonic() + 1.5 * SHORT_LEASE_S
        while time.monotonic() < end:
            await ours.extend(claims)
            assert await theirs.claim(LANE, 1) == []
            assert await theirs.lanes(time.time_ns()) == []
            await asyncio.sleep(0.1)


async def test_an_expired_lease_is_taken_over_and_its_former_holder_changes_nothing(database_url: str) -> None:
    async with (
        another_server(database_url, SHORT_LEASE_S) as (store, ours),
        another_server(database_url, SHORT_LEASE_S) as (_, theirs),
    ):
        await enqueue(store, work("a"))
        lost = await ours.claim(LANE, 1)
        taken = await claimed_within(theirs)
        assert payloads(taken) == ["a"]
        await ours.release(lost, 0)
        assert await ours.claim(LANE, 1) == []
        await ours.release(lost, 3_600)
        await theirs.release(taken, 0)
        assert payloads(await claimed_within(ours)) == ["a"]


async def test_what_a_killed_process_held_is_taken_over(database_url: str) -> None:
    async with another_server(database_url, SHORT_LEASE_S) as (store, queue):
        await enqueue(store, work("a", "b"))
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", HOLDER, database_url, f"{SHORT_LEASE_S}", LANE, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        assert await process.stdout.readline() == b"2\n"
        assert await queue.claim(LANE, 10) == []
        process.kill()
        await process.wait()
        assert payloads(await claimed_within(queue)) == ["a", "b"]


async def test_workers_of_two_servers_never_get_the_same_entry(database_url: str) -> None:
    async with another_server(database_url) as (store, ours), another_server(database_url) as (_, theirs):
        await enqueue(store, work(*(f"{number}" for number in range(300))))
        got: list[str] = []

        async def drain(queue: Queue) -> None:
            while claims := await queue.claim(LANE, 7):
                got.extend(payloads(claims))

        await asyncio.gather(*(drain(queue) for queue in (ours, theirs) for _ in range(4)))
        # A batch that others have locked is skipped, so a worker may stop while another still claims.
        await drain(ours)
    assert sorted(got, key=int) == [f"{number}" for number in range(300)]


@pytest.mark.parametrize("wake", ["enqueue", "release"])
async def test_waiting_ends_when_there_is_something_to_claim(store: Store, queue: Queue, wake: str) -> None:
    await enqueue(store, work("held"))
    held = await queue.claim(LANE, 1)
    await quiet(queue)
    waiting = asyncio.create_task(queue.wait(60))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await (enqueue(store, work("a")) if wake == "enqueue" else queue.release(held, 0))
    await asyncio.wait_for(waiting, 20)


async def test_waiting_ends_after_the_timeout(queue: Queue) -> None:
    await quiet(queue)
    await asyncio.wait_for(queue.wait(0.01), 20)


async def test_entries_of_another_server_end_the_waiting_on_postgresql(postgres_url: str) -> None:
    async with another_server(postgres_url) as (store, _), another_server(postgres_url) as (_, theirs):
        await quiet(theirs)
        waiting = asyncio.create_task(theirs.wait(60))
        await enqueue(store, work("a"))
        await asyncio.wait_for(waiting, 20)


async def test_pgqueuers_log_of_what_is_done_is_not_kept(postgres_url: str) -> None:
    async with another_server(postgres_url) as (store, queue):
        await enqueue(store, work("a", "b"))
        await settle(store, await queue.claim(LANE, 1))
    with psycopg.connect(postgres_url) as connection:
        logged = connection.execute("SELECT count(DISTINCT job_id) FROM pgqueuer_log").fetchall()
    assert logged == [(1,)]


async def quiet(queue: Queue, quiet_s: float = 0.3) -> None:
    """Wait until nothing has woken a waiter for a while."""
    woken = True
    while woken:
        started = time.monotonic()
        await queue.wait(quiet_s)
        woken = time.monotonic() - started < 0.9 * quiet_s

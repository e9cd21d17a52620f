import asyncio
from dataclasses import replace

import pytest

from assay.domain.check import Check
from assay.domain.failure_window import FailureWindow
from assay.domain.signal import Signal, fold
from assay.ports import Page, SignalFilter, Store
from assay.recording.record import record
from assay.testing import NOW_NS
from support.records import PROJECT, a_check, a_signal, add_evaluators, an_evaluator


@pytest.fixture(autouse=True)
async def evaluators(store: Store) -> None:
    await add_evaluators(store, an_evaluator(), an_evaluator("evl_2"))


async def put(store: Store, *signals: Signal) -> None:
    async with store.transaction() as transaction:
        await transaction.put_signals(signals, [])


async def listed(store: Store, which: SignalFilter) -> list[Signal]:
    async with store.snapshot() as snapshot:
        return (await snapshot.list_signals(which, Page()))[0]


@pytest.mark.parametrize("agent_id", [None, "agt_1"])
async def test_a_signal_comes_back_as_it_was_put(store: Store, agent_id: str | None) -> None:
    signal = a_signal(a_check(failed=True, agent_id=agent_id))
    await put(store, signal)
    async with store.snapshot() as snapshot:
        assert await snapshot.signal(PROJECT, signal.id) == signal
        assert await snapshot.signal("other", signal.id) is None
    async with store.transaction() as transaction:
        assert await transaction.signal_for_update(PROJECT, "evl_1", agent_id) == signal
        assert await transaction.signal_for_update(PROJECT, "evl_2", agent_id) is None


async def test_a_signal_put_again_replaces_itself(store: Store) -> None:
    signal = a_signal(a_check(failed=True))
    resolved = replace(signal, status="resolved", resolution="fixed", last_seen_ns=NOW_NS + 1)
    await put(store, signal)
    await put(store, resolved)
    assert await listed(store, SignalFilter(project_id=PROJECT)) == [resolved]
    assert await listed(store, SignalFilter(project_id=PROJECT, status="open")) == []


async def test_signals_are_filtered_and_the_one_seen_last_comes_first(store: Store) -> None:
    early = a_signal(a_check(agent_id="agt_1"), last_seen_ns=1)
    late = a_signal(a_check(agent_id="agt_2"), last_seen_ns=3, status="acknowledged")
    other = a_signal(a_check(evaluator_id="evl_2"), last_seen_ns=2)
    await put(store, early, late, other)
    assert await listed(store, SignalFilter(project_id=PROJECT)) == [late, other, early]
    assert await listed(store, SignalFilter(project_id=PROJECT, status="acknowledged")) == [late]
    assert await listed(store, SignalFilter(project_id=PROJECT, evaluator_id="evl_2")) == [other]
    assert await listed(store, SignalFilter(project_id=PROJECT, agent_id="agt_1")) == [early]
    async with store.snapshot() as snapshot:
        first, cursor = await snapshot.list_signals(SignalFilter(project_id=PROJECT), Page(limit=2))
        rest, end = await snapshot.list_signals(SignalFilter(project_id=PROJECT), Page(limit=2, cursor=cursor))
    assert (first, rest, end) == ([late, other], [early], None)


async def test_sixteen_writers_of_one_signal_count_every_failure_once(store: Store) -> None:
    async def fail(writer: int) -> None:
        for step in range(4):
            check = a_check(f"t{writer}-{step}", failed=True, agent_id="agt_1", recorded_at_ns=NOW_NS + step)
            async with store.transaction() as transaction:
                existing = await transaction.signal_for_update(PROJECT, "evl_1", "agt_1")
                decision, _ = fold(existing, FailureWindow(), check, evaluator=an_evaluator(), now_ns=NOW_NS)
                assert decision.signal is not None
                await transaction.put_signals([decision.signal], [])

    await asyncio.gather(*(fail(writer) for writer in range(16)))
    (signal,) = await listed(store, SignalFilter(project_id=PROJECT))
    assert (signal.count, len(signal.evidence), signal.last_seen_ns) == (64, 10, NOW_NS + 3)


async def test_recordings_of_the_same_checks_at_once_count_each_failure_once(store: Store) -> None:
    checks: list[Check] = [a_check(f"t{number}", failed=True, agent_id=f"agt_{number % 3}") for number in range(30)] + [
        a_check(f"t{number}", failed=True, evaluator_id="evl_2", revision_id="evl_2_1", agent_id=f"agt_{number % 3}")
        for number in range(30)
    ]

    async def write(writer: int) -> None:
        async with store.transaction() as transaction:
            await record(transaction, checks if writer % 2 else checks[::-1], now_ns=NOW_NS)

    await asyncio.gather(*(write(writer) for writer in range(16)))
    assert [signal.count for signal in await listed(store, SignalFilter(project_id=PROJECT))] == [10] * 6

import asyncio

import pytest
from sqlalchemy.exc import IntegrityError

from assay.domain.trace import agent_id_of
from assay.ports import Store
from assay.testing import NOW_NS, a_span
from support.records import PROJECT, a_key, accept, agents_of, named

SECOND_NS = 1_000_000_000


async def test_an_agent_is_known_from_the_first_span_that_names_it(store: Store) -> None:
    await accept(store, named(a_span("a"), "shop"), named(a_span("b"), "desk", "lang"), a_span("c"))
    desk, shop = await agents_of(store)
    assert (desk.id, desk.name, desk.framework) == (agent_id_of(PROJECT, "desk"), "desk", "lang")
    assert (shop.first_seen_ns, shop.last_seen_ns, shop.framework) == (NOW_NS, NOW_NS, None)
    assert await agents_of(store, "other") == []


async def test_last_seen_follows_and_first_seen_stays(store: Store) -> None:
    await accept(store, named(a_span("a"), "desk", "lang"))
    await accept(store, named(a_span("b"), "desk"), now_ns=NOW_NS + 5 * SECOND_NS)
    await accept(store, named(a_span("c"), "desk", "graph"), now_ns=NOW_NS + SECOND_NS)
    (agent,) = await agents_of(store)
    assert (agent.first_seen_ns, agent.last_seen_ns) == (NOW_NS, NOW_NS + 5 * SECOND_NS)
    assert agent.framework == "graph"


async def test_writers_that_name_the_same_agents_do_not_block_each_other(store: Store) -> None:
    names = ["a", "b", "c"]
    await asyncio.gather(
        *(
            accept(
                store,
                *(named(a_span(name, trace_id=f"t{n}"), name) for name in (names if n % 2 else names[::-1])),
                now_ns=NOW_NS + n * 2 * SECOND_NS,
            )
            for n in range(12)
        )
    )
    assert [agent.name for agent in await agents_of(store)] == names


async def test_unknown_agents_are_told_apart(store: Store) -> None:
    await accept(store, named(a_span("a"), "desk"))
    async with store.snapshot() as snapshot:
        desk = agent_id_of(PROJECT, "desk")
        assert await snapshot.unknown_agents(PROJECT, [desk, "agt_no"]) == {"agt_no"}
        assert await snapshot.unknown_agents("other", [desk]) == {desk}
        assert await snapshot.unknown_agents(PROJECT, []) == set()


async def test_a_key_is_found_by_its_digest_alone(store: Store) -> None:
    async with store.transaction() as transaction:
        await transaction.add_key(a_key("d2", 2))
        await transaction.add_key(a_key("d1", 1))
    async with store.snapshot() as snapshot:
        assert await snapshot.key_by_digest("d1") == a_key("d1", 1)
        assert await snapshot.key_by_digest("d3") is None
        assert await snapshot.list_keys() == [a_key("d1", 1), a_key("d2", 2)]


async def test_two_keys_never_share_a_digest(store: Store) -> None:
    async with store.transaction() as transaction:
        await transaction.add_key(a_key("d"))
    with pytest.raises(IntegrityError):
        async with store.transaction() as transaction:
            await transaction.add_key(a_key("d"))

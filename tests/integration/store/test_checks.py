import asyncio

import pytest

from assay.domain.check import Check, Reading
from assay.ports import CheckFilter, Page, Store
from support.records import PROJECT, a_check, add_evaluators, an_error, an_evaluator

ALL = CheckFilter(project_id=PROJECT)


@pytest.fixture(autouse=True)
async def evaluators(store: Store) -> None:
    await add_evaluators(store, an_evaluator(), an_evaluator("evl_2"))


async def add(store: Store, *checks: Check) -> set[str]:
    async with store.transaction() as transaction:
        return await transaction.add_checks(checks)


async def ids(store: Store, which: CheckFilter) -> list[str | None]:
    async with store.snapshot() as snapshot:
        checks, _ = await snapshot.checks(which, Page())
        assert await snapshot.count_checks(which) == len(checks)
    return [check.trace_id for check in checks]


@pytest.mark.parametrize(
    "check",
    [
        a_check(),
        a_check(failed=True, agent_id="agt_1"),
        a_check(reading=an_error("script-raised", "no \0 way")),
        a_check(reading=Reading(status="skipped")),
    ],
    ids=["passed", "failed", "errored", "skipped"],
)
async def test_a_check_comes_back_as_it_was_written(store: Store, check: Check) -> None:
    assert await add(store, check) == {check.id}
    async with store.snapshot() as snapshot:
        (found,), _ = await snapshot.checks(ALL, Page())
    assert found == check


async def test_half_of_a_character_in_a_message_is_replaced(store: Store) -> None:
    await add(store, a_check(reading=an_error("script-raised", "no \ud800 way"), logs="\udfff"))
    async with store.snapshot() as snapshot:
        (found,), _ = await snapshot.checks(ALL, Page())
    assert found.reading.error is not None
    assert (found.reading.error.message, found.logs) == ("no \ufffd way", "\ufffd")


async def test_a_check_is_written_once_whatever_comes_later(store: Store) -> None:
    first = a_check()
    assert await add(store, first, a_check("t2")) == {first.id, a_check("t2").id}
    assert await add(store, a_check(logs="again"), a_check("t3")) == {a_check("t3").id}
    async with store.snapshot() as snapshot:
        assert await snapshot.existing_checks([first.id, "chk_unknown"]) == {first.id}
        (found,), _ = await snapshot.checks(CheckFilter(project_id=PROJECT, trace_id="t1"), Page())
    assert found == first


async def test_the_same_check_twice_in_one_batch_is_written_once(store: Store) -> None:
    assert await add(store, a_check(), a_check()) == {a_check().id}
    assert await ids(store, ALL) == ["t1"]


async def test_writers_of_the_same_checks_share_them_out(store: Store) -> None:
    checks = [a_check(f"t{number}") for number in range(50)]
    written = await asyncio.gather(*(add(store, *(checks if n % 2 else checks[::-1])) for n in range(8)))
    assert sorted(check_id for some in written for check_id in some) == sorted(check.id for check in checks)


async def test_a_trace_revision_has_a_check_of_its_own(store: Store) -> None:
    await add(store, a_check(), a_check(trace_revision=2))
    assert await ids(store, ALL) == ["t1", "t1"]


async def test_a_large_batch_is_written_whole(store: Store) -> None:
    checks = [a_check(f"t{number}") for number in range(3_000)]
    assert len(await add(store, *checks)) == 3_000
    async with store.snapshot() as snapshot:
        assert len(await snapshot.existing_checks([check.id for check in checks])) == 3_000


async def test_checks_are_filtered_by_everything_a_listing_offers(store: Store) -> None:
    await add(
        store,
        a_check("t1", agent_id="agt_1", recorded_at_ns=1),
        a_check("t2", agent_id="agt_2", recorded_at_ns=2, reading=an_error("timeout")),
        a_check("t3", evaluator_id="evl_2", revision_id="evl_2_1", recorded_at_ns=3),
    )
    assert await ids(store, ALL) == ["t3", "t2", "t1"]
    assert await ids(store, CheckFilter(project_id="other")) == []
    assert await ids(store, CheckFilter(project_id=PROJECT, evaluator_id="evl_1")) == ["t2", "t1"]
    assert await ids(store, CheckFilter(project_id=PROJECT, trace_id="t3")) == ["t3"]
    assert await ids(store, CheckFilter(project_id=PROJECT, agent_id="agt_1")) == ["t1"]
    assert await ids(store, CheckFilter(project_id=PROJECT, statuses=("errored", "skipped"))) == ["t2"]
    assert await ids(store, CheckFilter(project_id=PROJECT, since_ns=2)) == ["t3", "t2"]


async def test_pages_of_checks_recorded_at_one_moment_have_no_gaps(store: Store) -> None:
    checks = [a_check(f"t{number}") for number in range(7)]
    await add(store, *checks)
    seen: list[str] = []
    cursor = None
    async with store.snapshot() as snapshot:
        for _ in range(4):
            found, cursor = await snapshot.checks(ALL, Page(limit=2, cursor=cursor))
            seen += [check.id for check in found]
    assert cursor is None
    assert seen == sorted((check.id for check in checks), reverse=True)

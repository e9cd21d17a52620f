from dataclasses import replace

import pytest

from assay.domain.credentials import SealedCredentials
from assay.domain.evaluator import Evaluator, Revision
from assay.errors import ConflictError, NotFoundError
from assay.ports import CheckFilter, Page, Store
from assay.store.documents import decode_revision
from support.records import PROJECT, a_check, add_evaluators, an_evaluator


async def find(store: Store, evaluator_id: str = "evl_1", project_id: str = PROJECT) -> Evaluator | None:
    async with store.snapshot() as snapshot:
        return await snapshot.evaluator(project_id, evaluator_id)


def next_revision(evaluator: Evaluator, **changes: object) -> Revision:
    number = evaluator.revision.number + 1
    return replace(evaluator.revision, id=f"{evaluator.id}_{number}", number=number, **changes)


async def test_an_evaluator_comes_back_as_it_was_added(store: Store) -> None:
    evaluator = an_evaluator(severity="critical", sample_rate=0.25, scope_mode="selected", agent_ids=("agt_2", "agt_1"))
    await add_evaluators(store, evaluator)
    assert await find(store) == evaluator
    assert await find(store, project_id="other") is None


async def test_an_external_evaluator_comes_back_as_it_was_added(store: Store) -> None:
    revision = Revision(
        id="r", evaluator_id="evl_1", project_id=PROJECT, number=1, created_at_ns=1, evaluator_name="hook",
        kind="external", url="https://example.com/check", raise_when=False, threshold=0,
    )  # fmt: skip
    await add_evaluators(store, an_evaluator(revision=revision))
    found = await find(store)
    assert found is not None
    assert found.revision == revision


async def test_budgets_come_back_as_they_were_added(store: Store) -> None:
    evaluator = an_evaluator()
    revision = replace(evaluator.revision, wall_s=0.5, cpu_s=0.25, memory_bytes=2**26)
    await add_evaluators(store, replace(evaluator, revision=revision))
    found = await find(store)
    assert found is not None
    assert found.revision == revision


def test_a_revision_stored_before_there_were_budgets_has_none() -> None:
    revision = decode_revision(
        b'{"id":"r","evaluator_id":"e","project_id":"p","number":1,"created_at_ns":1,"evaluator_name":"n",'
        b'"kind":"code","language":"python","interface":"evaluate","source":"s","threshold":0.5,'
        b'"correct_answer_key":"correct_answer","url":null,"raise_when":true}'
    )
    assert (revision.source, revision.wall_s, revision.cpu_s, revision.memory_bytes) == ("s", None, None, None)


async def test_settings_change_without_a_new_revision(store: Store) -> None:
    evaluator = an_evaluator()
    await add_evaluators(store, evaluator)
    changed = replace(evaluator, name="renamed", enabled=False, sample_rate=0)
    async with store.transaction() as transaction:
        await transaction.update_evaluator(changed)
        assert await transaction.revisions(PROJECT, "evl_1") == [evaluator.revision]
    assert await find(store) == changed


async def test_a_new_revision_becomes_the_current_one_and_the_old_stays_readable(store: Store) -> None:
    evaluator = an_evaluator()
    await add_evaluators(store, evaluator)
    changed = replace(evaluator, revision=next_revision(evaluator, threshold=0.9))
    async with store.transaction() as transaction:
        await transaction.update_evaluator(changed)
    assert await find(store) == changed
    async with store.snapshot() as snapshot:
        assert await snapshot.revisions(PROJECT, "evl_1") == [changed.revision, evaluator.revision]
        assert await snapshot.revisions("other", "evl_1") == []
        assert await snapshot.revisions_by_id(["evl_1_1", "gone"]) == {"evl_1_1": evaluator.revision}


async def test_two_changes_made_from_the_same_revision_conflict(store: Store) -> None:
    evaluator = an_evaluator()
    await add_evaluators(store, evaluator)
    async with store.transaction() as transaction:
        await transaction.update_evaluator(replace(evaluator, revision=next_revision(evaluator)))
    mine = replace(next_revision(evaluator, source="other"), id="mine")
    with pytest.raises(ConflictError):
        async with store.transaction() as transaction:
            await transaction.update_evaluator(replace(evaluator, name="lost", revision=mine))
    found = await find(store)
    assert found is not None
    assert (found.name, found.revision.id) == ("check", "evl_1_2")


async def test_evaluators_are_listed_newest_first(store: Store) -> None:
    await add_evaluators(store, *(an_evaluator(f"evl_{n}", created_at_ns=n) for n in (1, 3, 2)))
    await add_evaluators(store, an_evaluator("elsewhere", project_id="other"))
    async with store.snapshot() as snapshot:
        assert [found.id for found in await snapshot.list_evaluators(PROJECT)] == ["evl_3", "evl_2", "evl_1"]


async def test_a_deleted_evaluator_is_gone_but_its_checks_stay(store: Store) -> None:
    evaluator = an_evaluator()
    await add_evaluators(store, evaluator)
    async with store.transaction() as transaction:
        await transaction.add_checks([a_check()])
        assert await transaction.delete_evaluator(PROJECT, "evl_1")
        assert not await transaction.delete_evaluator(PROJECT, "evl_1")
    assert await find(store) is None
    async with store.snapshot() as snapshot:
        assert await snapshot.list_evaluators(PROJECT) == []
        assert await snapshot.revisions(PROJECT, "evl_1") == []
        assert await snapshot.revisions_by_id(["evl_1_1"]) == {"evl_1_1": evaluator.revision}
        checks, _ = await snapshot.checks(CheckFilter(project_id=PROJECT, trace_id="t1"), Page())
    assert checks == [a_check()]


async def test_an_evaluator_of_another_project_is_not_deleted(store: Store) -> None:
    await add_evaluators(store, an_evaluator())
    async with store.transaction() as transaction:
        assert not await transaction.delete_evaluator("other", "evl_1")
    assert await find(store) is not None


async def test_a_deleted_evaluator_cannot_be_changed(store: Store) -> None:
    await add_evaluators(store, an_evaluator())
    async with store.transaction() as transaction:
        await transaction.delete_evaluator(PROJECT, "evl_1")
    with pytest.raises(NotFoundError):
        async with store.transaction() as transaction:
            await transaction.update_evaluator(an_evaluator())


SEALED = SealedCredentials(
    origin="https://a.example",
    header_names=("X-Api-Key",),
    has_bearer_token=True,
    signing_prints=("0a1b2c3d",),
    sealed=bytes(range(256)),
)


async def test_credentials_come_back_and_are_no_part_of_a_revision(store: Store) -> None:
    bare, held = an_evaluator(), replace(an_evaluator(), credentials=SEALED)
    await add_evaluators(store, held)
    assert await find(store) == held
    async with store.transaction() as transaction:
        await transaction.update_evaluator(bare)
        assert await transaction.evaluators_with_credentials() == []
        await transaction.update_evaluator(held)
        assert await transaction.evaluators_with_credentials() == [held]
        assert len(await transaction.revisions(PROJECT, "evl_1")) == 1


async def test_credentials_are_sealed_anew_unless_they_were_changed_meanwhile(store: Store) -> None:
    anew = replace(SEALED, sealed=b"anew")
    await add_evaluators(store, replace(an_evaluator(), credentials=SEALED))
    async with store.transaction() as transaction:
        await transaction.reseal_credentials("evl_1", before=anew, after=replace(SEALED, sealed=b"lost"))
        await transaction.reseal_credentials("evl_1", before=SEALED, after=anew)
    found = await find(store)
    assert found is not None
    assert found.credentials == anew


async def test_the_credentials_of_a_deleted_evaluator_are_gone(store: Store) -> None:
    await add_evaluators(store, replace(an_evaluator(), credentials=SEALED))
    async with store.transaction() as transaction:
        await transaction.delete_evaluator(PROJECT, "evl_1")
        assert await transaction.evaluators_with_credentials() == []

"""What is done to signals, by failures and people at the same time, on both databases."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url

from assay.domain.check import Reading, Verdict
from assay.domain.failure_window import RaiseAfter
from assay.domain.json_value import JsonValue
from assay.domain.severity import SeverityBand
from assay.domain.signal import Signal
from assay.domain.signal_log import AUDITED, LogEntry, LogKind, entry_of
from assay.domain.signal_steps import ImpossibleStep, acknowledge, assign, mute, note
from assay.ports import LogEnds, Page, SignalFilter, SignalOrder, Store
from assay.recording.record import Recorded, record
from assay.store import signal_log
from assay.store.migrate import MIGRATIONS
from assay.store.opening import open_store
from assay.testing import NOW_NS
from support.records import PROJECT, a_check, a_signal, add_evaluators, an_evaluator

HOUR_NS = 3600 * 1_000_000_000


@pytest.fixture
async def evaluators(store: Store) -> None:
    rate = RaiseAfter(failures=3, of=5)
    await add_evaluators(store, an_evaluator(), an_evaluator("evl_2"), an_evaluator("evl_3", raise_after=rate))


async def recorded(store: Store, *trace_ids: str, evaluator_id: str = "evl_1", failed: bool = True) -> Recorded:
    checks = [
        a_check(trace_id, failed=failed, evaluator_id=evaluator_id, revision_id=f"{evaluator_id}_1", agent_id="agt_1")
        for trace_id in trace_ids
    ]
    async with store.transaction() as transaction:
        return await record(transaction, checks, now_ns=NOW_NS)


async def stepped(store: Store, kind: LogKind, step: Callable[[Signal], Signal | ImpossibleStep]) -> None:
    async with store.transaction() as transaction:
        signal = await transaction.signal_for_update(PROJECT, "evl_1", "agt_1")
        assert signal is not None
        changed = step(signal)
        assert isinstance(changed, Signal)
        await transaction.put_signals([changed], [entry_of(changed, kind, actor="key_1", at_ns=NOW_NS)])


async def the_signal(store: Store, evaluator_id: str = "evl_1") -> Signal:
    async with store.snapshot() as snapshot:
        (signal,), _ = await snapshot.list_signals(SignalFilter(project_id=PROJECT, evaluator_id=evaluator_id), Page())
    return signal


async def followed(store: Store, after: int = 0, limit: int = 1000) -> list[LogEntry]:
    async with store.snapshot() as snapshot:
        return await snapshot.signal_log(PROJECT, after, limit)


@pytest.mark.usefixtures("evaluators")
async def test_failures_and_people_at_the_same_time_lose_nothing_of_each_other(store: Store) -> None:
    await recorded(store, "first")

    async def fail(writer: int) -> None:
        for step in range(4):
            await recorded(store, f"t{writer}-{step}")

    async def write(number: int) -> None:
        await stepped(store, "noted", lambda signal: note(signal, now_ns=NOW_NS))
        if number == 0:
            await stepped(store, "acknowledged", lambda signal: acknowledge(signal, now_ns=NOW_NS))
        if number == 1:
            await stepped(store, "assigned", lambda signal: assign(signal, assignee="ada", now_ns=NOW_NS))
        if number == 2:
            until_ns = NOW_NS + HOUR_NS
            await stepped(store, "muted", lambda signal: mute(signal, until=until_ns, now_ns=NOW_NS))

    await asyncio.gather(*(fail(writer) for writer in range(16)), *(write(number) for number in range(8)))
    signal = await the_signal(store)
    assert (signal.count, signal.notes, signal.status, signal.assignee) == (65, 8, "acknowledged", "ada")
    assert (signal.muted_until, len(signal.evidence)) == (NOW_NS + HOUR_NS, 10)
    entries = await followed(store)
    assert [entry.number for entry in entries] == list(range(1, len(entries) + 1))
    assert Counter(entry.kind for entry in entries) == {
        "raised": 1, "folded": 64, "noted": 8, "acknowledged": 1, "assigned": 1, "muted": 1
    }  # fmt: skip
    assert [entry.count for entry in entries if entry.kind in ("raised", "folded")] == list(range(1, 66))


@pytest.mark.usefixtures("evaluators")
async def test_who_follows_the_numbers_while_sixteen_write_misses_none(store: Store) -> None:
    writing = asyncio.gather(*(recorded(store, f"t{number}") for number in range(16)))
    seen: list[int] = []
    while len(seen) < 16:
        seen += [entry.number for entry in await followed(store, seen[-1] if seen else 0, limit=3)]
        await asyncio.sleep(0)
    await writing
    assert seen == list(range(1, 17))


@pytest.mark.usefixtures("evaluators")
async def test_a_batch_is_one_entry_of_a_signal_and_a_redelivered_one_none(store: Store) -> None:
    await recorded(store, "t1", "t2")
    await recorded(store, "t2", "t3", "t4")
    await recorded(store, "t3", "t4")
    entries = await followed(store)
    assert [(entry.kind, entry.count, entry.detail) for entry in entries] == [
        ("raised", 2, {"failures": 2}),
        ("folded", 4, {"failures": 2}),
    ]
    assert [entry.actor for entry in entries] == [None, None]


@pytest.mark.usefixtures("evaluators")
async def test_a_rate_counts_each_check_once_over_batches_redeliveries_and_restarts(
    store: Store, database_url: str
) -> None:
    assert (await recorded(store, "t1", "t2", evaluator_id="evl_3")).changes == ()
    await recorded(store, "t1", "t2", evaluator_id="evl_3")
    await recorded(store, "t3", "t4", evaluator_id="evl_3", failed=False)
    again, queue = await open_store(database_url)
    (change,) = (await recorded(again, "t5", evaluator_id="evl_3")).changes
    assert (change.kind, change.signal.count) == ("raised", 3)
    assert [seen.trace_id for seen in change.signal.evidence if seen.trace_id in ("t3", "t4")] == []
    await queue.close()
    await again.close()


@pytest.mark.usefixtures("evaluators")
async def test_sixteen_writers_raise_by_a_rate_once_and_lose_no_failure(store: Store) -> None:
    results = await asyncio.gather(*(recorded(store, f"t{number}", evaluator_id="evl_3") for number in range(16)))
    assert sum(len(result.changes) for result in results) == 1
    assert (await the_signal(store, "evl_3")).count == 16


async def test_a_worse_score_escalates_and_says_from_what(store: Store) -> None:
    await add_evaluators(store, an_evaluator(severity_bands=(SeverityBand(below=0.2, severity="critical"),)))

    async def scored(trace_id: str, score: float) -> Recorded:
        reading = Reading(status="scored", metrics={"score": score}, verdict=Verdict(failed=True))
        async with store.transaction() as transaction:
            return await record(transaction, [a_check(trace_id, reading=reading)], now_ns=NOW_NS)

    kinds = [[change.kind for change in (await scored(f"t{score}", score)).changes] for score in (0.3, 0.1, 0.15)]
    assert kinds == [["raised"], ["escalated"], []]
    assert (await followed(store))[1].detail == {"failures": 1, "before": "medium"}


@pytest.mark.usefixtures("evaluators")
async def test_a_muted_change_says_so(store: Store) -> None:
    await recorded(store, "t1")
    await stepped(store, "muted", lambda signal: mute(signal, until=NOW_NS + 1, now_ns=NOW_NS))
    await stepped(store, "archived", lambda signal: replace(signal, status="archived"))
    (change,) = (await recorded(store, "t2")).changes
    assert (change.kind, change.muted) == ("reopened", True)


@pytest.mark.usefixtures("evaluators")
async def test_the_history_of_a_signal_is_its_own_and_pages(store: Store) -> None:
    await recorded(store, "t1")
    await recorded(store, "t2", evaluator_id="evl_2")
    await recorded(store, "t3")
    for _ in range(3):
        await stepped(store, "noted", lambda signal: note(signal, now_ns=NOW_NS))
    signal = await the_signal(store)
    async with store.snapshot() as snapshot:
        first, cursor = await snapshot.signal_history(PROJECT, signal.id, AUDITED, Page(limit=2))
        rest, end = await snapshot.signal_history(PROJECT, signal.id, AUDITED, Page(limit=2, cursor=cursor))
        other = await snapshot.signal_history("other", signal.id, AUDITED, Page())
    assert [entry.kind for entry in first + rest] == ["noted", "noted", "noted", "raised"]
    assert (end, other) == (None, ([], None))


@pytest.mark.usefixtures("evaluators")
async def test_old_folds_go_and_everything_else_stays(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal_log, "FOLDS_KEPT", 3)
    monkeypatch.setattr(signal_log, "PRUNED_EVERY", 2)
    for number in range(4):
        await recorded(store, f"t{number}")
    await stepped(store, "noted", lambda signal: note(signal, now_ns=NOW_NS))
    for number in range(4, 7):
        await recorded(store, f"t{number}")
    assert [entry.number for entry in await followed(store)] == [1, 5, 6, 7, 8]
    async with store.snapshot() as snapshot:
        assert await snapshot.signal_log_ends([PROJECT, "other"]) == {PROJECT: LogEnds(last=8, pruned_to=4)}


@pytest.mark.usefixtures("evaluators")
@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("TIMEOUT",), ["agt_1"]),
        (("timeout", "refund"), ["agt_1"]),
        (("timeout", "parcel"), []),
        (("100%",), ["agt_2"]),
        (("%",), ["agt_2"]),
        (("_",), []),
        (("straße",), ["agt_2"]),
        (("STRASSE",), ["agt_2"]),
        (('"',), []),
        (("NEAR(",), []),
        (("refund*",), []),
        (("\\",), []),
    ],
)
async def test_words_are_found_in_the_reasons_whatever_they_are_made_of(
    store: Store, words: tuple[str, ...], found: list[str]
) -> None:
    signals: list[Signal] = []
    for agent_id, reason in (("agt_1", "Timeout in the Refund tool"), ("agt_2", "100% of the parcel to Straße 5")):
        signal = a_signal(a_check(agent_id=agent_id, failed=True))
        signals.append(replace(signal, evidence=(replace(signal.evidence[0], reason=reason),)))
    async with store.transaction() as transaction:
        await transaction.put_signals(signals, [])
    async with store.snapshot() as snapshot:
        listed, _ = await snapshot.list_signals(SignalFilter(project_id=PROJECT, words=words), Page())
    assert [signal.agent_id for signal in listed] == found


@pytest.mark.usefixtures("evaluators")
async def test_signals_are_filtered_by_severity_and_by_when_they_were_seen_last(store: Store) -> None:
    early = a_signal(a_check(agent_id="agt_1"), last_seen_ns=10, severity="low")
    late = a_signal(a_check(agent_id="agt_2"), last_seen_ns=20, severity="critical")
    async with store.transaction() as transaction:
        await transaction.put_signals([early, late], [])

    async def found(**which: object) -> list[Signal]:
        async with store.snapshot() as snapshot:
            return (await snapshot.list_signals(SignalFilter(project_id=PROJECT, **which), Page()))[0]  # pyright: ignore[reportArgumentType]

    assert await found(severity="critical") == [late]
    assert await found(since_ns=20) == [late]
    assert await found(until_ns=20) == [early]
    assert await found(since_ns=10, until_ns=21) == [late, early]


@pytest.mark.usefixtures("evaluators")
@pytest.mark.parametrize("order", ["seen", "raised"])
async def test_a_reader_of_pages_sees_each_signal_once_though_others_move(store: Store, order: SignalOrder) -> None:
    signals = [
        a_signal(a_check(agent_id=f"agt_{number}"), last_seen_ns=number, updated_at_ns=number) for number in range(9)
    ]
    async with store.transaction() as transaction:
        await transaction.put_signals(signals, [])
    seen: list[str | None] = []
    cursor: str | None = None
    for moved in (0, 1, 2, 3, 4):
        async with store.snapshot() as snapshot:
            page, cursor = await snapshot.list_signals(
                SignalFilter(project_id=PROJECT), Page(limit=2, cursor=cursor), order
            )
        seen += [signal.agent_id for signal in page]
        if cursor is None:
            break
        async with store.transaction() as transaction:
            await transaction.put_signals([replace(signals[moved], last_seen_ns=100 + moved)], [])
    assert len(seen) == len(set(seen))
    expected = {f"agt_{number}" for number in range(9)}
    assert set(seen) == expected if order == "raised" else set(seen) >= expected - {"agt_0", "agt_1", "agt_2", "agt_3"}


async def test_signals_of_the_first_schema_are_carried_over(database_url: str) -> None:
    url = make_url(database_url)
    if url.get_backend_name() == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    engine = create_engine(url)
    document: dict[str, JsonValue] = {
        "id": "sig_1", "project_id": PROJECT, "evaluator_id": "evl_1", "agent_id": None, "severity": "critical",
        "status": "open", "resolution": None, "count": 2, "first_seen_ns": 5, "last_seen_ns": 9, "updated_at_ns": 9,
        "evidence": [{"check_id": "c", "trace_id": "t", "metrics": {}, "reason": "Too Long", "occurred_at_ns": 9}],
    }  # fmt: skip
    with engine.begin() as connection:
        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS))
        config.attributes["connection"] = connection
        command.upgrade(config, "0002_channels")
        connection.execute(
            text(
                "INSERT INTO evaluators (id, project_id, name, enabled, severity, sample_rate, scope_mode, agent_ids, "
                "created_at_ns, updated_at_ns, revision_number, deleted) "
                "VALUES ('evl_1', 'default', 'n', true, 'low', 1, 'all', :none, 1, 1, 1, false)"
            ),
            {"none": b"[]"},
        )
        connection.execute(
            text("INSERT INTO signals VALUES ('sig_1', 'default', 'evl_1', '', 'open', 9, :document)"),
            {"document": json.dumps(document).encode()},
        )
    engine.dispose()
    store, queue = await open_store(database_url)
    which = SignalFilter(project_id=PROJECT, severity="critical", words=("too", "long"))
    async with store.snapshot() as snapshot:
        (signal,), _ = await snapshot.list_signals(which, Page(), "raised")
    assert (signal.id, signal.count, signal.notes, signal.muted_until) == ("sig_1", 2, 0, None)
    await queue.close()
    await store.close()


@pytest.mark.usefixtures("evaluators")
async def test_whoever_deletes_an_evaluator_sees_the_signals_of_what_is_being_recorded(store: Store) -> None:
    async def delete() -> int:
        async with store.transaction() as transaction:
            assert await transaction.delete_evaluator(PROJECT, "evl_1")
            signals, _ = await transaction.list_signals(SignalFilter(project_id=PROJECT, evaluator_id="evl_1"), Page())
            return len(signals)

    async with store.transaction() as recording:
        await record(recording, [a_check("t1", failed=True)], now_ns=NOW_NS)
        deleting = asyncio.create_task(delete())
        await asyncio.wait([deleting], timeout=0.3)
    assert await deleting == 1
    assert (await recorded(store, "t2")).changes == ()

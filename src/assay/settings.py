"""One frozen Settings: from arguments, ASSAY_* environment variables, then a TOML file, then these defaults."""

import os
from pathlib import Path
from typing import Literal

from pydantic import AliasChoices, Field
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

CONFIG_VARIABLE = "ASSAY_CONFIG"
DEFAULT_CONFIG = "assay.toml"


class Settings(BaseSettings):
    """What an operator decides. Every field can be set as ASSAY_<NAME> or in the TOML file of the same names."""

    model_config = SettingsConfigDict(
        env_prefix="ASSAY_", frozen=True, extra="forbid", env_ignore_empty=True, populate_by_name=True
    )

    host: str = Field("127.0.0.1", description="Address to listen on; 0.0.0.0 opens the server to the network.")
    port: int = Field(4700, ge=0, le=65535, description="Port to listen on; 0 picks a free one.")
    data_dir: Path = Field(Path("assay-data"), description="Folder of the embedded database.")
    database_url: str | None = Field(
        None,
        description="postgresql://user:password@host/name for a shared store; unset uses SQLite in the data folder.",
    )
    admin_key: str | None = Field(
        None, min_length=16, description="Presets the first admin key; unset makes one and prints it once."
    )
    secret_key: str | None = Field(
        None,
        min_length=32,
        description="Key that users' secrets are sealed with in the database; unset uses the file secret.key in the "
        "data folder, made at first start. Servers that share a database need the same.",
    )
    old_secret_keys: tuple[str, ...] = Field(
        (), description="Keys that older secrets were sealed with and are still opened with, as a JSON list."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least level that is logged.")
    log_format: Literal["text", "json"] = Field("text", description="How log lines are written, on standard error.")

    settle_s: float = Field(2.0, ge=0, le=60, description="A trace is whole this long after its last span, in seconds.")
    settle_max_s: float = Field(30.0, ge=0, le=3600, description="A trace is checked at the latest after this long.")
    max_backlog: int = Field(
        100_000,
        ge=1,
        description="Queue entries above which ingest answers 429 with Retry-After to projects that hold a quarter of "
        "them or more.",
    )
    lease_s: float = Field(
        10.0, ge=1, le=3600, description="A worker that is silent this long loses its claims to another."
    )

    code_runner: str = Field(
        "sandbox",
        validation_alias=AliasChoices("ASSAY_CODE_RUNNER", "AGENTA_SERVICES_CODE_SANDBOX_RUNNER"),
        description="Where evaluator code runs: sandbox, restricted (Python held by the language), local (trusted, "
        "not confined), daytona (remote), or the name of an installed runner; also read from "
        "AGENTA_SERVICES_CODE_SANDBOX_RUNNER.",
    )
    daytona_api_key: str | None = Field(
        None,
        validation_alias=AliasChoices("DAYTONA_API_KEY"),
        description="Key for the runner daytona, which needs it.",
    )
    daytona_api_url: str | None = Field(
        None,
        validation_alias=AliasChoices("DAYTONA_API_URL"),
        description="Where the API of Daytona is; unset leaves it to the SDK.",
    )
    daytona_target: str | None = Field(
        None,
        validation_alias=AliasChoices("DAYTONA_TARGET"),
        description="Region of the remote sandboxes; unset takes that of the organisation.",
    )
    daytona_snapshot: str | None = Field(
        None,
        validation_alias=AliasChoices("DAYTONA_SNAPSHOT"),
        description="What the remote sandboxes start from, with python3 and, for JavaScript and TypeScript, node; "
        "unset takes that of the organisation.",
    )
    sandbox_workers: int = Field(0, ge=0, le=256, description="Warm processes for code; 0 means one per core.")
    sandbox_minimum: Literal["full", "no-namespaces", "no-landlock"] = Field(
        "full", description="Least isolation the server starts with; see docs/security.md for the ladder."
    )
    sandbox_packages: tuple[str, ...] | None = Field(
        None,
        description="Packages that Python in the sandbox may import, as pip lists them, as a JSON list like "
        '["numpy", "python-dateutil"]; unset offers those of the extra assay[evaluators] that are installed, [] none.',
    )
    wall_s: float = Field(8.0, gt=0, le=600, description="Most wall time of one evaluation, in seconds.")
    cpu_s: float = Field(8.0, gt=0, le=600, description="Most CPU time of one evaluation, in seconds.")
    memory_mb: int = Field(256, ge=64, le=16_384, description="Most memory of one evaluation, in MiB.")
    source_kb: int = Field(256, ge=1, le=4096, description="Largest source of an evaluator, in KiB.")
    payload_mb: int = Field(6, ge=1, le=256, description="Largest payload of one evaluation, in MiB.")
    result_kb: int = Field(256, ge=1, le=16_384, description="Largest result of one evaluation, in KiB.")
    log_kb: int = Field(16, ge=0, le=1024, description="Logs kept of one evaluation, in KiB.")

    external_allow: tuple[str, ...] = Field(
        (),
        description="CIDRs or host names beside public addresses that external scorers and channels may reach, as a "
        "JSON list.",
    )
    external_at_once: int = Field(8, ge=1, le=1000, description="Calls that one external scorer gets at a time.")

    @property
    def url(self) -> str:
        """Return the URL of the store."""
        return self.database_url or f"sqlite:///{self.data_dir.resolve() / 'assay.db'}"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Order the sources: arguments, environment, file."""
        path = Path(os.environ.get(CONFIG_VARIABLE, DEFAULT_CONFIG))
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, toml_file=path)

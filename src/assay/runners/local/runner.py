"""Trusted code in plain processes: it can do what the server's user can; only time and memory are bounded."""

import os
import sys
from functools import partial
from typing import Self

from assay.runners.children.pool import Pool
from assay.runners.children.pooled import PooledRunner
from assay.runners.children.zygote_process import Launch

_OURS = ("ASSAY_", "DAYTONA_")
_OTHER_LANGUAGES = ("javascript", "typescript")


class LocalRunner(PooledRunner):
    """Runs evaluators with this interpreter, all its packages and the server's environment without our settings."""

    @classmethod
    async def start(cls, *, workers: int = 0) -> Self:
        """Start; `workers` 0 means one per core. Raises SandboxUnavailableError when no process can be started."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        directory = os.getcwd()

        async def start(language: str) -> Pool:
            launch = Launch(command=partial(_command, language), environment=environment, directory=directory)
            return await Pool.start(launch, workers)

        others = {language: partial(start, language) for language in _OTHER_LANGUAGES}
        return cls("local (not confined)", await start("python"), others)


def _command(language: str, control: int) -> list[str]:
    start = f"from assay.runners.local.zygote import main; main({control}, {language!r})"
    return [sys.executable, "-P", "-c", start]

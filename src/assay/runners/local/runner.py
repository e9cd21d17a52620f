"""Trusted code in plain processes: it can do what the server's user can; only time and memory are bounded."""

import os
import sys
from typing import Self

from assay.runners.children.pool import Pool
from assay.runners.children.pooled import PooledRunner
from assay.runners.children.zygote_process import Launch

_OURS = "ASSAY_"


class LocalRunner(PooledRunner):
    """Runs evaluators with this interpreter, all its packages and the server's environment without our settings."""

    @classmethod
    async def start(cls, *, workers: int = 0) -> Self:
        """Start; `workers` 0 means one per core. Raises SandboxUnavailableError when no process can be started."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        launch = Launch(command=_command, environment=environment, directory=os.getcwd())
        return cls("local (not confined)", await Pool.start(launch, workers))


def _command(control: int) -> list[str]:
    return [sys.executable, "-P", "-c", f"from assay.runners.local.zygote import main; main({control})"]

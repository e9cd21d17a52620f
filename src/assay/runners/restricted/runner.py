"""Python held by the language alone, for hosts whose kernel offers no sandbox."""

import sys
from typing import Self

from assay.runners.children.pool import Pool
from assay.runners.children.pooled import PooledRunner
from assay.runners.children.zygote_process import Launch


class RestrictedRunner(PooledRunner):
    """Runs a subset of Python without files, network or host, in processes whose time and memory are bounded."""

    @classmethod
    async def start(cls, *, workers: int = 0) -> Self:
        """Start; `workers` 0 means one per core. Raises SandboxUnavailableError when no process can be started."""
        return cls("restricted (language, rlimits)", await Pool.start(Launch(command=_command), workers))


def _command(control: int) -> list[str]:
    start = f"from assay.runners.restricted.zygote import main; main({control})"
    return [sys.executable, "-I", "-B", "-c", start]

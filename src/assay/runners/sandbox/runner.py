"""The default runner: confined children, forked from warm processes."""

from typing import Self

from assay.runners.children.pool import Pool
from assay.runners.children.pooled import PooledRunner
from assay.runners.sandbox.doctor import Minimum, highest_rung
from assay.runners.sandbox.launch import Rung, launch_of


class SandboxRunner(PooledRunner):
    """Runs evaluators behind namespaces, Landlock, seccomp and resource limits, as far as the kernel gives them."""

    @classmethod
    async def start(cls, *, workers: int = 0, minimum: Minimum = "full") -> Self:
        """Start on the highest rung this machine offers; `workers` 0 means one per core.

        Raises SandboxUnavailableError when that is below the minimum.
        """
        return await cls.start_on(await highest_rung(minimum), workers=workers)

    @classmethod
    async def start_on(cls, rung: Rung, *, workers: int = 0) -> Self:
        """Start on this very rung. Raises SandboxUnavailableError."""

        async def start_javascript() -> Pool:
            return await Pool.start(launch_of(rung, "javascript"), workers)

        async def start_typescript() -> Pool:
            return await Pool.start(launch_of(rung, "typescript"), 1)

        pool = await Pool.start(launch_of(rung), workers)
        return cls(rung.description, pool, {"javascript": start_javascript, "typescript": start_typescript})

"""The default runner: confined children, forked from warm processes."""

import asyncio
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Self

from assay.domain.evaluator import Revision
from assay.domain.outcome import Call, Limits, Outcome, Raised
from assay.runners.children.pool import Pool
from assay.runners.children.pooled import PooledRunner, StartPool, Stocked
from assay.runners.sandbox.doctor import Minimum, highest_rung
from assay.runners.sandbox.launch import Rung, interpreter, launch_of
from assay.runners.sandbox.packages import LEAN, Flavour, Package, flavours, installed_packages

_NOT_FOUND = re.compile(r"No module named '(\w+)((?:\.[\w.]*)?)'(?:; '[\w.]+' is not a package)?")


class SandboxRunner(PooledRunner):
    """Runs evaluators behind namespaces, Landlock, seccomp and resource limits, as far as the kernel gives them."""

    def __init__(
        self,
        description: str,
        pool: Pool,
        others: Mapping[str, StartPool],
        stocked: Sequence[Stocked],
        packages: Sequence[Package],
    ) -> None:
        super().__init__(description, pool, others, stocked)
        self._packages = packages

    @classmethod
    async def start(cls, *, workers: int = 0, minimum: Minimum = "full", packages: Sequence[str] | None = None) -> Self:
        """Start on the highest rung this machine offers; `workers` 0 means one per core.

        `packages` are what Python may import beside the standard library, as pip has their names; None means the
        usual ones, as far as they are installed. Raises ConfigurationError when one of them cannot be offered, and
        SandboxUnavailableError when the rung is below the minimum.
        """
        found = await asyncio.to_thread(installed_packages, packages)
        return await cls.start_on(await highest_rung(minimum), workers=workers, packages=found)

    @classmethod
    async def start_on(cls, rung: Rung, *, workers: int = 0, packages: Sequence[Package] = ()) -> Self:
        """Start on this very rung. Raises SandboxUnavailableError."""

        async def start(language: str, count: int, flavour: Flavour = LEAN) -> Pool:
            # Finding out what a process needs takes a second or more, so not in the event loop.
            await asyncio.to_thread(interpreter, language, flavour)
            return await Pool.start(launch_of(rung, language, flavour), count)

        others = {
            "javascript": partial(start, "javascript", workers),
            "typescript": partial(start, "typescript", 1),
        }
        stocked = [
            Stocked(
                name=flavour.name, modules=frozenset(flavour.files), start=partial(start, "python", workers, flavour)
            )
            for flavour in flavours(packages)
        ]
        return cls(rung.description, await start("python", workers), others, stocked, packages)

    async def execute(self, revision: Revision, calls: Sequence[Call], limits: Limits) -> list[Outcome]:
        """Run a revision once per call; see ports.Runner. A module that is missing is told with those there are."""
        outcomes = await super().execute(revision, calls, limits)
        return [self._explained(outcome) if isinstance(outcome, Raised) else outcome for outcome in outcomes]

    def _explained(self, raised: Raised) -> Raised:
        """Add to the message of an import that failed which packages there are, if any could have been meant."""
        missing = _NOT_FOUND.fullmatch(raised.message) if raised.type == "ModuleNotFoundError" else None
        if missing is None or missing[1] in sys.stdlib_module_names:
            return raised
        named = ", ".join(package.name for package in self._packages)
        there_are = f"the packages offered here are {named}" if named else "this server offers no packages"
        if any(missing[1] in package.own for package in self._packages):
            if missing[2]:
                return raised
            there_are = f"{missing[1]} is offered to code that names it in an import statement"
        return replace(raised, message=f"{raised.message}; {there_are}")

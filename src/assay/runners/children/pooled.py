"""From a revision and its calls to what a pool runs: compiled once, refused where it cannot be run at all."""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec

from assay.domain.evaluator import ENTRY_POINTS, Revision
from assay.domain.outcome import Call, Defect, Exceeded, Inspection, Limits, Outcome, Raised, Unavailable
from assay.errors import AssayError, SandboxUnavailableError
from assay.runners.children.batches import Item, Program, Request
from assay.runners.children.faults import VIOLATION
from assay.runners.children.pool import Pool
from assay.runners.children.zygote_process import ZygoteLostError

_SOURCES_KEPT = 256
_LONGEST_MESSAGE = 1000
_PYTHON = "python"
# TypeScript becomes JavaScript when it is looked at.
_RUN_AS = {"python": "python", "javascript": "javascript", "typescript": "javascript"}


class _At(msgspec.Struct, frozen=True):
    kind: Literal["syntax-error", "sandbox-violation"]
    message: str
    line: int | None
    column: int | None


class _Description(msgspec.Struct, frozen=True, kw_only=True):
    names: dict[str, int | None]
    imported: frozenset[str] = frozenset()
    needed: dict[str, int] = {}
    unread: dict[str, frozenset[int]]
    alone: bool = False
    defect: _At | None


@dataclass(frozen=True, slots=True)
class _Compiled:
    inspection: Inspection
    imported: frozenset[str]
    unread: dict[str, frozenset[int]]
    alone: bool
    code: bytes
    source: bytes
    digest: bytes


_decode_description = msgspec.json.Decoder(_Description).decode


StartPool: TypeAlias = Callable[[], Awaitable[Pool]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stocked:
    """A pool of Python with modules beyond the standard library, known by their top-level names."""

    name: str
    modules: frozenset[str]
    start: StartPool


class PooledRunner:
    """Runs evaluators in children of the zygotes of its pools; `description` says what confines them.

    `pool` runs Python; `others` start the pools of further languages, when they are first asked for, and `stocked`
    those for Python that imports what only they hold, the leaner ones first.
    """

    def __init__(
        self,
        description: str,
        pool: Pool,
        others: Mapping[str, StartPool] | None = None,
        stocked: Sequence[Stocked] = (),
    ) -> None:
        self._description = description
        self._languages = [_PYTHON, *(others or {})]
        self._pools: dict[str, Pool] = {_PYTHON: pool}
        self._others = {**(others or {}), **{stock.name: stock.start for stock in stocked}}
        self._stocked = stocked
        # In the order in which they were asked for; there is no pool of those that did not start.
        self._asked = [_PYTHON]
        self._starting = {name: asyncio.Lock() for name in self._others}
        self._compiled: OrderedDict[bytes, _Compiled] = OrderedDict()

    @property
    def description(self) -> str:
        """Return what confines the code, as recorded on each check."""
        return self._description

    @property
    def languages(self) -> list[str]:
        """Return the languages it runs."""
        return list(self._languages)

    @property
    def zygote_pids(self) -> list[int]:
        """Return the process ids of the zygotes."""
        return [pid for pool in self._pools.values() for pid in pool.zygote_pids]

    async def execute(self, revision: Revision, calls: Sequence[Call], limits: Limits) -> list[Outcome]:
        """Run a revision once per call; see ports.Runner."""
        if not calls:
            return []
        refusal = self._refusal(revision, limits)
        if refusal is not None:
            return [refusal for _ in calls]
        assert revision.source is not None
        assert revision.interface is not None
        assert revision.language is not None
        compiled = await self._compile(revision.language, revision.source, revision.project_id)
        if isinstance(compiled, Unavailable):
            return [compiled for _ in calls]
        defect = compiled.inspection.defect
        if defect is not None:
            name = "SyntaxError" if defect.kind == "syntax-error" else VIOLATION
            broken = Raised(kind=defect.kind, type=name, message=defect.message, line=defect.line)
            return [broken for _ in calls]
        entry = ENTRY_POINTS[revision.interface]
        program = Program(
            key=(revision.project_id, revision.id, entry, compiled.digest, limits),
            entry=entry,
            code=compiled.code,
            source=compiled.source,
            limits=limits,
            unread=tuple(compiled.unread.get(entry, ())),
        )
        request = Request(len(calls))
        items: list[Item] = []
        for index, call in enumerate(calls):
            size = sum(map(len, call.arguments))
            if size > limits.payload_bytes:
                message = f"the arguments have {size} bytes of JSON; at most {limits.payload_bytes} are allowed"
                request.settle(index, Exceeded(budget="payload", message=message))
            else:
                items.append(Item(request, index, call.arguments, size, alone=compiled.alone))
        try:
            pool = await self._pool_of(self._stock_for(revision.language, compiled.imported))
        except AssayError as error:
            return [Unavailable(cause=str(error)) for _ in calls]
        return await pool.run(program, items, request)

    async def inspect(self, language: str, source: str, project_id: str = "") -> Inspection:
        """Look at a source without running it. Raises SandboxUnavailableError when the sandbox is gone."""
        if language not in self.languages:
            message = f"this server does not run {language}; it runs {', '.join(self.languages)}"
            return Inspection(names={}, defect=Defect(kind="syntax-error", message=message))
        compiled = await self._compile(language, source, project_id)
        if isinstance(compiled, Unavailable):
            raise SandboxUnavailableError(compiled.cause)
        return compiled.inspection

    async def unready(self) -> str | None:
        """Return why no code can be run now, None when it can: each pool forks a child to see, and has room."""
        for name in list(self._asked):
            found = await self._inspect_again(name, b"", "")
            if isinstance(found, Unavailable):
                # A process that died unnoticed is replaced by the next look.
                found = await self._inspect_again(name, b"", "")
            if isinstance(found, Unavailable):
                return found.cause
            if self._pools[name].is_stuck:
                return f"all places for {name} are held by children that are past their deadline and do not end"
        return None

    async def close(self) -> None:
        """Kill all processes; what waits or runs comes back as Unavailable."""
        self._others.clear()
        for starting in self._starting.values():
            async with starting:
                pass
        for pool in self._pools.values():
            await pool.close()

    def _stock_for(self, language: str, imported: frozenset[str]) -> str:
        """Return the name of the leanest pool that runs the language and holds all that is imported, if any does."""
        if language != _PYTHON or not self._stocked:
            return _RUN_AS[language]
        wanted = imported & frozenset[str]().union(*(stock.modules for stock in self._stocked))
        if not wanted:
            return _PYTHON
        return next((stock.name for stock in self._stocked if wanted <= stock.modules), self._stocked[-1].name)

    async def _pool_of(self, name: str) -> Pool:
        """Return the pool of this name, started if it is not yet. Raises SandboxUnavailableError."""
        pool = self._pools.get(name)
        if pool is None and name in self._starting:
            async with self._starting[name]:
                pool = self._pools.get(name)
                start = self._others.get(name)
                if pool is None and start is not None:
                    if name not in self._asked:
                        self._asked.append(name)
                    pool = self._pools[name] = await start()
        if pool is None:
            raise SandboxUnavailableError("the sandbox is shut")
        return pool

    def _refusal(self, revision: Revision, limits: Limits) -> Outcome | None:
        """Return the outcome of a revision that this runner cannot even look at."""
        if revision.source is None or revision.interface is None or revision.language is None:
            message = f"revision {revision.number} has no source or no interface; save the code again"
            return Raised(kind="entry-point-missing", type="NoSource", message=message)
        if revision.language not in self.languages:
            message = f"this server does not run {revision.language}; it runs {', '.join(self.languages)}"
            return Raised(kind="syntax-error", type="UnsupportedLanguage", message=message)
        size = len(revision.source.encode("utf-8", "surrogatepass"))
        if size > limits.source_bytes:
            message = f"the source has {size} bytes; at most {limits.source_bytes} are allowed"
            return Raised(kind="syntax-error", type="SourceTooLarge", message=message)
        return None

    async def _compile(self, language: str, text: str, project_id: str) -> _Compiled | Unavailable:
        """Return what a confined child found in the source; the last ones asked for are remembered."""
        source = text.encode("utf-8", "surrogatepass")
        digest = hashlib.sha256(language.encode() + b"\0" + source).digest()
        compiled = self._compiled.get(digest)
        if compiled is None:
            try:
                found = await (await self._pool_of(language)).inspect(source, project_id)
            except ZygoteLostError:
                found = await self._inspect_again(language, source, project_id)
            except AssayError as error:
                found = Unavailable(cause=str(error))
            if isinstance(found, Unavailable):
                return found
            compiled = _read_description(found, source, digest)
            if found is None:
                # It may have been the machine that was slow, so look again the next time.
                return compiled
            self._compiled[digest] = compiled
            if len(self._compiled) > _SOURCES_KEPT:
                self._compiled.popitem(last=False)
        else:
            self._compiled.move_to_end(digest)
        return compiled

    async def _inspect_again(
        self, language: str, source: bytes, project_id: str
    ) -> tuple[bytes, bytes] | Unavailable | None:
        try:
            return await (await self._pool_of(language)).inspect(source, project_id)
        except (ZygoteLostError, AssayError) as error:
            return Unavailable(cause=str(error))


def _shortened(message: str) -> str:
    """Return a message that an author can read; a parser repeats names and tokens however long they are."""
    return message if len(message) <= _LONGEST_MESSAGE else f"{message[:_LONGEST_MESSAGE]}…"


def _read_description(found: tuple[bytes, bytes] | None, source: bytes, digest: bytes) -> _Compiled:
    description = None
    code = b""
    if found is not None:
        text, code = found
        try:
            description = _decode_description(text)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            description = None
    if description is None:
        message = "the source could not be compiled within the limits of time and memory"
        at = _At(kind="syntax-error", message=message, line=None, column=None)
        description = _Description(names={}, unread={}, defect=at)
    defect = description.defect and Defect(
        kind=description.defect.kind,
        message=_shortened(description.defect.message),
        line=description.defect.line,
        column=description.defect.column,
    )
    inspection = Inspection(names=description.names, needed=description.needed, defect=defect)
    return _Compiled(inspection, description.imported, description.unread, description.alone, code, source, digest)

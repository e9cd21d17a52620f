"""Runs code in remote sandboxes of Daytona: one for each revision, kept warm, asked for whole batches."""

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Self

from assay.domain.breaker import FAILURES_TO_OPEN
from assay.domain.evaluator import ENTRY_POINTS, Language, Revision
from assay.domain.outcome import Call, Defect, Exceeded, Inspection, Limits, Outcome, Raised, Unavailable, is_crash
from assay.errors import ConfigurationError, SandboxUnavailableError
from assay.runners.daytona.exchange import Answer, Lacking, Ran, read
from assay.runners.daytona.failure import RefusedError, ServiceError
from assay.runners.daytona.owner import PROCESS, SERVER, is_left_over, labels_of
from assay.runners.daytona.remote.batch import Batch

if TYPE_CHECKING:
    from assay.runners.daytona.service import Service
    from assay.runners.daytona.warm import WarmSandboxes

IDLE_S = 300.0
MOST_SANDBOXES = 32
BATCH_CALLS = 256
BATCH_BYTES = 4 * 1024 * 1024
SOURCES_KEPT = 256
_INSPECTION = "inspection"

log = logging.getLogger("assay.daytona")


@dataclass(frozen=True, slots=True)
class _Job:
    """A revision with its calls, and the outcomes as they come in."""

    key: Hashable
    language: Language
    entry: str
    source: bytes
    limits: Limits
    calls: Sequence[Call]
    outcomes: list[Outcome | None]


class DaytonaRunner:
    """Runs Python, JavaScript and TypeScript; a failure of the service is Unavailable, never the author's fault."""

    languages: tuple[Language, ...] = ("python", "javascript", "typescript")

    def __init__(self, service: "Service", warm: "WarmSandboxes") -> None:
        self._service = service
        self._warm = warm
        self._inspections: OrderedDict[bytes, Inspection] = OrderedDict()

    @classmethod
    async def start(
        cls,
        *,
        api_key: str | None,
        api_url: str | None = None,
        target: str | None = None,
        snapshot: str | None = None,
        store: str = "",
        idle_s: float = IDLE_S,
        most: int = MOST_SANDBOXES,
    ) -> Self:
        """Connect, and delete what a dead process of this server left; `store` tells it from others on this host.

        Raises ConfigurationError without the SDK or with a key that is missing or refused.
        """
        if not api_key:
            raise ConfigurationError(
                "ASSAY_CODE_RUNNER=daytona needs DAYTONA_API_KEY: make a key in the Daytona dashboard and set it."
            )
        try:
            from assay.runners.daytona.service import Service
            from assay.runners.daytona.warm import WarmSandboxes
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                f"ASSAY_CODE_RUNNER=daytona needs the Daytona SDK, and {error.name} is not installed: "
                "install assay[daytona]."
            ) from error
        service = Service(api_key=api_key, api_url=api_url, target=target, snapshot=snapshot)
        labels = labels_of(store)
        try:
            await _delete_left_overs(service, labels)
        except RefusedError as error:
            await service.close()
            raise ConfigurationError(f"DAYTONA_API_KEY cannot be used: {error}") from error
        except ServiceError as error:
            log.warning("what a process before this one may have left cannot be looked for: %s", error)
        return cls(service, WarmSandboxes(service, labels, idle_s=idle_s, most=most))

    @property
    def description(self) -> str:
        """Name the runner, as recorded on each check."""
        return "daytona (remote sandbox)"

    async def execute(self, revision: Revision, calls: Sequence[Call], limits: Limits) -> list[Outcome]:
        """Run a revision once per call; see ports.Runner."""
        if revision.source is None or revision.interface is None or revision.language is None:
            message = f"revision {revision.number} has no source or no interface; save the code again"
            return [Raised(kind="entry-point-missing", type="NoSource", message=message) for _ in calls]
        source = revision.source.encode("utf-8", "surrogatepass")
        if len(source) > limits.source_bytes:
            message = f"the source has {len(source)} bytes; at most {limits.source_bytes} are allowed"
            return [Raised(kind="syntax-error", type="SourceTooLarge", message=message) for _ in calls]
        job = _Job(
            key=(revision.project_id, revision.id, hashlib.sha256(source).digest()),
            language=revision.language,
            entry=ENTRY_POINTS[revision.interface],
            source=source,
            limits=limits,
            calls=calls,
            outcomes=[_too_large(call, limits) for call in calls],
        )
        unsettled = Unavailable(cause="evaluations in a row crashed", is_given_up=True)
        try:
            await self._settle(job)
        except ServiceError as error:
            unsettled = Unavailable(cause=str(error))
        return [outcome or unsettled for outcome in job.outcomes]

    async def inspect(self, language: str, source: str, project_id: str = "") -> Inspection:
        """Look at a source without running it, in a sandbox of its project.

        Raises SandboxUnavailableError when the service fails.
        """
        raw = source.encode("utf-8", "surrogatepass")
        if language not in self.languages:
            message = f"this server does not run {language}; it runs {', '.join(self.languages)}"
            return Inspection(names={}, defect=Defect(kind="syntax-error", message=message))
        digest = hashlib.sha256(language.encode() + b"\0" + raw).digest()
        known = self._inspections.get(digest)
        if known is not None:
            self._inspections.move_to_end(digest)
            return known
        limits = Limits()
        batch = Batch("inspect", language, "", asdict(limits), raw, [])
        try:
            answer = await self._ask((_INSPECTION, project_id), batch, limits)
        except ServiceError as error:
            raise SandboxUnavailableError(str(error)) from error
        if isinstance(answer, Inspection):
            self._inspections[digest] = answer
            if len(self._inspections) > SOURCES_KEPT:
                self._inspections.popitem(last=False)
            return answer
        message = "the source could not be compiled within the limits of time and memory"
        return Inspection(names={}, defect=Defect(kind="syntax-error", message=message))

    async def unready(self) -> str | None:
        """Return why no code can be run now, None when it can."""
        try:
            await self._service.probe()
        except ServiceError as error:
            return str(error)
        return None

    async def close(self) -> None:
        """Delete all sandboxes."""
        await self._warm.close()
        await self._service.close()

    async def _settle(self, job: _Job) -> None:
        """Ask until every call has its outcome; where the supervisor was ended, in ever smaller batches.

        After several crashes in a row the rest is given up.
        """
        most = BATCH_CALLS
        while waiting := [index for index, outcome in enumerate(job.outcomes) if outcome is None]:
            done = job.outcomes[max(0, waiting[0] - FAILURES_TO_OPEN) : waiting[0]]
            if len(done) == FAILURES_TO_OPEN and all(outcome and is_crash(outcome) for outcome in done):
                return
            part = _fitting(job.calls, waiting[:most])
            calls = [list(job.calls[index].arguments) for index in part]
            batch = Batch("run", job.language, job.entry, asdict(job.limits), job.source, calls)
            answer = await self._ask(job.key, batch, job.limits)
            if isinstance(answer, Inspection):
                message = answer.defect.message if answer.defect is not None else "the source cannot be used"
                line = answer.defect.line if answer.defect is not None else None
                for index in waiting:
                    job.outcomes[index] = Raised(kind="syntax-error", type="SyntaxError", message=message, line=line)
            elif isinstance(answer, Ran) and answer.outcomes:
                for index, outcome in zip(part, answer.outcomes, strict=False):
                    job.outcomes[index] = outcome
                most = min(2 * most, BATCH_CALLS)
            elif len(part) == 1:
                message = "the code ended the process that was to report what it returned"
                job.outcomes[part[0]] = Raised(kind="script-crashed", type="ProcessEnded", message=message)
            else:
                most = len(part) // 2

    async def _ask(self, key: Hashable, batch: Batch, limits: Limits) -> Answer:
        """Return the supervisor's answer; what was warm and fails is replaced once. Raises ServiceError."""
        while True:
            async with self._warm.held(key) as held:
                try:
                    token, exit_code, printed = await held.remote.run(batch)
                    answer = read(token, exit_code, printed, limits, len(batch.calls))
                    if not isinstance(answer, Lacking):
                        return answer
                    raise ServiceError(answer.cause)
                except ServiceError:
                    self._warm.discard(key, held.remote)
                    if held.is_new:
                        raise


async def _delete_left_overs(service: "Service", labels: dict[str, str]) -> None:
    """Delete the sandboxes of processes of this server that are gone. Raises ServiceError."""
    from assay.runners.daytona.warm import delete_quietly

    async for remote, theirs in service.labelled({SERVER: labels[SERVER]}):
        if theirs.get(PROCESS) != labels[PROCESS] and is_left_over(theirs):
            await delete_quietly(remote)


def _too_large(call: Call, limits: Limits) -> Outcome | None:
    size = sum(map(len, call.arguments))
    if size <= limits.payload_bytes:
        return None
    message = f"the arguments have {size} bytes of JSON; at most {limits.payload_bytes} are allowed"
    return Exceeded(budget="payload", message=message)


def _fitting(calls: Sequence[Call], waiting: Sequence[int]) -> list[int]:
    """Return as many of those that wait as fit into one batch, at least one."""
    part: list[int] = []
    size = 0
    for index in waiting:
        size += sum(map(len, calls[index].arguments))
        if part and size > BATCH_BYTES:
            break
        part.append(index)
    return part

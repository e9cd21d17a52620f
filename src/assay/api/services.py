"""What the API needs of the rest: ports and flows, handed in by the wiring."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from fastapi import Request

from assay.domain.channel import ChannelKind
from assay.domain.outcome import Limits
from assay.engine import Engine
from assay.ingest.bodies import BodyLimits
from assay.live.meters import Meters
from assay.live.pipeline import LivePipeline
from assay.ports import Clock, Messenger, Queue, Store
from assay.vault import Vault


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The parts that requests are served with; whoever makes the application owns and closes them.

    `unready` says why the server cannot take work now although its store answers, None when it can. `limits` are those
    of one evaluation, `bodies` those of request bodies. So many `dry_runs` of a project run at once, four
    times as many may wait.
    """

    store: Store
    queue: Queue
    pipeline: LivePipeline
    engine: Engine
    clock: Clock
    meters: Meters
    vault: Vault
    messengers: Mapping[ChannelKind, Messenger]
    unready: Callable[[], Awaitable[str | None]] | None = None
    limits: Limits = field(default_factory=Limits)
    bodies: BodyLimits = field(default_factory=BodyLimits)
    dry_runs: int = 4


def services_of(request: Request) -> Services:
    """Return the services of the application that serves this request."""
    services: Services = request.app.state.services
    return services

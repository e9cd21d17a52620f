"""The HTTP application over a real store, with the live flow running, and a client for each role."""

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
from fastapi import FastAPI

from assay.api.application import Services, create_application
from assay.channels.apprise import AppriseMessenger
from assay.channels.webhook import WebhookMessenger
from assay.domain.access import ApiKey, Role
from assay.domain.channel import ChannelKind
from assay.domain.outcome import Limits
from assay.engine import Engine
from assay.guarded_http.address_guard import AddressGuard
from assay.ingest.bodies import BodyLimits
from assay.live.meters import Meters
from assay.live.pipeline import LivePipeline, Timing
from assay.ports import Messenger, Queue, Runner, Store
from assay.store.opening import open_store
from support.endpoint import LOOPBACK
from support.in_process import AnsweringRunner, InProcessRunner
from support.notifications import VAULT

EVALUATORS = "/agent-monitoring/custom-evaluators"
ROLES: tuple[Role, ...] = ("ingest", "member", "admin")
SMALL_BODIES = BodyLimits(wire_bytes=200_000, decompressed_bytes=400_000)
SCRIPT = """
async def handler(input, output, expected, metadata, trace):
    print("got", output)
    if output == "skip":
        return None
    return float(output)
"""


class SystemClock:
    def now_ns(self) -> int:
        return time.time_ns()


@dataclass(frozen=True, kw_only=True)
class Api:
    """A running application; `key` names the text of a role's key in a project."""

    app: FastAPI
    store: Store
    queue: Queue
    endpoint: AnsweringRunner
    http: httpx2.AsyncClient

    async def call(self, method: str, path: str, status: int = 200, **options: Any) -> Any:
        """Return the JSON of an answer that must have this status."""
        answer = await self.http.request(method, path, **options)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None

    async def create(self, **fields: Any) -> dict[str, Any]:
        body = {"name": "check", "kind": "code", "language": "python", "script": SCRIPT, "sampleRate": 1, **fields}
        return await self.call("POST", EVALUATORS, 201, json=body)

    async def send(self, output: str, agent: str = "desk") -> str:
        """Store a trace with this output; return its id."""
        spans = [{"span_id": "r", "name": "answer", "input": "q", "output": output, "latency_ms": 5}]
        answer = await self.call("POST", "/api/v1/traces", 201, json={"agent": agent, "spans": spans})
        return answer["traceIds"][0]

    async def settled(self) -> None:
        """Wait until all checks that are owed are recorded."""
        deadline = time.monotonic() + 30
        while await self.queue.depth():
            assert time.monotonic() < deadline, "the queue does not drain"
            await asyncio.sleep(0.01)


def key(role: Role, project_id: str = "default") -> str:
    return f"{role}-key-of-{project_id}"


@asynccontextmanager
async def running_api(
    database_url: str, answer: Any = None, *, settle_s: float = 0, external: Runner | None = None
) -> AsyncGenerator[Api]:
    """Run it; endpoints all give one answer, unless `external` calls real ones."""
    store, queue = await open_store(database_url)
    clock, meters = SystemClock(), Meters()
    endpoint = AnsweringRunner({"matches": True, "reason": "found"} if answer is None else answer)
    engine = Engine({"python": InProcessRunner(), "external": external or endpoint}, clock, Limits())
    timing = Timing(settle_s=settle_s)
    messengers: dict[ChannelKind, Messenger] = {
        "apprise": AppriseMessenger(VAULT, LOOPBACK),
        "webhook": WebhookMessenger(AddressGuard(LOOPBACK), VAULT),
    }
    pipeline = LivePipeline(
        store=store, queue=queue, engine=engine, clock=clock, timing=timing, meters=meters, messengers=messengers
    )
    services = Services(
        store=store,
        queue=queue,
        pipeline=pipeline,
        engine=engine,
        clock=clock,
        meters=meters,
        vault=VAULT,
        messengers=messengers,
        bodies=SMALL_BODIES,
    )
    async with store.transaction() as transaction:
        for project_id in ("default", "other"):
            for role in ROLES:
                await transaction.add_key(_stored_key(role, project_id))
    app = create_application(services)
    working = asyncio.create_task(pipeline.run())
    try:
        async with client(app, key("admin")) as http:
            yield Api(app=app, store=store, queue=queue, endpoint=endpoint, http=http)
    finally:
        await pipeline.stop()
        await working
        await messengers["webhook"].close()
        await queue.close()
        await store.close()


def client(app: FastAPI, key_text: str | None) -> httpx2.AsyncClient:
    headers = {} if key_text is None else {"x-api-key": key_text}
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://assay", headers=headers, timeout=30)


def _stored_key(role: Role, project_id: str) -> ApiKey:
    return ApiKey(
        id=f"key_{project_id}_{role}",
        project_id=project_id,
        role=role,
        digest=hashlib.sha256(key(role, project_id).encode()).hexdigest(),
        prefix=role,
        created_at_ns=1,
    )

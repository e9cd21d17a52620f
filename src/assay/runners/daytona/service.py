"""The Daytona service, as far as the runner uses it. Importing this needs the extra `assay[daytona]`."""

import math
import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import aiohttp
from daytona import (
    AsyncDaytona,
    AsyncSandbox,
    CreateSandboxFromSnapshotParams,
    DaytonaConfig,
    DaytonaError,
    FileUpload,
    ListSandboxesQuery,
)
from daytona.common.errors import DaytonaAuthenticationError, DaytonaForbiddenError

from assay.runners.daytona.failure import RefusedError, ServiceError
from assay.runners.daytona.kit import KIT_NAME, WORKER_NAME, kit, worker
from assay.runners.daytona.remote.batch import TOKEN_BYTES, Batch, packed

if TYPE_CHECKING:
    from collections.abc import Generator

CREATE_S = 120
UPLOAD_S = 60
ASK_S = 30
# What a batch takes at most beside its last evaluation, in seconds: the supervisor stops at twenty.
BATCH_S = 50
SHOWN = 300


@contextmanager
def _told() -> "Generator[None]":
    """Turn whatever the service or the way to it does into a ServiceError."""
    try:
        yield
    except (DaytonaAuthenticationError, DaytonaForbiddenError) as error:
        raise RefusedError(f"Daytona refused: {_short(error)}") from error
    except (DaytonaError, aiohttp.ClientError, OSError, TimeoutError) as error:
        raise ServiceError(f"Daytona failed: {_short(error)}") from error


def _short(error: Exception) -> str:
    text = str(error) or type(error).__name__
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"


class Remote:
    """One remote sandbox with our kit in it."""

    def __init__(self, sandbox: AsyncSandbox) -> None:
        self._sandbox = sandbox

    @property
    def id(self) -> str:
        """Return the service's name for it."""
        return self._sandbox.id

    async def run(self, batch: Batch) -> tuple[str, int, str]:
        """Run one batch; return its token, the exit code and what was printed. Raises ServiceError."""
        token, name = secrets.token_hex(TOKEN_BYTES // 2), f".assay-{secrets.token_hex(8)}"
        with _told():
            await self._sandbox.fs.upload_file(token.encode() + packed(batch), name, UPLOAD_S)
            answer = await self._sandbox.process.exec(
                f"python3 {KIT_NAME} {name}", timeout=math.ceil(BATCH_S + batch.limits["wall_s"])
            )
        return token, int(answer.exit_code or 0), answer.result

    async def delete(self) -> None:
        """Delete it. Raises ServiceError."""
        with _told():
            await self._sandbox.delete(ASK_S)


class Service:
    """A connection to Daytona."""

    def __init__(self, *, api_key: str, api_url: str | None, target: str | None, snapshot: str | None) -> None:
        with _told():
            self._client = AsyncDaytona(DaytonaConfig(api_key=api_key, api_url=api_url, target=target))
        self._snapshot = snapshot

    async def create(self, labels: Mapping[str, str], idle_minutes: int) -> Remote:
        """Start a sandbox without network that the service deletes when nobody used it for so long."""
        params = CreateSandboxFromSnapshotParams(
            snapshot=self._snapshot,
            labels=dict(labels),
            auto_stop_interval=idle_minutes,
            ephemeral=True,
            network_block_all=True,
        )
        with _told():
            sandbox = await self._client.create(params, timeout=CREATE_S)
        remote = Remote(sandbox)
        try:
            with _told():
                await sandbox.fs.upload_files(
                    [FileUpload(kit(), KIT_NAME), FileUpload(worker(), WORKER_NAME)], UPLOAD_S
                )
        except ServiceError:
            await remote.delete()
            raise
        return remote

    async def labelled(self, labels: Mapping[str, str]) -> AsyncGenerator[tuple[Remote, Mapping[str, str]]]:
        """Yield the sandboxes that have these labels, with all of theirs. Raises ServiceError."""
        with _told():
            async for sandbox in self._client.list(ListSandboxesQuery(labels=dict(labels)), request_timeout=ASK_S):
                yield Remote(sandbox), sandbox.labels

    async def probe(self) -> None:
        """Ask for something small. Raises ServiceError."""
        with _told():
            async for _ in self._client.list(ListSandboxesQuery(limit=1), request_timeout=ASK_S):
                return

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

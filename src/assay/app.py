"""The only wiring: settings to adapters to flows to the API, and the lifetimes of them all."""

import asyncio
import hashlib
import logging
import os
import secrets
import shutil
import socket
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

import structlog
import uvloop

from assay.api.application import Services, create_application
from assay.api.serving import GRACE_S, ApiServer, listen, raise_descriptor_limit, shown_url
from assay.channels.apprise import AppriseMessenger
from assay.channels.webhook import WebhookMessenger
from assay.domain import channel as channels
from assay.domain import credentials
from assay.domain.access import DEFAULT_PROJECT, ApiKey, Role
from assay.domain.channel import ChannelKind
from assay.domain.evaluator import Language
from assay.domain.identity import new_id
from assay.domain.outcome import Limits
from assay.engine import Engine, RunnerKey
from assay.errors import ConfigurationError, NotFoundError, SecretUnreadableError
from assay.guarded_http.address_guard import AddressGuard
from assay.live.meters import Meters
from assay.live.pipeline import LivePipeline, Timing
from assay.ports import CodeRunner, Messenger, Queue, Runner, Store
from assay.runners.daytona.runner import DaytonaRunner
from assay.runners.installed import start_installed
from assay.runners.local.runner import LocalRunner
from assay.runners.restricted.runner import RestrictedRunner
from assay.runners.sandbox.doctor import Finding, examine
from assay.runners.sandbox.runner import SandboxRunner
from assay.runners.webhook.runner import WebhookRunner
from assay.settings import Settings
from assay.store.opening import open_store
from assay.vault import Vault, keys_in_file

KIBIBYTE = 1024
MEBIBYTE = 1024 * KIBIBYTE
KEY_PREFIX = "assay_"
KEY_BYTES = 32
KEY_FILE = "secret.key"
SHOWN_OF_KEY = 10
LEAST_FREE_BYTES = 8 * MEBIBYTE
BUILT_IN_RUNNERS = ("sandbox", "restricted", "local", "daytona")
LANGUAGES: tuple[Language, ...] = ("python", "javascript", "typescript")

log = structlog.stdlib.get_logger("assay.server")


class SystemClock:
    """The time of day of this machine."""

    def now_ns(self) -> int:
        """Return nanoseconds since the epoch, UTC."""
        return time.time_ns()


def run_server(settings: Settings) -> None:
    """Serve until SIGINT or SIGTERM, then finish what runs; a second signal ends at once.

    Raises ConfigurationError and SandboxUnavailableError before anything is served.
    """
    _log_to_stderr(settings)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(settings))


async def create_key(settings: Settings, *, role: Role, project_id: str) -> str:
    """Make a key, store its hash, and return its text, which nobody can read again."""
    async with _opened_store(settings) as store:
        return await _add_key(store, _new_key_text(), role=role, project_id=project_id)


async def list_keys(settings: Settings) -> list[ApiKey]:
    """Return all keys, oldest first."""
    async with _opened_store(settings) as store, store.snapshot() as snapshot:
        return await snapshot.list_keys()


async def revoke_key(settings: Settings, key_id: str) -> None:
    """Delete a key; servers that have just seen it go on taking it for a few seconds. Raises NotFoundError."""
    async with _opened_store(settings) as store, store.transaction() as transaction:
        if not await transaction.delete_key(key_id):
            raise NotFoundError(f"There is no key with the id {key_id!r}; `assay keys list` shows those there are.")


@asynccontextmanager
async def _opened_store(settings: Settings) -> AsyncGenerator[Store]:
    store, queue = await open_store(settings.url, lease_s=settings.lease_s)
    try:
        yield store
    finally:
        await queue.close()
        await store.close()


async def examine_sandbox(settings: Settings) -> list[Finding]:
    """Look at what the sandbox can use on this machine. Raises ConfigurationError for packages it cannot offer."""
    return await examine(settings.sandbox_packages)


@asynccontextmanager
async def open_engine(settings: Settings) -> AsyncGenerator[Engine]:
    """Yield an engine that runs code, for use without a server."""
    code_runner = await _start_code_runner(settings)
    try:
        yield Engine(_code_runners(code_runner), SystemClock(), _limits(settings))
    finally:
        await code_runner.close()


async def _serve(settings: Settings) -> None:
    guard = AddressGuard(settings.external_allow)
    vault = _vault(settings)
    raise_descriptor_limit()
    listener = listen(settings.host, settings.port)
    store, queue = await open_store(settings.url, lease_s=settings.lease_s)
    try:
        await _ensure_admin_key(store, settings.admin_key)
        await _reseal_channels(store, vault)
        await _reseal_evaluators(store, vault)
        code_runner = await _start_code_runner(settings)
        if settings.code_runner == "local":
            log.warning("evaluators are not confined: they can do all that this server's user can", code_runner="local")
        webhook = WebhookRunner(guard, vault, at_once=settings.external_at_once)
        messengers: dict[ChannelKind, Messenger] = {
            "apprise": AppriseMessenger(vault, settings.external_allow),
            "webhook": WebhookMessenger(guard, vault),
        }
        try:
            await _serve_requests(settings, listener, store, queue, code_runner, webhook, vault, messengers)
        finally:
            for messenger in messengers.values():
                await messenger.close()
            await webhook.close()
            await code_runner.close()
    finally:
        await queue.close()
        await store.close()
        listener.close()


async def _serve_requests(
    settings: Settings,
    listener: socket.socket,
    store: Store,
    queue: Queue,
    code_runner: CodeRunner,
    webhook: WebhookRunner,
    vault: Vault,
    messengers: Mapping[ChannelKind, Messenger],
) -> None:
    clock, meters = SystemClock(), Meters()
    engine = Engine({**_code_runners(code_runner), "external": webhook}, clock, _limits(settings))
    pipeline = LivePipeline(
        store=store,
        queue=queue,
        engine=engine,
        clock=clock,
        timing=_timing(settings),
        meters=meters,
        messengers=messengers,
    )
    application = create_application(
        Services(
            store=store,
            queue=queue,
            engine=engine,
            pipeline=pipeline,
            clock=clock,
            meters=meters,
            vault=vault,
            messengers=messengers,
            limits=_limits(settings),
            unready=_unready(settings, code_runner),
        )
    )
    server = ApiServer(application)
    working = asyncio.create_task(pipeline.run(), name="live-pipeline")
    serving = asyncio.create_task(server.serve(sockets=[listener]), name="http-server")
    try:
        with server.told_to_stop() as told:
            log.info("listening", url=shown_url(listener), runner=code_runner.description)
            signalled = asyncio.create_task(told.wait(), name="signal")
            await asyncio.wait([serving, signalled], return_when=asyncio.FIRST_COMPLETED)
            signalled.cancel()
            # Requests and checks share the grace.
            await asyncio.gather(pipeline.stop(GRACE_S), serving)
    finally:
        await pipeline.stop(0)
        await working
        log.info("stopped")


def _vault(settings: Settings) -> Vault:
    """Return what seals users' secrets; raise ConfigurationError for keys that cannot be used."""
    keys = keys_in_file(settings.data_dir / KEY_FILE) if settings.secret_key is None else [settings.secret_key]
    return Vault([*keys, *settings.old_secret_keys])


async def _reseal_channels(store: Store, vault: Vault) -> None:
    """Seal with the current key what channels have sealed with an older one, so that the older can be thrown away."""
    async with store.snapshot() as snapshot:
        stored = await snapshot.channels_of_all_projects()
    for channel in stored:
        if vault.is_current(channel.sealed):
            continue
        place = channels.vault_place(channel.id)
        try:
            sealed = vault.seal(vault.open(channel.sealed, place=place), place=place)
        except SecretUnreadableError:
            log.warning("channel-unreadable", channel=channel.id)
            continue
        async with store.transaction() as transaction:
            await transaction.reseal_channel(channel.id, before=channel.sealed, after=sealed)


async def _reseal_evaluators(store: Store, vault: Vault) -> None:
    """Do the same for the credentials of external evaluators."""
    async with store.snapshot() as snapshot:
        stored = await snapshot.evaluators_with_credentials()
    for evaluator in stored:
        held = evaluator.credentials
        if held is None or vault.is_current(held.sealed):
            continue
        place = credentials.vault_place(evaluator.project_id, held.origin)
        try:
            sealed = vault.seal(vault.open(held.sealed, place=place), place=place)
        except SecretUnreadableError:
            log.warning("credentials-unreadable", evaluator=evaluator.id)
            continue
        async with store.transaction() as transaction:
            await transaction.reseal_credentials(evaluator.id, before=held, after=replace(held, sealed=sealed))


def _unready(settings: Settings, code_runner: CodeRunner) -> Callable[[], Awaitable[str | None]]:
    async def unready() -> str | None:
        if settings.database_url is None and shutil.disk_usage(settings.data_dir).free < LEAST_FREE_BYTES:
            return f"Less than {LEAST_FREE_BYTES // MEBIBYTE} MiB are free on the disk of the data folder."
        return await code_runner.unready()

    return unready


async def _ensure_admin_key(store: Store, preset: str | None) -> None:
    """Store the preset key, or make and print one when the store has no admin key yet."""
    if preset is not None:
        async with store.snapshot() as snapshot:
            known = await snapshot.key_by_digest(_digest(preset))
        if known is None:
            await _add_key(store, preset, role="admin", project_id=DEFAULT_PROJECT)
        elif known.role != "admin":
            raise ConfigurationError(f"ASSAY_ADMIN_KEY is a key of role {known.role} here; choose another one.")
        return
    async with store.snapshot() as snapshot:
        if any(key.role == "admin" for key in await snapshot.list_keys()):
            return
    text = await _add_key(store, _new_key_text(), role="admin", project_id=DEFAULT_PROJECT)
    print(f"Admin key (shown this once; only its hash is stored): {text}", flush=True)


async def _add_key(store: Store, text: str, *, role: Role, project_id: str) -> str:
    now_ns = time.time_ns()
    key = ApiKey(
        id=new_id("key", now_ns),
        project_id=project_id,
        role=role,
        digest=_digest(text),
        prefix=text[:SHOWN_OF_KEY] if text.startswith(KEY_PREFIX) else "preset",
        created_at_ns=now_ns,
    )
    async with store.transaction() as transaction:
        await transaction.add_key(key)
    return text


def _new_key_text() -> str:
    return KEY_PREFIX + secrets.token_urlsafe(KEY_BYTES)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


async def _start_code_runner(settings: Settings) -> CodeRunner:
    """Start the runner that the settings name. Raises ConfigurationError and SandboxUnavailableError."""
    workers = settings.sandbox_workers
    match settings.code_runner:
        case "sandbox":
            return await SandboxRunner.start(
                workers=workers, minimum=settings.sandbox_minimum, packages=settings.sandbox_packages
            )
        case "restricted":
            if settings.sandbox_packages:
                raise ConfigurationError(
                    f"ASSAY_SANDBOX_PACKAGES names {', '.join(settings.sandbox_packages)}, but ASSAY_CODE_RUNNER is "
                    "restricted, which offers no packages: leave one of the two out."
                )
            return await RestrictedRunner.start(workers=workers)
        case "local":
            return await LocalRunner.start(workers=workers)
        case "daytona":
            return await DaytonaRunner.start(
                api_key=settings.daytona_api_key,
                api_url=settings.daytona_api_url,
                target=settings.daytona_target,
                snapshot=settings.daytona_snapshot,
                store=settings.url,
            )
        case name:
            return await start_installed(name, os.environ, BUILT_IN_RUNNERS)


def _code_runners(runner: CodeRunner) -> dict[RunnerKey, Runner]:
    return {language: runner for language in LANGUAGES if language in runner.languages}


def _timing(settings: Settings) -> Timing:
    return Timing(
        settle_s=settings.settle_s,
        settle_max_s=settings.settle_max_s,
        lease_s=settings.lease_s,
        max_backlog=settings.max_backlog,
    )


def _limits(settings: Settings) -> Limits:
    return Limits(
        wall_s=settings.wall_s,
        cpu_s=settings.cpu_s,
        memory_bytes=settings.memory_mb * MEBIBYTE,
        source_bytes=settings.source_kb * KIBIBYTE,
        payload_bytes=settings.payload_mb * MEBIBYTE,
        result_bytes=settings.result_kb * KIBIBYTE,
        log_bytes=settings.log_kb * KIBIBYTE,
    )


def _log_to_stderr(settings: Settings) -> None:
    """Send our log and that of the libraries to standard error, without local variables: they hold users' data."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    last: list[structlog.typing.Processor] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if settings.log_format == "json"
        else [
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback, sort_keys=False
            )
        ]
    )
    handler = logging.StreamHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last]
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    # It tells in tracebacks of every request that the end of the server cut off; what fails is logged by ours.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    logging.getLogger("assay").setLevel(settings.log_level.upper())

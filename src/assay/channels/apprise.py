"""Everything apprise speaks (Slack, Teams, Discord, e-mail, PagerDuty, Opsgenie …), each message in its own process.

Apprise is synchronous and opens its own connections. A process can be held to allowed addresses whatever happens in it
(`apprise_process`), and ended when its time is over; a thread can be neither.
"""

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from weakref import WeakValueDictionary

from assay.channels.apprise_text import body_of, title_of, worst
from assay.domain.channel import Channel, target_of, vault_place
from assay.domain.notification import Notification
from assay.errors import InvalidInputError, SecretUnreadableError
from assay.ports import NotTold, Told
from assay.vault import Vault

BUDGET_S = 20.0
AT_ONCE = 16
AT_ONCE_OF_A_PROJECT = 4
COMMAND = (sys.executable, "-I", "-B", "-m", "assay.channels.apprise_process")


class AppriseMessenger:
    """Sends through apprise, 20 s for each message, to public addresses and those of `allow`.

    At most sixteen messages are on their way at once, four of them of one project.
    """

    def __init__(self, vault: Vault, allow: Sequence[str] = (), *, budget_s: float = BUDGET_S) -> None:
        self._vault = vault
        self._bounds: dict[str, Any] = {"allow": list(allow), "budget_s": budget_s}
        self._budget_s = budget_s
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._turns_of: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def shown(self, url: str, project_id: str) -> str:
        """Return the URL's scheme, since tokens stand anywhere behind it. Raises InvalidInputError."""
        async with self._project_turns(project_id), self._turns:
            answer = await self._asked({"url": url})
        if not answer["ok"]:
            raise InvalidInputError(
                f"The channel cannot be used: {answer['cause']}. docs/notifications.md shows URLs for each service.",
                field="url",
            )
        return f"{answer['schema']}://…"

    async def send(self, channel: Channel, notification: Notification) -> Told | NotTold:
        """Send the notification once, as text."""
        try:
            opened = target_of(self._vault.open(channel.sealed, place=vault_place(channel.id)))
        except SecretUnreadableError as error:
            return NotTold(cause=str(error))
        question = {
            "url": opened.url,
            "title": title_of(notification),
            "body": body_of(notification),
            "severity": worst(notification),
        }
        async with self._project_turns(channel.project_id), self._turns:
            answer = await self._asked(question)
        if answer["ok"]:
            return Told()
        return NotTold(cause=f"{channel.shown_url} failed: {answer['cause']}.", after_s=answer.get("after_s"))

    async def close(self) -> None:
        """Let go of nothing: every process ends with its message."""

    def _project_turns(self, project_id: str) -> asyncio.Semaphore:
        turns = self._turns_of.get(project_id) or asyncio.Semaphore(AT_ONCE_OF_A_PROJECT)
        self._turns_of[project_id] = turns
        return turns

    async def _asked(self, question: dict[str, Any]) -> dict[str, Any]:
        """Return what a process of its own answers; the secrets travel on its standard input."""
        process = await asyncio.create_subprocess_exec(
            *COMMAND, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env={}, cwd="/"
        )
        try:
            async with asyncio.timeout(self._budget_s):
                said, _ = await process.communicate(json.dumps({**question, **self._bounds}).encode())
        except TimeoutError:
            return {"ok": False, "cause": f"it did not take the message within {self._budget_s:g} s"}
        finally:
            await _ended(process)
        try:
            return json.loads(said)
        except ValueError:
            return {"ok": False, "cause": "sending it used too much memory or time"}


async def _ended(process: Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
        await asyncio.shield(process.wait())

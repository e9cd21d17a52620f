"""A real SMTP server on loopback that keeps what it is sent."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from email import message_from_bytes
from email.message import Message
from typing import Any

from aiosmtpd.smtp import SMTP


class MailServer:
    """Takes every message, or none when `refusing`."""

    def __init__(self, *, refusing: bool = False) -> None:
        self.messages: list[Message] = []
        self.connections = 0
        self.port = 0
        self._refusing = refusing

    async def handle_EHLO(self, server: Any, session: Any, envelope: Any, hostname: str, responses: list[str]) -> Any:
        self.connections += 1
        session.host_name = hostname
        return responses

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        if self._refusing:
            return "554 no spam here"
        self.messages.append(message_from_bytes(envelope.content))
        return "250 OK"


@asynccontextmanager
async def mail_server(*, refusing: bool = False) -> AsyncGenerator[MailServer]:
    handler = MailServer(refusing=refusing)
    server = await asyncio.get_running_loop().create_server(lambda: SMTP(handler), "127.0.0.1", 0)
    handler.port = server.sockets[0].getsockname()[1]
    try:
        yield handler
    finally:
        server.close()

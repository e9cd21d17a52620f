"""The signed webhook: a JSON body, posted to `webhook:https://…` with the signature of Standard Webhooks."""

import time
from urllib.parse import urlsplit

from assay.channels.webhook_body import webhook_body
from assay.domain.channel import Channel, target_of, vault_place
from assay.domain.notification import Notification
from assay.errors import InvalidInputError, SecretUnreadableError
from assay.guarded_http.address_guard import AddressGuard
from assay.guarded_http.exchange import Exchange
from assay.guarded_http.failure import CallError
from assay.guarded_http.target import masked, target
from assay.ports import NotTold, Told
from assay.signing import signature_headers
from assay.vault import Vault

PREFIX = "webhook:"
BUDGET_S = 10.0
# The receiver had said 2xx before its answer went wrong, and nobody needs the answer.
AFTER_SUCCESS = frozenset({"too_large", "not_json"})


class WebhookMessenger:
    """Posts signed notifications over connections to allowed addresses only; 10 s for all of an exchange."""

    def __init__(self, guard: AddressGuard, vault: Vault) -> None:
        self._vault = vault
        self._exchange = Exchange(guard)

    async def shown(self, url: str, project_id: str) -> str:
        """Return the URL without its path and query, where tokens live. Raises InvalidInputError."""
        address = url.removeprefix(PREFIX)
        try:
            target(address)
        except CallError as error:
            raise InvalidInputError(
                f"{error} A signed webhook is {PREFIX} and an https or http URL.", field="url"
            ) from error
        return _shown(address)

    async def send(self, channel: Channel, notification: Notification) -> Told | NotTold:
        """Post the notification once, signed with the channel's secret."""
        try:
            opened = target_of(self._vault.open(channel.sealed, place=vault_place(channel.id)))
        except SecretUnreadableError as error:
            return NotTold(cause=str(error))
        address = opened.url.removeprefix(PREFIX)
        body = webhook_body(notification)
        secrets = [opened.signing_secret] if opened.signing_secret else []
        headers = signature_headers(secrets, message_id=notification.id, timestamp_s=int(time.time()), body=body)
        try:
            await self._exchange.post(
                address,
                body,
                headers=[(name.encode(), value.encode()) for name, value in headers],
                left_s=BUDGET_S,
                budget_s=BUDGET_S,
            )
        except CallError as error:
            if error.kind in AFTER_SUCCESS:
                return Told()
            return NotTold(cause=_without_secrets(str(error), address), after_s=error.retry_after_s)
        return Told()

    async def close(self) -> None:
        """Close all connections."""
        await self._exchange.close()


def _shown(address: str) -> str:
    parts = urlsplit(address)
    has_more = parts.path not in ("", "/") or parts.query
    return f"{PREFIX}{parts.scheme}://{parts.netloc}/{'…' if has_more else ''}"


def _without_secrets(cause: str, address: str) -> str:
    """Return the message with the path taken out wherever it stands: it may be a token."""
    path = urlsplit(address).path
    cause = cause.replace(masked(address), _shown(address).removeprefix(PREFIX))
    return cause.replace(path, "/…") if len(path) > 1 else cause

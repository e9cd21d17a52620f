"""Secrets at rest: what users entrust to us is stored sealed, with a key that is not in the database.

AES-256-GCM, its key derived from the operator's text by HKDF-SHA256. A sealed secret names the key it was sealed with
and is bound to its place, so that a row copied elsewhere opens nothing.
"""

import os
import secrets
import stat
from collections.abc import Sequence
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from assay.errors import ConfigurationError, SecretUnreadableError

SHORTEST_KEY = 32
VERSION = b"\x01"
KEY_BYTES = 32
NAME_BYTES = 8
NONCE_BYTES = 12
INFO = b"assay vault 1"
OTHERS = stat.S_IRWXG | stat.S_IRWXO


class Vault:
    """Seals with the first key and opens with any of them; each is the operator's text, of 32 characters or more.

    Raises ConfigurationError for a key that is too short.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        for key in keys:
            if len(key) < SHORTEST_KEY:
                raise ConfigurationError(
                    f"A key for secrets has {len(key)} characters; it needs at least {SHORTEST_KEY}. "
                    "`openssl rand -base64 32` makes one."
                )
        named = [_derived(key) for key in keys]
        self._current = named[0][0]
        self._ciphers = dict(reversed(named))

    def seal(self, secret: str, *, place: str) -> bytes:
        """Return the secret sealed for this place, which names the row and field that will hold it."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        sealed = self._ciphers[self._current].encrypt(nonce, secret.encode(), place.encode())
        return VERSION + self._current + nonce + sealed

    def open(self, sealed: bytes, *, place: str) -> str:
        """Return the secret; raise SecretUnreadableError when no key opens it here."""
        name, nonce, rest = _parts(sealed)
        cipher = self._ciphers.get(name) if sealed.startswith(VERSION) and rest else None
        if cipher is None:
            raise SecretUnreadableError(
                "A stored secret was sealed with a key that this server does not have: start it with that key "
                "(ASSAY_SECRET_KEY, ASSAY_OLD_SECRET_KEYS or the key file), or set the secret again."
            )
        try:
            return cipher.decrypt(nonce, rest, place.encode()).decode()
        except InvalidTag as error:
            raise SecretUnreadableError(
                "A stored secret is damaged, or was copied from elsewhere: set it again."
            ) from error

    def is_current(self, sealed: bytes) -> bool:
        """Tell whether a secret was sealed with the key that seals now."""
        return sealed.startswith(VERSION + self._current)


def keys_in_file(path: Path) -> list[str]:
    """Return the keys of a file, one a line, the current one first; make it with a new key where there is none.

    Raises ConfigurationError for a file that others can read, holds no key, or can be neither read nor made.
    """
    try:
        if not path.exists():
            _make(path)
        if path.stat().st_mode & OTHERS:
            raise ConfigurationError(f"{path} can be read by others; `chmod 600 {path}` takes that away.")
        keys = path.read_text().split()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"The file of the key for secrets, {path}, can be neither read nor made ({type(error).__name__}); "
            "set ASSAY_SECRET_KEY instead."
        ) from error
    if not keys:
        raise ConfigurationError(f"{path} holds no key; put it back from a copy, or remove it to get a new one.")
    return keys


def _make(path: Path) -> None:
    """Write a new key whole or not at all, whoever else does the same at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(KEY_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink(missing_ok=True)


def _derived(key: str) -> tuple[bytes, AESGCM]:
    made = HKDF(algorithm=SHA256(), length=KEY_BYTES + NAME_BYTES, salt=None, info=INFO).derive(key.encode())
    return made[KEY_BYTES:], AESGCM(made[:KEY_BYTES])


def _parts(sealed: bytes) -> tuple[bytes, bytes, bytes]:
    name_ends = len(VERSION) + NAME_BYTES
    nonce_ends = name_ends + NONCE_BYTES
    return sealed[len(VERSION) : name_ends], sealed[name_ends:nonce_ends], sealed[nonce_ends:]

"""A process that sends one message through apprise and ends; what it can reach is held here, whatever the URL says.

Apprise's services open their own connections, so the guard stands below them all: the interpreter reports every
connection before it is made, with the address it goes to, and refuses those that are not allowed. A host name is no
address, so each name was looked up before, and what is judged is what is connected to. Files outside of the
interpreter's own, other processes and listening sockets are refused the same way. Redirects are not followed, and
answers are read up to a limit.

Reads a JSON object on standard input (`url`, `allow`, `budget_s`, and to send also `title`, `body`, `severity`) and
writes one on standard output (`ok`, `schema`, `cause`, `after_s`). It ends after its budget, in seconds, also when
nobody waits for it any more.
"""

import json
import logging
import mimetypes
import resource
import signal
import socket
import sys
from email.utils import parsedate_to_datetime
from ipaddress import IPv4Address, IPv6Address, ip_address
from math import ceil
from pathlib import Path
from time import time
from typing import Any, cast
from urllib.parse import unquote

import apprise
import requests

import assay
from assay.guarded_http.address_guard import AddressGuard

MEBIBYTE = 1024 * 1024
MEMORY_BYTES = 1024 * MEBIBYTE
CPU_S = 15
ANSWER_BYTES = MEBIBYTE
PIECE_BYTES = 64 * 1024
SHORTEST_SECRET = 4
LONGEST_CAUSE = 300
# These speak to the machine they run on, by ways that no guard of connections sees.
LOCAL_SERVICES = frozenset({"blink1", "dbus", "glib", "gnome", "growl", "macosx", "rsyslog", "syslog", "windows"})
OF_THIS_MACHINE = "it wants a file, a program or a service of the server's own machine, which channels may not have"
REFUSED_EVENTS = frozenset(
    {
        "os.exec",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.spawn",
        "os.startfile",
        "os.system",
        "pty.spawn",
        "socket.bind",
        "sqlite3.connect",
        "subprocess.Popen",
        "syslog.openlog",
        "syslog.syslog",
    }
)
TELLING = frozenset({"WARNING", "ERROR", "CRITICAL"})
TYPES = {
    "low": apprise.NotifyType.INFO,
    "medium": apprise.NotifyType.WARNING,
    "high": apprise.NotifyType.FAILURE,
    "critical": apprise.NotifyType.FAILURE,
}


class RefusedError(OSError):
    """The service wanted something that no channel may have."""


class Custody:
    """Refuses connections to addresses that are not allowed, and remembers what came of those that are."""

    def __init__(self, allow: list[str]) -> None:
        self.has_blocked = False
        self.has_refused = False
        self.status: int | None = None
        self.after_s: float | None = None
        self._guard = AddressGuard(allow)
        self._names: dict[str, str] = {}
        self._roots = tuple(
            f"{Path(root).resolve()}/"
            for root in {sys.prefix, sys.base_prefix, str(Path(assay.__file__).parent), "/usr/share/zoneinfo"}
        )

    def begin(self) -> None:
        """Hold everything from now on; there is no way back."""
        mimetypes.init(files=[])
        self._watch_look_ups()
        self._watch_answers()
        sys.addaudithook(self._judge)

    def _judge(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "socket.connect":
            self._demand_allowed(arguments[1])
        elif event in ("socket.sendto", "socket.sendmsg"):
            if arguments[1] is not None:
                self._demand_allowed(arguments[1])
        elif event == "open":
            self._demand_own_file(*arguments)
        elif event in REFUSED_EVENTS:
            self.has_refused = True
            raise RefusedError(f"{event} is not for channels")

    def _demand_allowed(self, address: object) -> None:
        host = cast("tuple[Any, ...]", address)[0] if isinstance(address, tuple) and address else None
        found = _address(host)
        if found is None or not self._guard.allows(self._names.get(str(found), str(found)), found):
            self.has_blocked = True
            raise RefusedError("the address is not public")

    def _demand_own_file(self, path: object, mode: object, flags: object) -> None:
        is_reading = isinstance(flags, int) and not flags & (0o3 | 0o100 | 0o1000 | 0o2000)
        if isinstance(path, int):
            return
        text = path.decode("utf-8", "replace") if isinstance(path, bytes) else str(path)
        if not is_reading or not str(Path(text).resolve()).startswith(self._roots):
            self.has_refused = True
            raise RefusedError("files are not for channels")

    def _watch_look_ups(self) -> None:
        """Remember which name led to which address, since hosts are allowed by name too."""
        look_up = socket.getaddrinfo

        def remembering(host: Any, *arguments: Any, **options: Any) -> Any:
            found = look_up(host, *arguments, **options)
            for entry in found:
                self._names[str(ip_address(entry[4][0]))] = host.decode() if isinstance(host, bytes) else str(host)
            return found

        socket.getaddrinfo = remembering

    def _watch_answers(self) -> None:
        """Follow no redirect, read no more than a megabyte, and remember the last status that was a failure."""
        send, custody = requests.Session.send, self

        def bounded(self: requests.Session, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
            response = send(self, request, **{**kwargs, "allow_redirects": False, "stream": True})
            content = bytearray()
            for piece in response.iter_content(PIECE_BYTES):
                content += piece
                if len(content) > ANSWER_BYTES:
                    response.close()
                    raise requests.exceptions.ContentDecodingError("the answer is too large")
            response._content = bytes(content)  # pyright: ignore[reportPrivateUsage]
            if not response.ok or response.is_redirect:
                custody.status = response.status_code
                custody.after_s = _after_s(response.headers.get("retry-after", ""))
            return response

        requests.Session.send = bounded


def main() -> None:
    """Do what standard input asks."""
    asked: dict[str, Any] = json.load(sys.stdin)
    signal.alarm(ceil(asked["budget_s"]))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    logging.getLogger("apprise").addHandler(logging.NullHandler())
    custody = Custody(asked["allow"])
    custody.begin()
    answer = _answer(custody, asked)
    sys.stdout.write(json.dumps(answer))


def _answer(custody: Custody, asked: dict[str, Any]) -> dict[str, Any]:
    asset = apprise.AppriseAsset(
        app_id="Assay",
        app_desc="Assay",
        app_url="",
        async_mode=False,
        secure_logging=True,
        storage_mode=apprise.PersistentStoreMode.MEMORY,
        http_redirects=False,
    )
    url: str = asked["url"]
    library: Any = apprise.Apprise
    try:
        service = library.instantiate(url, asset=asset, suppress_exceptions=True)
    except Exception as error:
        return {"ok": False, "cause": f"its URL cannot be read ({type(error).__name__})"}
    module = type(service).__module__.removeprefix("apprise.plugins.").partition(".")[0]
    if module in LOCAL_SERVICES or custody.has_refused:
        return {"ok": False, "cause": OF_THIS_MACHINE}
    if service is None:
        return {"ok": False, "cause": "its URL is not one of apprise's, or lacks something"}
    named = {"schema": url.partition("://")[0].lower()}
    if "body" not in asked:
        return {"ok": True, **named}
    sender = library(asset=asset)
    sender.add(service)
    result = sender.notify(
        title=asked["title"],
        body=asked["body"],
        notify_type=TYPES[asked["severity"]],
        body_format=apprise.NotifyFormat.TEXT,
    )
    if result:
        return {"ok": True, **named}
    said = [entry.message for entry in result.logs() if entry.level in TELLING]
    return {"ok": False, "cause": _cause(custody, said, url), "after_s": custody.after_s, **named}


def _cause(custody: Custody, said: list[str], url: str) -> str:
    if custody.has_blocked:
        return "it is not at a public address, and the operator has not allowed it; nothing was sent"
    if custody.has_refused:
        return OF_THIS_MACHINE
    if custody.status is not None:
        redirected = "; redirects are not followed" if 300 <= custody.status < 400 else ""
        return f"it answered {custody.status}{redirected}"
    return _without_secrets("; ".join(said), url)[:LONGEST_CAUSE].rstrip(".") or "it did not take the message"


def _without_secrets(text: str, url: str) -> str:
    """Return the text without any part of the URL behind its scheme, since each may be a token."""
    rest = unquote(url.partition("://")[2])
    for separator in "/:@?&=+,#":
        rest = rest.replace(separator, "\n")
    for part in sorted(set(rest.split("\n")), key=len, reverse=True):
        if len(part) >= SHORTEST_SECRET:
            text = text.replace(part, "…")
    return text


def _address(host: object) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)  # pyright: ignore[reportArgumentType]
    except ValueError:
        return None


def _after_s(text: str) -> float | None:
    if text.strip().isdecimal():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time())
    except ValueError:
        return None


if __name__ == "__main__":
    main()

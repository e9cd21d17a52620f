"""Who started a remote sandbox: labels that name this server and this process of it."""

import hashlib
import os
import socket
from collections.abc import Mapping
from pathlib import Path

SERVER, PROCESS = "assay-server", "assay-process"


def labels_of(store: str) -> dict[str, str]:
    """Return the labels of sandboxes of this process; `store` is what tells a server from others on this host."""
    name = hashlib.sha256(f"{socket.gethostname()}\0{store}".encode()).hexdigest()[:32]
    return {SERVER: name, PROCESS: f"{os.getpid()}-{_started(os.getpid())}"}


def is_left_over(labels: Mapping[str, str]) -> bool:
    """Tell whether the process on this host that these labels name is gone."""
    pid, _, started = labels.get(PROCESS, "").partition("-")
    if not pid.isdecimal():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return _started(int(pid)) != started


def _started(pid: int) -> str:
    """Return when a process began, in its kernel's terms; nothing where that cannot be read."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""

"""What a process gives up in the sandbox before it runs somebody else's code: files and system calls."""

import ctypes
import os
from collections.abc import Callable, Sequence

from assay.runners.children.bounds import checked, libc
from assay.runners.sandbox import syscalls

_SET_SECCOMP, _SECCOMP_FILTER = 22, 2
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_LANDLOCK_VERSION = 1
_READ_FILE, _READ_DIRECTORY = 1 << 2, 1 << 3


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def landlock_abi() -> int:
    """Return the kernel's Landlock ABI; 0 when it has none or has it switched off."""
    return max(0, libc.syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_LANDLOCK_VERSION)))


def confine_files(readable: Sequence[str]) -> None:
    """Enter a Landlock domain: these files and trees may be read, nothing written, run, connected or signalled.

    Call it after `forgo_privileges`. Paths that do not exist are passed over. Raises OSError.
    """
    abi = landlock_abi()
    files = (1 << (13 if abi == 1 else 14 if abi == 2 else 15 if abi < 5 else 16)) - 1
    ruleset = _Ruleset(files, 3 if abi >= 4 else 0, 3 if abi >= 6 else 0)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    domain = checked(
        libc.syscall(_LANDLOCK_CREATE, ctypes.byref(ruleset), ctypes.c_size_t(size), ctypes.c_uint32(0)),
        "landlock_create_ruleset",
    )
    for path in readable:
        _allow_reading(domain, path)
    checked(libc.syscall(_LANDLOCK_RESTRICT, domain, ctypes.c_uint32(0)), "landlock_restrict_self")
    os.close(domain)


def _allow_reading(domain: int, path: str) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        rule = _PathRule(_READ_FILE | _READ_DIRECTORY if os.path.isdir(path) else _READ_FILE, descriptor)
        checked(libc.syscall(_LANDLOCK_ADD, domain, 1, ctypes.byref(rule), ctypes.c_uint32(0)), "landlock_add_rule")
    finally:
        os.close(descriptor)


def prepare_filter(*, may_open: bool) -> Callable[[], None]:
    """Return a function that applies the seccomp filter to the calling process, for good; it raises OSError.

    All that allocates is done here, so that the child only makes one system call.
    """
    code = syscalls.program(os.uname().machine, may_open=may_open)
    kept = ctypes.create_string_buffer(code, len(code))
    filter_program = _FilterProgram(len(code) // 8, ctypes.cast(kept, ctypes.c_void_p))
    address = ctypes.addressof(filter_program)

    def apply(keep: tuple[object, ...] = (kept, filter_program)) -> None:
        checked(
            libc.prctl(
                _SET_SECCOMP, ctypes.c_ulong(_SECCOMP_FILTER), ctypes.c_ulong(address), ctypes.c_ulong(0),
                ctypes.c_ulong(0),
            ),
            "seccomp",
        )  # fmt: skip

    return apply

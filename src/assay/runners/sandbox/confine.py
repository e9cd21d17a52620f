"""What a process gives up before it runs somebody else's code: files, system calls, capabilities and resources."""

import ctypes
import mmap
import os
import resource
import signal
from collections.abc import Callable, Sequence

from assay.runners.sandbox import syscalls

_SET_DEATH_SIGNAL, _SET_NO_NEW_PRIVILEGES, _SET_SECCOMP, _SECCOMP_FILTER = 1, 38, 22, 2
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_LANDLOCK_VERSION = 1
_READ_FILE, _READ_DIRECTORY = 1 << 2, 1 << 3
_CAPSET = {"x86_64": 126, "aarch64": 91}
_CAPABILITY_VERSION = 0x20080522

MOST_FILES = 64

_libc = ctypes.CDLL(None, use_errno=True)


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


class _CapabilityHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


def landlock_abi() -> int:
    """Return the kernel's Landlock ABI; 0 when it has none or has it switched off."""
    return max(0, _libc.syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_LANDLOCK_VERSION)))


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _prctl(option: int, value: int, what: str) -> None:
    _checked(_libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)), what)


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends."""
    _prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, "PR_SET_PDEATHSIG")


def forgo_privileges() -> None:
    """Give up all capabilities, and the means to gain any by exec. Raises OSError."""
    _prctl(_SET_NO_NEW_PRIVILEGES, 1, "PR_SET_NO_NEW_PRIVS")
    number = _CAPSET.get(os.uname().machine)
    if number is not None:
        header, nothing = _CapabilityHeader(_CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
        _checked(_libc.syscall(number, ctypes.byref(header), ctypes.byref(nothing)), "capset")


def confine_files(readable: Sequence[str]) -> None:
    """Enter a Landlock domain: these files and trees may be read, nothing written, run, connected or signalled.

    Call it after `forgo_privileges`. Paths that do not exist are passed over. Raises OSError.
    """
    abi = landlock_abi()
    files = (1 << (13 if abi == 1 else 14 if abi == 2 else 15 if abi < 5 else 16)) - 1
    ruleset = _Ruleset(files, 3 if abi >= 4 else 0, 3 if abi >= 6 else 0)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    domain = _checked(
        _libc.syscall(_LANDLOCK_CREATE, ctypes.byref(ruleset), ctypes.c_size_t(size), ctypes.c_uint32(0)),
        "landlock_create_ruleset",
    )
    for path in readable:
        _allow_reading(domain, path)
    _checked(_libc.syscall(_LANDLOCK_RESTRICT, domain, ctypes.c_uint32(0)), "landlock_restrict_self")
    os.close(domain)


def _allow_reading(domain: int, path: str) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        rule = _PathRule(_READ_FILE | _READ_DIRECTORY if os.path.isdir(path) else _READ_FILE, descriptor)
        _checked(_libc.syscall(_LANDLOCK_ADD, domain, 1, ctypes.byref(rule), ctypes.c_uint32(0)), "landlock_add_rule")
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
        _checked(
            _libc.prctl(
                _SET_SECCOMP, ctypes.c_ulong(_SECCOMP_FILTER), ctypes.c_ulong(address), ctypes.c_ulong(0),
                ctypes.c_ulong(0),
            ),
            "seccomp",
        )  # fmt: skip

    return apply


def address_space_bytes() -> int:
    """Return how much address space this process has mapped, found by lowering the limit until mapping fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    low, high = 0, 1 << 40
    while high - low > 1 << 16:
        middle = (low + high) // 2
        resource.setrlimit(resource.RLIMIT_AS, (middle, hard))
        try:
            mmap.mmap(-1, mmap.PAGESIZE).close()
        except (OSError, MemoryError):
            low = middle
        else:
            high = middle
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    return high


def limit_files() -> None:
    """Forbid core files and growing any file, and leave a few descriptors: inherited by every child."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (MOST_FILES, MOST_FILES))


def limit_memory(mapped_bytes: int, memory_bytes: int) -> None:
    """Cap the address space at what is mapped already plus `memory_bytes`."""
    cap = mapped_bytes + memory_bytes
    resource.setrlimit(resource.RLIMIT_AS, (cap, cap))

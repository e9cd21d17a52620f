"""What bounds any process of ours that runs an author's code: rights, resources, and the life of its parent."""

import ctypes
import mmap
import os
import resource
import signal

_SET_DEATH_SIGNAL, _SET_NO_NEW_PRIVILEGES = 1, 38
_CAPSET = {"x86_64": 126, "aarch64": 91}
_CAPABILITY_VERSION = 0x20080522

MOST_FILES = 64

libc = ctypes.CDLL(None, use_errno=True)


class _CapabilityHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


def checked(result: int, what: str) -> int:
    """Return the result of a system call. Raises OSError when it failed."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def prctl(option: int, value: int, what: str) -> None:
    """Have the kernel change this process. Raises OSError when it refuses."""
    checked(libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)), what)


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends."""
    prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, "PR_SET_PDEATHSIG")


def forgo_privileges() -> None:
    """Give up all capabilities, and the means to gain any by exec. Raises OSError."""
    prctl(_SET_NO_NEW_PRIVILEGES, 1, "PR_SET_NO_NEW_PRIVS")
    number = _CAPSET.get(os.uname().machine)
    if number is not None:
        header, nothing = _CapabilityHeader(_CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
        checked(libc.syscall(number, ctypes.byref(header), ctypes.byref(nothing)), "capset")


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

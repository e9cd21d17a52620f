"""The system calls confined code may make, as a seccomp program. Everything else answers EPERM."""

import struct

_X86_64: dict[str, int] = {
    "read": 0, "write": 1, "open": 2, "close": 3, "stat": 4, "fstat": 5, "lstat": 6, "poll": 7, "lseek": 8, "mmap": 9,
    "mprotect": 10, "munmap": 11, "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15,
    "pread64": 17, "readv": 19, "writev": 20, "access": 21, "select": 23, "sched_yield": 24, "mremap": 25,
    "madvise": 28, "dup": 32, "dup2": 33, "nanosleep": 35, "getitimer": 36, "setitimer": 38, "getpid": 39,
    "sendto": 44, "recvfrom": 45, "ioctl": 16, "socketpair": 53, "exit": 60, "uname": 63, "fcntl": 72, "getcwd": 79,
    "readlink": 89, "gettimeofday": 96, "getrusage": 98, "sysinfo": 99, "times": 100, "getuid": 102, "getgid": 104,
    "geteuid": 107, "getegid": 108, "getppid": 110, "sigaltstack": 131, "gettid": 186, "time": 201, "futex": 202,
    "sched_getaffinity": 204, "getdents64": 217, "restart_syscall": 219, "clock_gettime": 228, "clock_getres": 229,
    "clock_nanosleep": 230, "exit_group": 231, "epoll_wait": 232, "epoll_ctl": 233, "openat": 257, "newfstatat": 262,
    "readlinkat": 267, "faccessat": 269, "pselect6": 270, "ppoll": 271, "epoll_pwait": 281, "eventfd2": 290,
    "epoll_create1": 291, "dup3": 292, "pipe2": 293, "getcpu": 309, "getrandom": 318, "membarrier": 324, "statx": 332,
    "faccessat2": 439,
}  # fmt: skip
_ARM64: dict[str, int] = {
    "getcwd": 17, "eventfd2": 19, "epoll_create1": 20, "epoll_ctl": 21, "epoll_pwait": 22, "dup": 23, "dup3": 24,
    "ioctl": 29, "fcntl": 25, "faccessat": 48, "openat": 56, "close": 57, "pipe2": 59, "getdents64": 61, "lseek": 62,
    "read": 63, "write": 64, "readv": 65, "writev": 66, "pread64": 67, "pselect6": 72, "ppoll": 73, "readlinkat": 78,
    "newfstatat": 79, "fstat": 80, "exit": 93, "exit_group": 94, "futex": 98, "nanosleep": 101, "getitimer": 102,
    "setitimer": 103, "clock_gettime": 113, "clock_getres": 114, "clock_nanosleep": 115, "sched_getaffinity": 123,
    "sched_yield": 124, "restart_syscall": 128, "sigaltstack": 132, "rt_sigaction": 134, "rt_sigprocmask": 135,
    "rt_sigreturn": 139, "times": 153, "uname": 160, "getrusage": 165, "getcpu": 168, "gettimeofday": 169,
    "getpid": 172, "getppid": 173, "getuid": 174, "geteuid": 175, "getgid": 176, "getegid": 177, "gettid": 178,
    "sysinfo": 179, "socketpair": 199, "sendto": 206, "recvfrom": 207, "brk": 214, "munmap": 215, "mremap": 216,
    "mmap": 222, "mprotect": 226, "madvise": 233, "getrandom": 278, "membarrier": 283, "statx": 291,
    "faccessat2": 439,
}  # fmt: skip
_TABLES: dict[str, tuple[int, dict[str, int]]] = {
    "x86_64": (0xC000003E, _X86_64),
    "aarch64": (0xC00000B7, _ARM64),
}
_OPENS = ("open", "openat")
# Calls of which only some commands (the second argument) are allowed. fcntl: for descriptors and their flags, since
# F_SETOWN and F_SETSIG could send any signal to another process. ioctl: FIONBIO, which makes a socket non-blocking.
_COMMANDS: dict[str, tuple[int, ...]] = {"fcntl": (0, 1, 2, 3, 4, 1030), "ioctl": (0x5421,)}
# sendto is allowed without an address: a datagram socket could otherwise reach other processes' sockets.
_ADDRESSED = "sendto"
_X32_BIT = 0x40000000

_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _ARCH, _SECOND_ARGUMENT, _FIFTH_ARGUMENT = 0, 4, 24, 48
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000 | 1, 0x80000000


def supported(machine: str) -> bool:
    """Tell whether there is a table for this machine (`os.uname().machine`)."""
    return machine in _TABLES


def program(machine: str, *, may_open: bool) -> bytes:
    """Return the filter as an array of `struct sock_filter`; another architecture is killed, x32 refused.

    Without `may_open` no file can be opened any more. Raises KeyError for an unknown machine.
    """
    arch, table = _TABLES[machine]
    special = {*_COMMANDS, _ADDRESSED, *(() if may_open else _OPENS)}
    numbers = [number for name, number in table.items() if name not in special]
    code = [
        (_LOAD, 0, 0, _ARCH),
        (_JUMP_EQUAL, 1, 0, arch),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_AT_LEAST, 0, 1, _X32_BIT),
        (_RETURN, 0, 0, _REFUSE),
    ]
    for number in numbers:
        code += [(_JUMP_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ALLOW)]
    for name, commands in _COMMANDS.items():
        code += [(_JUMP_EQUAL, 0, 2 + 2 * len(commands), table[name]), (_LOAD, 0, 0, _SECOND_ARGUMENT)]
        for command in commands:
            code += [(_JUMP_EQUAL, 0, 1, command), (_RETURN, 0, 0, _ALLOW)]
        code.append((_RETURN, 0, 0, _REFUSE))
    code += [
        (_JUMP_EQUAL, 0, 5, table[_ADDRESSED]),
        (_LOAD, 0, 0, _FIFTH_ARGUMENT),
        (_JUMP_EQUAL, 0, 3, 0),
        (_LOAD, 0, 0, _FIFTH_ARGUMENT + 4),
        (_JUMP_EQUAL, 0, 1, 0),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    ]
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in code)

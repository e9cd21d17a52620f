"""Attacks on what lies outside: files, network, other processes and the kernel."""

import os
import platform
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from assay.domain.outcome import Raised, Returned
from assay.runners.sandbox.runner import SandboxRunner
from support.sandbox import is_running, own_descendants, run, value_of
from support.server import wait_for

# The blocking look at a file is part of what is tested.
# ruff: noqa: ASYNC240
pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET = "a line that nobody may see"
TRY = """
def attempt(step):
    try:
        return "done: " + repr(step())
    except BaseException as error:
        return "refused: " + type(error).__name__
"""
SYSCALL = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

def call(number, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(argument) for argument in arguments])
    return [result, ctypes.get_errno()]
"""


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "secret.txt"
    file.write_text(SECRET)
    return file


READERS = {
    "open": "open(inputs).read()",
    "os.open": "__import__('os').read(__import__('os').open(inputs, 0), 99)",
    "io.FileIO": "__import__('io').FileIO(inputs).read()",
    "mmap": "__import__('mmap').mmap(__import__('os').open(inputs, 0), 0, prot=1)[:]",
    "linecache": "__import__('linecache').getlines(inputs)",
    "a loader": "__import__('importlib.machinery').machinery.SourceFileLoader('x', inputs).get_data(inputs)",
    "through /proc": "open('/proc/self/root' + inputs).read()",
    "up from the library": "open(__import__('os').__file__ + '/../../../../../../../../../../..' + inputs).read()",
}


@pytest.mark.parametrize("how", READERS)
async def test_a_file_cannot_be_read(runner: SandboxRunner, secret: Path, how: str) -> None:
    source = f"def evaluate(inputs, outputs, trace):\n    return str({READERS[how]})"
    [outcome] = await run(runner, source, str(secret))
    assert SECRET not in repr(outcome)


async def test_files_of_the_machine_cannot_be_read_or_listed(runner: SandboxRunner) -> None:
    source = f"""
import os
{TRY}
def evaluate(inputs, outputs, trace):
    reads = [attempt(lambda: open(path).read(50)) for path in inputs]
    lists = [attempt(lambda: os.listdir(path)) for path in ("/etc", "/root", "/home", "/tmp", "/proc")]
    return reads + lists
"""
    places = ["/etc/passwd", "/etc/hostname", "/proc/cpuinfo", "/proc/1/cmdline", "/proc/self/maps", "/sys/kernel/mm"]
    assert [step for step in await value_of(runner, source, places) if not step.startswith("refused")] == []


async def test_the_servers_own_code_and_packages_cannot_be_read(runner: SandboxRunner) -> None:
    import fastapi

    import assay.settings

    source = "def evaluate(inputs, outputs, trace):\n    return open(inputs).read()"
    for module in (assay.settings, fastapi):
        [outcome] = await run(runner, source, module.__file__)
        assert isinstance(outcome, Raised)


WRITERS = {
    "open": "open(inputs + '/new', 'w').write('x')",
    "truncate": "open(inputs + '/old', 'r+').truncate(0)",
    "overwrite": "open(inputs + '/old', 'w').write('x')",
    "unlink": "os.unlink(inputs + '/old')",
    "rename": "os.rename(inputs + '/old', inputs + '/new')",
    "symlink": "os.symlink('/etc/passwd', inputs + '/new')",
    "link": "os.link(inputs + '/old', inputs + '/new')",
    "chmod": "os.chmod(inputs + '/old', 0o777)",
    "mkdir": "os.mkdir(inputs + '/new')",
    "mkfifo": "os.mkfifo(inputs + '/new')",
    "os.truncate": "os.truncate(inputs + '/old', 0)",
    "utime": "os.utime(inputs + '/old', (0, 0))",
}


@pytest.mark.parametrize("how", WRITERS)
async def test_nothing_can_be_written(runner: SandboxRunner, tmp_path: Path, how: str) -> None:
    old = tmp_path / "old"
    old.write_text(SECRET)
    before = old.stat()
    source = f"import os\ndef evaluate(inputs, outputs, trace):\n    {WRITERS[how]}\n    return True"
    [outcome] = await run(runner, source, str(tmp_path))
    assert isinstance(outcome, Raised)
    assert list(tmp_path.iterdir()) == [old]
    assert old.read_text() == SECRET
    assert (old.stat().st_mode, old.stat().st_mtime_ns) == (before.st_mode, before.st_mtime_ns)


async def test_no_shared_place_takes_a_file(runner: SandboxRunner) -> None:
    name = f"assay-attack-{os.getpid()}"
    source = f"""
{TRY}
def evaluate(inputs, outputs, trace):
    places = ("/tmp/", "/dev/shm/", "/var/tmp/", "/run/", "/", "")
    return [attempt(lambda: open(place + inputs, "w")) for place in places]
"""
    assert all(step.startswith("refused") for step in await value_of(runner, source, name))
    assert not any(Path(place, name).exists() for place in ("/tmp", "/dev/shm", "/var/tmp", "/run", "/"))


async def test_the_environment_is_empty(runner: SandboxRunner) -> None:
    source = f"""
import os
{TRY}
def evaluate(inputs, outputs, trace):
    files = [f"/proc/{{pid}}/environ" for pid in ("self", 1, os.getpid(), os.getppid(), inputs)]
    return {{"names": list(os.environ), "files": [attempt(lambda: open(file).read()) for file in files]}}
"""
    seen = await value_of(runner, source, os.getpid())
    assert set(seen["names"]) <= {"LC_CTYPE", "PWD"}
    assert all(step.startswith("refused") for step in seen["files"])


async def test_no_connection_reaches_a_loopback_port(runner: SandboxRunner) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        source = f"""
import socket
{TRY}
def evaluate(inputs, outputs, trace):
    return [attempt(lambda: socket.create_connection(("127.0.0.1", inputs), 0.2)), attempt(lambda: socket.socket())]
"""
        assert await value_of(runner, source, listener.getsockname()[1]) == [
            "refused: PermissionError",
            "refused: PermissionError",
        ]
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.mark.parametrize("is_abstract", [False, True], ids=["path", "abstract"])
async def test_no_connection_reaches_a_unix_socket(runner: SandboxRunner, tmp_path: Path, is_abstract: bool) -> None:
    address = f"\0assay-attack-{os.getpid()}" if is_abstract else str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        source = """
import socket
def evaluate(inputs, outputs, trace):
    left, right = socket.socketpair()
    for end in (left, socket.socket(socket.AF_UNIX)):
        end.connect(inputs)
"""
        [outcome] = await run(runner, source, address)
        assert isinstance(outcome, Raised)
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.mark.parametrize("is_abstract", [False, True], ids=["path", "abstract"])
async def test_a_datagram_reaches_no_unix_socket(runner: SandboxRunner, tmp_path: Path, is_abstract: bool) -> None:
    address = f"\0assay-attack-{os.getpid()}" if is_abstract else str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(address)
        source = """
import socket
def evaluate(inputs, outputs, trace):
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    left.send(b"to its own other end")
    left.sendto(b"to another process", inputs)
"""
        [outcome] = await run(runner, source, address)
        assert isinstance(outcome, Raised)
        assert (outcome.type, outcome.line) == ("PermissionError", 6)
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.recv(1)


async def test_a_datagram_does_not_leave(runner: SandboxRunner) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        source = """
import socket
def evaluate(inputs, outputs, trace):
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", inputs))
"""
        assert isinstance((await run(runner, source, listener.getsockname()[1]))[0], Raised)
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.recv(1)


STARTERS = {
    "fork": "os.fork()",
    "forkpty": "os.forkpty()",
    "posix_spawn": "os.posix_spawn('/usr/bin/touch', ['touch', inputs], {})",
    "execv": "os.execv('/usr/bin/touch', ['touch', inputs])",
    "system": "1 / (os.system('touch ' + inputs) == 0)",
    "subprocess": "__import__('subprocess').run(['touch', inputs])",
    "the interpreter": "__import__('subprocess').run([sys.executable, '-c', 'open(' + repr(inputs) + ', \"w\")'])",
    "multiprocessing": "__import__('multiprocessing').Process(target=print).start()",
    "a thread": "__import__('threading').Thread(target=print).start()",
    "a bare thread": "__import__('_thread').start_new_thread(print, ())",
    "a small fork bomb": "[os.fork() for _ in range(4)]",
}


@pytest.mark.parametrize("how", STARTERS)
async def test_no_process_or_thread_can_be_started(runner: SandboxRunner, tmp_path: Path, how: str) -> None:
    await value_of(runner, "def evaluate(inputs, outputs, trace):\n    return 1")
    idle = len(own_descendants())
    source = f"import os, sys\ndef evaluate(inputs, outputs, trace):\n    {STARTERS[how]}\n    return True"
    [outcome] = await run(runner, source, str(tmp_path / "touched"))
    assert isinstance(outcome, Raised)
    assert not list(tmp_path.iterdir())
    wait_for(lambda: len(own_descendants()) <= idle, "the child to be gone")


async def test_no_other_process_can_be_signalled(runner: SandboxRunner) -> None:
    """Only a process made for it is really shot at; all others are asked with signal 0, which harms nobody."""
    source = f"""
import os, signal
{TRY}
def evaluate(inputs, outputs, trace):
    kills = [attempt(lambda: os.kill(target, 0)) for target in (os.getppid(), 1, -1, 0)]
    groups = [attempt(lambda: os.killpg(1, 0)), attempt(lambda: os.setsid())]
    handles = [attempt(lambda: signal.pidfd_send_signal(os.pidfd_open(inputs), signal.SIGKILL))]
    return [*kills, *groups, *handles, attempt(lambda: os.kill(inputs, signal.SIGKILL))]
"""
    with subprocess.Popen(["sleep", "60"]) as victim:  # noqa: ASYNC220 - quick
        steps = await value_of(runner, source, victim.pid)
        still_there = victim.poll() is None
        victim.kill()
    assert [step for step in steps if not step.startswith("refused")] == []
    assert still_there
    assert all(is_running(pid) for pid in runner.zygote_pids)


async def test_a_descriptor_cannot_be_made_to_send_signals(runner: SandboxRunner) -> None:
    source = f"""
import fcntl, os, signal, socket
{TRY}
def evaluate(inputs, outputs, trace):
    left, right = socket.socketpair()
    return [
        attempt(lambda: fcntl.fcntl(left, fcntl.F_SETOWN, os.getppid())),
        attempt(lambda: fcntl.fcntl(left, fcntl.F_SETSIG, signal.SIGKILL)),
        attempt(lambda: fcntl.ioctl(left, 0x8901, os.getppid().to_bytes(4, "little"))),
    ]
"""
    assert set(await value_of(runner, source)) <= {"refused: PermissionError", "refused: OSError"}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers are those of x86-64")
@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("socket", 41), ("x32 socket", 0x40000000 | 41), ("connect", 42), ("bind", 49), ("sendmsg", 46), ("clone", 56),
        ("fork", 57), ("vfork", 58), ("execve", 59), ("kill", 62), ("tkill", 200), ("tgkill", 234), ("ptrace", 101),
        ("unshare", 272), ("setns", 308), ("mount", 165), ("umount2", 166), ("pivot_root", 155), ("chroot", 161),
        ("setuid", 105), ("prctl", 157), ("setrlimit", 160), ("prlimit64", 302), ("seccomp", 317), ("bpf", 321),
        ("perf_event_open", 298), ("keyctl", 250), ("add_key", 248), ("userfaultfd", 323), ("init_module", 175),
        ("process_vm_readv", 310), ("process_vm_writev", 311), ("pidfd_open", 434), ("pidfd_getfd", 438),
        ("io_uring_setup", 425), ("io_uring_enter", 426), ("memfd_create", 319), ("memfd_secret", 447), ("clone3", 435),
        ("execveat", 322), ("open_by_handle_at", 304), ("name_to_handle_at", 303), ("openat2", 437), ("creat", 85),
        ("shmget", 29), ("msgget", 68), ("semget", 64), ("mq_open", 240), ("personality", 135), ("reboot", 169),
        ("fanotify_init", 300), ("inotify_init1", 294), ("sched_setaffinity", 203), ("setpriority", 141),
        ("splice", 275), ("ftruncate", 77), ("fallocate", 285), ("timer_create", 222), ("syslog", 103),
    ],
)  # fmt: skip
async def test_a_raw_system_call_is_refused(runner: SandboxRunner, name: str, number: int) -> None:
    source = f"{SYSCALL}\ndef evaluate(inputs, outputs, trace):\n    return call(inputs, 0, 0, 0, 0, 0)"
    assert await value_of(runner, source, number) == [-1, 1], f"{name} was not refused"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the machine code is that of x86-64")
async def test_machine_code_gains_nothing(runner: SandboxRunner) -> None:
    """Code of its own in executable memory: a 32-bit system call ends the process, the 64-bit one is refused."""
    source = """
import ctypes, mmap
def evaluate(inputs, outputs, trace):
    page = mmap.mmap(-1, 4096, prot=7)
    page.write(bytes.fromhex(inputs))
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    return ctypes.CFUNCTYPE(ctypes.c_long)(address)()
"""
    socket_call = "b829000000bf02000000be01000000ba000000000f05c3"
    socketcall_by_int80 = "b866000000bb0100000031c9cd80c3"
    outcomes = await run(runner, source, socket_call, socketcall_by_int80)
    assert isinstance(outcomes[0], Returned)
    assert outcomes[0].value == -1
    assert isinstance(outcomes[1], Raised)
    assert outcomes[1].kind == "script-crashed"


async def test_limits_cannot_be_raised(runner: SandboxRunner) -> None:
    source = f"""
import resource
{TRY}
def evaluate(inputs, outputs, trace):
    infinite = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    limits = (resource.RLIMIT_AS, resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE)
    raised = [attempt(lambda: resource.setrlimit(limit, infinite)) for limit in limits]
    return raised + [attempt(lambda: len(bytearray(1 << 30)))]
"""
    steps = await value_of(runner, source)
    assert [step for step in steps if not step.startswith("refused")] == []


@pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")
async def test_memory_of_other_processes_cannot_be_opened(runner: SandboxRunner) -> None:
    source = f"""
import os
{TRY}
def evaluate(inputs, outputs, trace):
    files = [f"/proc/{{pid}}/mem" for pid in ("self", 1, os.getppid(), inputs)] + ["/dev/mem", "/dev/kvm"]
    return [attempt(lambda: open(file, mode)) for file in files for mode in ("rb", "r+b")]
"""
    assert all(step.startswith("refused") for step in await value_of(runner, source, os.getpid()))


async def test_only_its_own_descriptors_are_open(runner: SandboxRunner) -> None:
    source = """
import os, stat
def evaluate(inputs, outputs, trace):
    found = []
    for number in range(64):
        try:
            mode = os.fstat(number).st_mode
        except OSError:
            continue
        kind = "socket" if stat.S_ISSOCK(mode) else "null" if stat.S_ISCHR(mode) else oct(mode)
        found.append(kind)
    return found
"""
    assert await value_of(runner, source) == ["null", "null", "null", "socket"]

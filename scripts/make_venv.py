"""Make the virtual environment, installing Debian's venv package first where Python came without it."""

import importlib.util
import os
import shutil
import subprocess
import sys


def main(folder: str) -> None:
    """Create `folder`; say what to install by hand when that cannot be done here."""
    if importlib.util.find_spec("ensurepip") is None:
        package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
        sudo = [] if os.geteuid() == 0 else ["sudo", "--non-interactive"]
        if shutil.which("apt-get") is None or (sudo and shutil.which("sudo") is None):
            sys.exit(
                f"Python's venv module is incomplete here. Install the Debian package {package} and run make again."
            )
        subprocess.run([*sudo, "apt-get", "update", "-qq"], check=False)
        installed = subprocess.run([*sudo, "apt-get", "install", "-y", "-qq", package], check=False)
        if installed.returncode:
            sys.exit(f"Could not install {package}. Install it as root (apt-get install {package}) and run make again.")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)


if __name__ == "__main__":
    main(sys.argv[1])

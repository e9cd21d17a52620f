"""Run every benchmark, one after the other, and print their tables: what docs/benchmarks.md is pasted from."""

import os
import platform
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    """Run the scripts; stop at the first that fails."""
    print(f"{platform.system()} {platform.release()}, Python {platform.python_version()}, {os.cpu_count()} cores\n")
    for script in ("bench_sandbox.py", "bench_incumbents.py", "bench_live.py", "bench_external.py"):
        print(f"## {script}", flush=True)
        subprocess.run([sys.executable, HERE / script], check=True)
        print()


if __name__ == "__main__":
    main()

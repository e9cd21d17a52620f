"""The public `agenta` package's local runner, in a process of its own: `exec` of the source at each call, unconfined.

Reads a line of JSON (source, arguments as JSON texts, how often) and answers with the seconds that took, until the end
of its input. Arguments are decoded and results encoded at each call, as everywhere else in these benchmarks.
"""

import json
import os
import sys
import time
from typing import Any, cast

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # The package logs to standard output.

import orjson  # noqa: E402
from agenta.sdk.engines.running.runners.local import LocalRunner  # noqa: E402 # pyright: ignore


def main() -> None:
    """Serve."""
    runner = cast("Any", LocalRunner())
    for line in sys.stdin:
        source, texts, count = json.loads(line)
        arguments = [text.encode() for text in texts]
        begun = time.perf_counter()
        for _ in range(count):
            inputs, outputs, trace = [orjson.loads(argument) for argument in arguments]
            orjson.dumps(runner.run(source, {}, inputs, outputs, None, version="3", trace=trace))
        print(time.perf_counter() - begun, file=answers, flush=True)


if __name__ == "__main__":
    main()

"""External evaluators under load, through the real server: an endpoint that answers in 50 ms, alone and beside another.

Prints the time from accepted to recorded, without the settle time; its limit is the endpoint's own 50 ms.
"""

import asyncio
import sys
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from bench_live import SETTLE_S, TRACES_A_SECOND, latencies_ms, live, show

sys.path.insert(0, str(Path(__file__).parent.parent))
from support.endpoint import Behaviour, Endpoint, Request, answering, silent
from support.server import Server

ANSWER_S = 0.05
AT_ONCE = 24


async def slowly(request: Request, writer: asyncio.StreamWriter) -> None:
    """Answer after 50 ms."""
    await asyncio.sleep(ANSWER_S)
    await answering(b'{"matches": false}')(request, writer)


@contextmanager
def serving(behaviour: Behaviour) -> Generator[Endpoint]:
    """Serve in a thread of its own."""
    endpoint, ready, done = Endpoint(behaviour), threading.Event(), threading.Event()

    async def serve() -> None:
        async with endpoint:
            ready.set()
            await asyncio.to_thread(done.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    ready.wait()
    try:
        yield endpoint
    finally:
        done.set()
        thread.join()


def external(server: Server, endpoint: Endpoint) -> str:
    """Create an evaluator of this endpoint for every trace."""
    body = {"kind": "external", "name": "endpoint", "url": endpoint.url, "sampleRate": 1}
    answer = server.client.post("/agent-monitoring/custom-evaluators", json=body)
    answer.raise_for_status()
    return answer.json()["id"]


def main() -> None:
    """Measure the endpoint alone, then beside one that never answers."""
    settings = {
        "ASSAY_SETTLE_S": str(SETTLE_S),
        "ASSAY_EXTERNAL_ALLOW": '["127.0.0.0/8"]',
        "ASSAY_EXTERNAL_AT_ONCE": str(AT_ONCE),
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(slowly) as answers,
        serving(silent) as hangs,
        Server(Path(folder), **settings) as server,
    ):
        evaluator_id = external(server, answers)
        answered = asyncio.run(live(server))
        show(f"endpoint of 50 ms at {TRACES_A_SECOND} traces/s", latencies_ms(server, evaluator_id, answered))
        external(server, hangs)
        answered = asyncio.run(live(server))
        show("the same beside an endpoint that never answers", latencies_ms(server, evaluator_id, answered))


if __name__ == "__main__":
    main()

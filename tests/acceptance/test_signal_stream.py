"""Signals followed over HTTP: nothing is lost when the stream breaks, the server is killed, or another one goes on."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest

from support.server import ADMIN_KEY, Server, wait_for

FAILING = 'def evaluate(inputs, outputs, trace):\n    return {"success": outputs != "bad"}\n'


class Event(NamedTuple):
    number: int
    kind: str
    data: dict[str, Any]


class Follower:
    """Follows a server's stream in a thread until it ends; `begun_at` is where the server says it begins."""

    def __init__(self, server: Server, last: int | None = None) -> None:
        self._url = f"{server.url}/api/v1/signals/stream"
        self._last = last
        self.events: list[Event] = []
        self.begun_at: int | None = None
        self.is_cut = False
        self.thread = threading.Thread(target=self._follow, daemon=True)
        self.thread.start()
        wait_for(lambda: self.begun_at is not None, "the stream to begin")

    def _follow(self) -> None:
        headers = {"x-api-key": ADMIN_KEY} | ({} if self._last is None else {"last-event-id": str(self._last)})
        try:
            with httpx2.stream("GET", self._url, headers=headers, timeout=60) as answer:
                assert answer.status_code == 200
                assert answer.headers["content-type"].startswith("text/event-stream")
                fields: dict[str, str] = {}
                for line in answer.iter_lines():
                    if line:
                        name, _, value = line.partition(": ")
                        fields[name] = value
                        continue
                    if "event" in fields:
                        self.events.append(Event(int(fields["id"]), fields["event"], json.loads(fields["data"])))
                    elif "id" in fields:
                        self.begun_at = int(fields["id"])
                    fields = {}
        except httpx2.TransportError:
            self.is_cut = True

    def until(self, count: int) -> list[Event]:
        return wait_for(
            lambda: self.events if len(self.events) >= count else None, f"{count} events, not {self.events}"
        )


def send(server: Server, output: str = "bad") -> None:
    trace = {"agent": "desk", "spans": [{"name": "a", "output": output}]}
    assert server.client.post("/api/v1/traces", json=trace).is_success


def failed(server: Server, count: int) -> dict[str, Any]:
    """Wait until the one signal has counted so many failures."""

    def found() -> dict[str, Any] | None:
        return next((one for one in server.get("/api/v1/signals")["signals"] if one["count"] == count), None)

    return wait_for(found, f"{count} failures to be counted")


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    with ExitStack() as stack:

        def start(name: str, **settings: str) -> Server:
            (tmp_path / name).mkdir(exist_ok=True)
            return stack.enter_context(Server(tmp_path / name, ASSAY_SETTLE_S="0.1", **settings))

        yield start


def test_a_stream_goes_on_where_it_broke_off_though_the_server_was_killed(started: Callable[..., Server]) -> None:
    server = started("one")
    server.create_evaluator(script=FAILING)
    follower = Follower(server)
    send(server)
    (raised,) = follower.until(1)
    assert (raised.number, raised.kind, raised.data["count"], raised.data["actor"]) == (1, "raised", 1, None)
    server.kill()
    follower.thread.join(20)
    assert not follower.thread.is_alive()

    server.start()
    send(server)
    signal = failed(server, 2)
    server.client.patch(f"/api/v1/signals/{signal['id']}", json={"status": "resolved", "reason": "fixed"})
    send(server)
    failed(server, 3)
    resumed = Follower(server, last=raised.number)
    assert [(event.number, event.kind) for event in resumed.until(3)] == [
        (2, "folded"),
        (3, "resolved"),
        (4, "reopened"),
    ]
    assert resumed.events[1].data["detail"] == {"reason": "fixed"}
    assert Follower(server).begun_at == 4


def test_a_server_told_to_stop_ends_its_streams_at_once(started: Callable[..., Server]) -> None:
    server = started("one")
    follower = Follower(server)
    server.stop()
    follower.thread.join(20)
    assert not follower.thread.is_alive()
    assert not follower.is_cut


def test_what_one_server_records_is_streamed_by_the_other(started: Callable[..., Server], postgres_url: str) -> None:
    first, second = (started(name, ASSAY_DATABASE_URL=postgres_url) for name in ("first", "second"))
    first.create_evaluator(script=FAILING)
    followers = [Follower(first), Follower(second)]
    for number in range(6):
        send((first, second)[number % 2])
    signal = failed(first, 6)
    second.client.patch(f"/api/v1/signals/{signal['id']}", json={"assignee": "ada"})
    for follower in followers:
        wait_for(lambda follower=follower: follower.events and follower.events[-1].kind == "assigned", "the last step")
    assert followers[0].events == followers[1].events
    numbers = [event.number for event in followers[0].events]
    assert numbers == list(range(1, len(numbers) + 1))
    assert sum(event.data["detail"].get("failures", 0) for event in followers[0].events) == 6
    resumed = Follower(second, last=numbers[0])
    assert [event.number for event in resumed.until(len(numbers) - 1)] == numbers[1:]

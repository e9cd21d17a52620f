"""Signals as people tend them over HTTP."""

import asyncio
from typing import Any

import pytest

from assay.api.signal_stream import Streams
from support.api import EVALUATORS, Api, client, key

SIGNALS = "/api/v1/signals"
LATER = "2100-01-01T00:00:00Z"


async def raised(api: Api, output: str = "0", agent: str = "desk", **fields: Any) -> dict[str, Any]:
    await api.create(**fields)
    await api.send(output, agent)
    await api.settled()
    return (await api.call("GET", SIGNALS))["signals"][0]


async def changed(api: Api, signal: dict[str, Any], code: int = 200, **asked: Any) -> dict[str, Any]:
    return await api.call("PATCH", f"{SIGNALS}/{signal['id']}", code, json=asked)


async def audit(api: Api, signal: dict[str, Any]) -> list[tuple[str, str | None, dict[str, Any]]]:
    entries = (await api.call("GET", f"{SIGNALS}/{signal['id']}/audit"))["entries"]
    return [(entry["kind"], entry["actor"], entry["detail"]) for entry in entries]


async def test_who_did_what_to_a_signal_is_in_its_audit(api: Api) -> None:
    signal = await raised(api)
    async with client(api.app, key("member")) as member:
        await member.patch(f"{SIGNALS}/{signal['id']}", json={"status": "acknowledged", "assignee": "ada@example.org"})
    await changed(api, signal, mutedUntil="resolved")
    await changed(api, signal, status="resolved", reason=" a new prompt ")
    await changed(api, signal, status="resolved", reason="a new prompt")
    await api.send("0")
    await api.settled()
    member_id, admin_id = "key_default_member", "key_default_admin"
    assert await audit(api, signal) == [
        ("reopened", None, {"failures": 1}),
        ("resolved", admin_id, {"reason": "a new prompt"}),
        ("muted", admin_id, {}),
        ("assigned", member_id, {"before": None}),
        ("acknowledged", member_id, {}),
        ("raised", None, {"failures": 1}),
    ]


async def test_a_signal_is_given_to_somebody_and_muted_and_told_of_again(api: Api) -> None:
    signal = await raised(api)
    assert (signal["assignee"], signal["mutedUntil"], signal["noteCount"]) == (None, None, 0)
    held = await changed(api, signal, assignee="ada", mutedUntil=LATER)
    assert (held["assignee"], held["mutedUntil"]) == ("ada", "2100-01-01T00:00:00.000000Z")
    free = await changed(api, signal, assignee=None, mutedUntil=None)
    assert (free["assignee"], free["mutedUntil"]) == (None, None)
    assert [kind for kind, _, _ in await audit(api, signal)] == ["unmuted", "assigned", "muted", "assigned", "raised"]


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"mutedUntil": "tomorrow"}, "mutedUntil"),
        ({"mutedUntil": "2100-01-01T00:00:00"}, "mutedUntil"),
        ({"mutedUntil": 5}, "mutedUntil"),
        ({"mutedUntil": True}, "mutedUntil"),
        ({"assignee": ""}, "assignee"),
        ({"assignee": "a" * 201}, "assignee"),
        ({"assignee": 7}, "assignee"),
        ({"status": "open"}, "status"),
        ({"status": "resolved"}, "reason"),
        ({"reason": "why"}, "reason"),
        ({}, "status"),
    ],
)
async def test_what_cannot_be_asked_for_is_refused_by_name(api: Api, asked: dict[str, Any], field: str) -> None:
    signal = await raised(api)
    problem = await changed(api, signal, 400, **asked)
    assert problem.get("field") == field
    assert await audit(api, signal) == [("raised", None, {"failures": 1})]


async def test_a_step_that_is_impossible_takes_back_those_asked_with_it(api: Api) -> None:
    signal = await raised(api)
    await changed(api, signal, 409, assignee="ada", mutedUntil="2001-01-01T00:00:00Z")
    await changed(api, signal, status="archived")
    await changed(api, signal, 409, mutedUntil="resolved")
    assert (await api.call("GET", f"{SIGNALS}/{signal['id']}"))["assignee"] is None


async def test_notes_are_kept_with_their_author_and_page(api: Api) -> None:
    signal = await raised(api)
    path = f"{SIGNALS}/{signal['id']}/notes"
    for text in ("one", "two", "three"):
        made = await api.call("POST", path, 201, json={"note": text})
        assert (made["note"], made["author"]) == (text, "key_default_admin")
    first = await api.call("GET", path, params={"limit": 2})
    rest = await api.call("GET", path, params={"limit": 2, "cursor": first["nextCursor"]})
    assert [note["note"] for note in first["notes"] + rest["notes"]] == ["three", "two", "one"]
    assert (await api.call("GET", f"{SIGNALS}/{signal['id']}"))["noteCount"] == 3
    await api.call("POST", path, 400, json={"note": ""})
    await api.call("POST", path, 400, json={"note": "n" * 4001})


async def test_another_project_and_the_senders_see_nothing_of_a_signal(api: Api) -> None:
    signal = await raised(api)
    one = f"{SIGNALS}/{signal['id']}"
    paths = [("GET", one), ("PATCH", one), ("GET", f"{one}/audit"), ("GET", f"{one}/notes"), ("POST", f"{one}/notes")]
    for key_text, status in ((key("member", "other"), 404), (key("ingest"), 403)):
        async with client(api.app, key_text) as stranger:
            for method, path in paths:
                body = {"POST": {"note": "n"}, "PATCH": {"status": "archived"}}.get(method)
                assert (await stranger.request(method, path, json=body)).status_code == status, (method, path)
    async with client(api.app, key("ingest")) as sender:
        assert (await sender.get(f"{SIGNALS}/stream")).status_code == 403


async def test_signals_are_found_by_severity_time_and_reason(api: Api) -> None:
    await api.create(
        kind="external", url="https://example.com/?token=secret", severity="high", script=None, language=None
    )
    await raised(api, severity="low")

    async def found(**which: Any) -> list[str]:
        signals = (await api.call("GET", SIGNALS, params=which))["signals"]
        return sorted(signal["severity"] for signal in signals)

    assert await found() == ["high", "low"]
    assert await found(severity="high") == ["high"]
    assert await found(reason="FOUND") == ["high"]
    assert await found(reason="found %") == []
    assert await found(seenSince="2001-01-01T00:00:00Z", order="raised") == ["high", "low"]
    assert await found(seenUntil="2001-01-01T00:00:00Z") == []
    for wrong in ({"severity": "bad"}, {"seenSince": "yesterday"}, {"order": "id"}, {"reason": "r" * 201}):
        await api.call("GET", SIGNALS, 400, params=wrong)


async def test_the_score_decides_the_severity_and_a_rate_when_to_raise(api: Api) -> None:
    bands = [{"below": 0.2, "severity": "critical"}, {"below": 0.4, "severity": "high"}]
    evaluator = await api.create(severityBands=bands, raiseAfter={"failures": 2, "of": 3})
    assert (evaluator["severityBands"], evaluator["raiseAfter"]) == (bands, {"failures": 2, "of": 3})
    for output, statuses in (("0.3", []), ("0.9", []), ("0.1", ["open"])):
        await api.send(output)
        await api.settled()
        assert [signal["status"] for signal in (await api.call("GET", SIGNALS))["signals"]] == statuses
    (signal,) = (await api.call("GET", SIGNALS))["signals"]
    assert (signal["severity"], signal["count"]) == ("critical", 2)


async def test_bands_and_rates_are_settings_and_make_no_revision(api: Api) -> None:
    evaluator = await api.create()
    assert (evaluator["severityBands"], evaluator["raiseAfter"]) == ([], {"failures": 1, "of": 1})
    path = f"{EVALUATORS}/{evaluator['id']}"
    asked = {"severityBands": [{"below": 0.5, "severity": "high"}], "raiseAfter": {"failures": 3, "of": 10}}
    after = await api.call("PATCH", path, json=asked)
    assert (after["revision"], after["raiseAfter"]) == (1, {"failures": 3, "of": 10})
    assert await api.call("PUT", path, json=after) | {"updatedAt": ""} == after | {"updatedAt": ""}


@pytest.mark.parametrize(
    "fields",
    [
        {"severityBands": [{"below": 0.4, "severity": "high"}, {"below": 0.2, "severity": "critical"}]},
        {"severityBands": [{"below": 0.4, "severity": "high"}, {"below": 0.4, "severity": "critical"}]},
        {"severityBands": [{"below": 0, "severity": "high"}]},
        {"severityBands": [{"below": 1.1, "severity": "high"}]},
        {"severityBands": [{"below": "0.2", "severity": "high"}]},
        {"severityBands": [{"below": 0.2, "severity": "worst"}]},
        {"severityBands": [{"below": 0.2}]},
        {"severityBands": [{"below": number / 20, "severity": "low"} for number in range(1, 12)]},
        {"severityBands": None},
        {"raiseAfter": {"failures": 4, "of": 3}},
        {"raiseAfter": {"failures": 0, "of": 3}},
        {"raiseAfter": {"failures": 1, "of": 101}},
        {"raiseAfter": {"failures": True, "of": 3}},
        {"raiseAfter": 3},
    ],
)
async def test_bands_and_rates_that_mean_nothing_are_refused(api: Api, fields: dict[str, Any]) -> None:
    body = {"name": "n", "kind": "external", "url": "https://example.com/", **fields}
    problem = await api.call("POST", EVALUATORS, 400, json=body)
    assert problem["field"].startswith(next(iter(fields)))


async def test_deleting_an_evaluator_archives_its_signals_and_says_who_did(api: Api) -> None:
    signal = await raised(api)
    await api.call("DELETE", f"{EVALUATORS}/{signal['evaluatorId']}", 204)
    kind, actor, detail = (await audit(api, signal))[0]
    assert (kind, actor, detail) == ("archived", "key_default_admin", {"reason": "its evaluator was deleted"})


@pytest.mark.parametrize("last", ["x", "-1", "1.5", "9" * 19, "²"])
async def test_a_stream_goes_on_after_numbers_only(api: Api, last: str) -> None:
    problem = await api.call("GET", f"{SIGNALS}/stream", 400, headers={b"last-event-id": last.encode()})
    assert problem["field"] == "Last-Event-ID"


class Reader:
    """A client of the application itself, which reads as much as it likes."""

    def __init__(self, api: Api, *, last: str = "0", reads: bool = True) -> None:
        self._api = api
        self._reads = reads
        self._last = last
        self.got = b""
        self.status = 0
        self.is_ended = False
        self._gone = asyncio.Event()
        self._more = asyncio.Event()
        self.task = asyncio.create_task(self._run())

    async def until(self, text: bytes) -> None:
        async with asyncio.timeout(20):
            while text not in self.got:
                self._more.clear()
                await self._more.wait()

    def leave(self) -> None:
        self._gone.set()

    async def _run(self) -> None:
        headers = [(b"x-api-key", key("member").encode()), (b"last-event-id", self._last.encode())]
        path = f"{SIGNALS}/stream"
        scope: dict[str, Any] = {
            "type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b"",
            "headers": headers, "http_version": "1.1", "scheme": "http", "server": ("assay", 80), "client": ("c", 1),
        }  # fmt: skip
        asked = iter([{"type": "http.request", "body": b"", "more_body": False}])

        async def receive() -> dict[str, Any]:
            message = next(asked, None)
            if message is None:
                await self._gone.wait()
                return {"type": "http.disconnect"}
            return message

        async def send(message: Any) -> None:
            self.status = message.get("status", self.status)
            self.got += message.get("body", b"")
            self.is_ended = message["type"] == "http.response.body" and not message.get("more_body", False)
            self._more.set()
            if not self._reads and b"retry" in self.got:
                await asyncio.Event().wait()

        await self._api.app(scope, receive, send)


async def test_a_project_has_so_many_streams_at_most_and_a_place_is_free_when_one_leaves(api: Api) -> None:
    api.app.state.streams = Streams(api.store, most=2)
    readers = [Reader(api), Reader(api)]
    for reader in readers:
        await reader.until(b"retry")
    refused = Reader(api)
    await refused.task
    assert refused.status == 429
    readers[0].leave()
    await readers[0].task
    third = Reader(api)
    await third.until(b"retry")
    api.app.state.streams.end()
    await asyncio.gather(readers[1].task, third.task)
    assert (third.is_ended, readers[1].is_ended) == (True, True)


async def test_a_quiet_stream_beats_and_one_whose_key_is_revoked_ends(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.api.auth.REMEMBERED_S", 0)
    api.app.state.streams = Streams(api.store, heartbeat_s=0.01)
    reader = Reader(api)
    await reader.until(b": still here\n\n")
    async with api.store.transaction() as transaction:
        await transaction.delete_key("key_default_member")
    async with asyncio.timeout(20):
        await reader.task
    assert reader.is_ended


async def test_a_client_that_stops_reading_is_dropped(api: Api) -> None:
    api.app.state.streams = Streams(api.store, most=1, stalled_s=0.01)
    stalled = Reader(api, reads=False)
    async with asyncio.timeout(20):
        await stalled.task
    assert not stalled.is_ended
    other = Reader(api)
    await other.until(b"retry")
    other.leave()
    await other.task


async def test_a_stream_asked_for_what_is_kept_no_more_says_so_and_goes_on(api: Api) -> None:
    await raised(api)
    reader = Reader(api, last="7")
    await reader.until(b"event: reset\n")
    await api.send("0")
    await reader.until(b"event: folded\n")
    assert b"id: 1\n" in reader.got
    assert b"id: 2\n" in reader.got
    reader.leave()
    await reader.task

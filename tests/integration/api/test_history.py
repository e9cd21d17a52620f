"""What was checked and what it raised: events, traces and signals."""

import time
from typing import Any

import pytest

from assay.domain.check import Check, Reading
from support.api import EVALUATORS, Api


async def events(api: Api, evaluator_id: str, **query: Any) -> Any:
    return await api.call("GET", f"{EVALUATORS}/{evaluator_id}/events", params=query)


async def checked(api: Api, *outputs: str) -> tuple[str, list[str]]:
    """Return the id of an evaluator that looked at a trace of each output, one after the other."""
    evaluator_id = (await api.create())["id"]
    traces: list[str] = []
    for output in outputs:
        traces.append(await api.send(output))
        await api.settled()
    return evaluator_id, traces


async def test_an_event_is_the_whole_check(api: Api) -> None:
    evaluator_id, (trace_id,) = await checked(api, "0.25")
    page = await events(api, evaluator_id)
    (event,) = page["events"]
    made = await api.call("GET", f"{EVALUATORS}/{evaluator_id}")
    (agent,) = (await api.call("GET", "/api/v1/agents"))["agents"]
    assert event == {
        "id": event["id"],
        "traceId": trace_id,
        "agentId": agent["id"],
        "evaluatorId": evaluator_id,
        "revision": 1,
        "revisionId": made["revisionId"],
        "status": "scored",
        "failed": True,
        "metrics": {"score": 0.25},
        "name": None,
        "reason": None,
        "metadata": None,
        "error": None,
        "logs": "got 0.25\n",
        "durationMs": 1.0,
        "runner": "in-process",
        "recordedAt": event["recordedAt"],
        "recordedAtNs": event["recordedAtNs"],
    }
    assert event["recordedAt"].endswith("Z")
    assert (page["totalCount"], page["nextCursor"]) == (1, None)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, ["errored", "scored"]),
        ({"status": "all"}, ["errored", "skipped", "scored"]),
        ({"status": "skipped"}, ["skipped"]),
        ({"status": "scored,skipped"}, ["skipped", "scored"]),
        ({"status": ["scored", "errored"]}, ["errored", "scored"]),
        ({"window": "1h"}, ["errored", "scored"]),
        ({"agentId": "agt_none"}, []),
    ],
)
async def test_events_are_filtered_newest_first(api: Api, query: dict[str, Any], expected: list[str]) -> None:
    evaluator_id, _ = await checked(api, "0.9", "skip", "bad")
    page = await events(api, evaluator_id, **query)
    assert [event["status"] for event in page["events"]] == expected
    assert page["totalCount"] == len(expected)


async def test_pages_follow_each_other_without_gap_or_repetition(api: Api) -> None:
    evaluator_id, traces = await checked(api, "0.1", "0.2", "0.3")
    seen: list[str] = []
    query: dict[str, Any] = {"limit": 2}
    while True:
        page = await events(api, evaluator_id, **query)
        assert page["totalCount"] == 3
        seen += [event["traceId"] for event in page["events"]]
        if page["nextCursor"] is None:
            break
        query["cursor"] = page["nextCursor"]
    assert seen == traces[::-1]


@pytest.mark.parametrize(
    ("query", "field", "mentions"),
    [
        ({"limit": 0}, "limit", "1"),
        ({"limit": 201}, "limit", "200"),
        ({"limit": "many"}, "limit", "integer"),
        ({"window": "yesterday"}, "window", "24h"),
        ({"window": "0h"}, "window", "24h"),
        ({"status": "failed"}, "status", "scored, skipped, errored"),
        ({"cursor": "!"}, "cursor", "nextCursor"),
        ({"since": "1h"}, "since", "window"),
    ],
)
async def test_a_filter_that_cannot_be_read_is_refused(
    api: Api, query: dict[str, Any], field: str, mentions: str
) -> None:
    evaluator_id = (await api.create())["id"]
    problem = await api.call("GET", f"{EVALUATORS}/{evaluator_id}/events", 400, params=query)
    assert problem["field"] == field
    assert mentions in problem["detail"]


async def test_a_trace_is_shown_with_its_spans_and_all_its_checks(api: Api) -> None:
    evaluator_id = (await api.create())["id"]
    spans: list[dict[str, Any]] = [
        {"span_id": "r", "name": "answer", "input": "q", "output": "skip", "latency_ms": 30, "attributes": {"a.b": 1}},
        {"span_id": "c", "parent_span_id": "r", "name": "chat", "model": "m", "input_tokens": 3, "output_tokens": 4},
    ]
    trace: dict[str, Any] = {"id": "order/7 ä", "agent": "desk", "sessionId": "s", "metadata": {"k": 1}, "spans": spans}
    await api.call("POST", "/api/v1/traces", 201, json=trace)
    await api.settled()
    whole = await api.call("GET", "/api/v1/traces/order%2F7%20%C3%A4")
    assert whole["trace"]["name"] == "answer"
    assert whole["trace"]["agent"] == "desk"
    assert (whole["trace"]["sessionId"], whole["trace"]["metadata"]) == ("s", {"k": 1})
    assert (whole["trace"]["inputTokens"], whole["trace"]["latencyMs"]) == (3, 30)
    assert [span["type"] for span in whole["spans"]] == ["span", "llm"]
    assert whole["spans"][0]["attributes"] == {"a.b": 1}
    assert [(check["evaluatorId"], check["status"]) for check in whole["checks"]] == [(evaluator_id, "skipped")]
    (listed,) = (await api.call("GET", "/api/v1/traces"))["traces"]
    assert (listed["id"], listed["name"], listed["spanCount"]) == ("order/7 ä", "answer", 2)
    await api.call("GET", "/api/v1/traces/none", 404)


async def test_traces_are_listed_newest_first_by_agent_in_pages(api: Api) -> None:
    sent = [await api.send("1", agent) for agent in ("a", "b", "a")]
    agents = {agent["name"]: agent["id"] for agent in (await api.call("GET", "/api/v1/agents"))["agents"]}
    page = await api.call("GET", "/api/v1/traces", params={"agentId": agents["a"], "limit": 1})
    assert [trace["id"] for trace in page["traces"]] == [sent[2]]
    page = await api.call("GET", "/api/v1/traces", params={"agentId": agents["a"], "cursor": page["nextCursor"]})
    assert [trace["id"] for trace in page["traces"]] == [sent[0]]
    assert page["nextCursor"] is None


async def test_failures_fold_into_one_signal_with_evidence(api: Api) -> None:
    evaluator_id, traces = await checked(api, "0.1", "0.9", "0.2")
    (signal,) = (await api.call("GET", "/api/v1/signals", params={"evaluatorId": evaluator_id}))["signals"]
    assert (signal["status"], signal["severity"], signal["count"]) == ("open", "medium", 2)
    assert [occurrence["traceId"] for occurrence in signal["evidence"]] == [traces[2], traces[0]]
    assert signal["evidence"][0]["metrics"] == {"score": 0.2}
    assert signal["firstSeenAt"] < signal["lastSeenAt"]
    assert await api.call("GET", f"/api/v1/signals/{signal['id']}") == signal
    for query in ({"status": "resolved"}, {"evaluatorId": "evl_none"}, {"agentId": "agt_none"}):
        assert (await api.call("GET", "/api/v1/signals", params=query))["signals"] == []


async def test_the_signals_of_a_deleted_evaluator_are_archived(api: Api) -> None:
    evaluator_id, _ = await checked(api, "0.1")
    await api.call("DELETE", f"{EVALUATORS}/{evaluator_id}", 204)
    (signal,) = (await api.call("GET", "/api/v1/signals", params={"evaluatorId": evaluator_id}))["signals"]
    assert signal["status"] == "archived"


async def test_a_signal_is_acknowledged_resolved_archived_and_reopened(api: Api) -> None:
    await checked(api, "0.1")
    (signal,) = (await api.call("GET", "/api/v1/signals"))["signals"]
    path = f"/api/v1/signals/{signal['id']}"
    assert (await api.call("PATCH", path, json={"status": "acknowledged"}))["status"] == "acknowledged"
    resolved = await api.call("PATCH", path, json={"status": "resolved", "reason": " fixed "})
    assert (resolved["status"], resolved["resolution"]) == ("resolved", "fixed")
    problem = await api.call("PATCH", path, 409, json={"status": "acknowledged"})
    assert problem["code"] == "conflict"
    assert (await api.call("PATCH", path, json={"status": "archived"}))["status"] == "archived"
    await api.send("0.2")
    await api.settled()
    reopened = await api.call("GET", path)
    assert (reopened["status"], reopened["count"], reopened["resolution"]) == ("open", 2, None)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"status": "resolved"}, "reason"),
        ({"status": "resolved", "reason": "  "}, "reason"),
        ({"status": "archived", "reason": "x"}, "reason"),
        ({"status": "open"}, "status"),
        ({}, "status"),
        ({"status": "archived", "severity": "low"}, "severity"),
    ],
)
async def test_an_impossible_step_of_a_signal_is_refused(api: Api, body: dict[str, Any], field: str) -> None:
    await checked(api, "0.1")
    (signal,) = (await api.call("GET", "/api/v1/signals"))["signals"]
    assert (await api.call("PATCH", f"/api/v1/signals/{signal['id']}", 400, json=body))["field"] == field
    await api.call("PATCH", "/api/v1/signals/none", 404, json={"status": "archived"})


async def test_a_window_reaches_back_from_now(api: Api) -> None:
    made = await api.create()
    now_ns = time.time_ns()
    check = Check(
        id="chk_old",
        project_id="default",
        evaluator_id=made["id"],
        revision_id=made["revisionId"],
        trace_id="t",
        trace_revision=1,
        agent_id=None,
        reading=Reading(status="scored", metrics={"score": 1.0}),
        logs="",
        duration_s=0.0,
        runner="in-process",
        recorded_at_ns=now_ns - 2 * 3600 * 1_000_000_000,
    )
    async with api.store.transaction() as transaction:
        await transaction.add_checks([check])
    for window, count in (("119m", 0), ("3h", 1), ("1d", 1)):
        assert (await events(api, made["id"], window=window))["totalCount"] == count

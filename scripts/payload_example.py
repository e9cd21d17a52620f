"""Write the example of what an endpoint is sent, as bytes and into its page, or check both (--check)."""

import asyncio
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from assay.domain.outcome import Limits
from assay.domain.trace import Span, Trace, agent_id_of
from assay.engine import Engine
from assay.ingest.assembly import assemble
from assay.testing import NOW_NS, FixedClock, a_revision, returning

DOCS = Path(__file__).parent.parent / "docs"
TARGET = DOCS / "examples" / "payload.json"
PAGE = DOCS / "external-scorers.md"
SHOWN = re.compile(r'^```text\n\{\n  "schemaVersion".*?^```$', re.DOTALL | re.MULTILINE)
MS = 1_000_000
AGENT = "shop assistant"


def example_trace() -> Trace:
    """Return a trace with a span of each type."""
    shared: dict[str, Any] = {
        "trace_id": "7d3f0c6a9b2e4d1f8a5c3e7b1d9f2a4c",
        "status": "OK",
        "agent": AGENT,
        "framework": "openinference",
        "session_id": "chat-81",
    }
    root = Span(
        span_id="a1f2e3d4c5b6a798",
        name="answer",
        started_at_ns=NOW_NS,
        ended_at_ns=NOW_NS + 1840 * MS,
        input="Where is my parcel 1042?",
        output="I cannot help with that.",
        metadata={"channel": "chat"},
        **shared,
    )
    under = {**shared, "parent_span_id": root.span_id}
    found = Span(
        span_id="b1f2e3d4c5b6a798",
        name="look up the parcel",
        started_at_ns=NOW_NS + 20 * MS,
        ended_at_ns=NOW_NS + 160 * MS,
        input={"parcel": 1042},
        output=[{"parcel": 1042, "state": "at the depot"}],
        metadata={"kind": "retrieval"},
        **under,
    )
    model = Span(
        span_id="c1f2e3d4c5b6a798",
        name="chat",
        started_at_ns=NOW_NS + 170 * MS,
        ended_at_ns=NOW_NS + 1790 * MS,
        input="Where is my parcel 1042?",
        output="I cannot help with that.",
        model="large-1",
        input_tokens=220,
        output_tokens=9,
        cache_read_tokens=128,
        **under,
    )
    tool = Span(
        span_id="d1f2e3d4c5b6a798",
        name="open a ticket",
        started_at_ns=NOW_NS + 1795 * MS,
        ended_at_ns=NOW_NS + 1830 * MS,
        tool_calls=[{"name": "open_ticket", "arguments": {"parcel": 1042}}],
        **under,
    )
    agent_id = agent_id_of("default", AGENT)
    spans = [root, found, model, tool]
    return assemble("default", spans, revision=1, created_at_ns=NOW_NS + 2000 * MS, agent_id=agent_id, agent=AGENT)


async def sent() -> bytes:
    """Return what the client of endpoints is given to post, byte for byte."""
    endpoint = returning({"matches": True})
    revision = replace(
        a_revision(evaluator_id="evl_0197740a5a60c1d2e3f4a5b6"),
        kind="external",
        language=None,
        interface=None,
        source=None,
        evaluator_name="no refusal",
        url="https://scorers.example/score",
    )
    await Engine({"external": endpoint}, FixedClock(), Limits()).evaluate(revision, [example_trace()])
    ((_, call),) = endpoint.calls
    return call.arguments[0]


def page_with(payload: bytes) -> str:
    """Return the page with this payload in it, spread over lines."""
    page, shown = PAGE.read_text(encoding="utf-8"), json.dumps(json.loads(payload), indent=2, ensure_ascii=False)
    if not SHOWN.search(page):
        sys.exit(f"{PAGE} has no place for the example")
    return SHOWN.sub(lambda _: f"```text\n{shown}\n```", page)


if __name__ == "__main__":
    payload = asyncio.run(sent())
    page = page_with(payload)
    if "--check" in sys.argv:
        if not TARGET.exists() or TARGET.read_bytes() != payload or PAGE.read_text(encoding="utf-8") != page:
            sys.exit("the payload in docs/external-scorers.md or docs/examples is out of date: run make fmt")
    else:
        TARGET.write_bytes(payload)
        PAGE.write_text(page, encoding="utf-8")

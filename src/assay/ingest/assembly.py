"""A trace out of its spans: the root found, the order made, the totals rolled up."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from assay.domain.json_value import JsonObject
from assay.domain.trace import Span, Trace
from assay.ingest.rollup import totals

NO_TIME = 2**63
ABOUT_ONE_SPAN = ("kind", "requested_tool_calls")
Value = TypeVar("Value")


def assemble(
    project_id: str,
    spans: Sequence[Span],
    *,
    revision: int,
    created_at_ns: int,
    agent_id: str | None,
    agent: str | None,
) -> Trace:
    """Return the trace of at least one span, all of the same trace id; of two with one span id, the later wins.

    The root comes first: the earliest span without a parent, else the earliest whose parent never came, else (all
    are in cycles) the earliest of all. The others follow by start time, those without one last. A root that records
    neither input, output nor error, such as that of a web server, is shown with the input of the first model call
    and the output of the last. Session, framework and model are the root's, else the first that a span has;
    metadata too, less what is about that span alone.
    """
    by_id = {span.span_id: span for span in spans}
    ordered = sorted(by_id.values(), key=_start)
    root, children = _tree(ordered, by_id)
    rest = [span for span in ordered if span is not root]
    shown = [_as_interaction(root, rest), *rest]
    return Trace(
        project_id=project_id,
        trace_id=root.trace_id,
        revision=revision,
        agent_id=agent_id,
        agent=agent,
        session_id=_first(shown, lambda span: span.session_id),
        created_at_ns=created_at_ns,
        spans=tuple(shown),
        totals=totals(by_id, children, root.span_id),
        model=_first(shown, lambda span: span.model),
        framework=_first(shown, lambda span: span.framework),
        tool_calls=[call for span in shown for call in span.tool_calls or ()],
        error=root.error,
        metadata=_first(shown, _shared_metadata) or {},
    )


def _start(span: Span) -> tuple[int, str]:
    return (NO_TIME if span.started_at_ns is None else span.started_at_ns, span.span_id)


def _first(spans: Sequence[Span], read: Callable[[Span], Value | None]) -> Value | None:
    return next((value for span in spans if (value := read(span))), None)


def _tree(ordered: Sequence[Span], by_id: Mapping[str, Span]) -> tuple[Span, dict[str, list[str]]]:
    """Return the root, and the children of each span; every span is below the root, once.

    What hangs on nothing (further parentless spans, those whose parent never came, cycles cut at their earliest span)
    counts as the root's child.
    """
    children: dict[str, list[str]] = {}
    tops: list[Span] = []
    for span in ordered:
        parent = span.parent_span_id
        if parent is None or parent == span.span_id or parent not in by_id:
            tops.append(span)
        else:
            children.setdefault(parent, []).append(span.span_id)
    reached: set[str] = set()
    for top in tops:
        _reach(top.span_id, children, reached)
    for span in ordered:
        if span.span_id not in reached:
            children[span.parent_span_id or ""].remove(span.span_id)
            tops.append(span)
            _reach(span.span_id, children, reached)
    root = next((span for span in tops if span.parent_span_id is None), tops[0])
    children.setdefault(root.span_id, []).extend(span.span_id for span in tops if span is not root)
    return root, children


def _reach(top: str, children: Mapping[str, Sequence[str]], reached: set[str]) -> None:
    """Add a span and everything below it to those reached."""
    waiting = [top]
    while waiting:
        span_id = waiting.pop()
        if span_id not in reached:
            reached.add(span_id)
            waiting.extend(children.get(span_id, ()))


def _as_interaction(root: Span, rest: Sequence[Span]) -> Span:
    if root.input is not None or root.output is not None or root.error is not None:
        return root
    calls = [span for span in rest if span.model]
    given = next((span.input for span in calls if span.input is not None), None)
    answered = next((span.output for span in reversed(calls) if span.output is not None), None)
    return root if given is None and answered is None else replace(root, input=given, output=answered)


def _shared_metadata(span: Span) -> JsonObject | None:
    return {name: value for name, value in (span.metadata or {}).items() if name not in ABOUT_ONE_SPAN} or None

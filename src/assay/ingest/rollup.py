"""What a trace used in all, from what its spans say they used."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from assay.domain.trace import Span, Totals

Figure = TypeVar("Figure", int, float)


def totals(by_id: Mapping[str, Span], children: Mapping[str, Sequence[str]], root_id: str) -> Totals:
    """Return what the tree below the root used; `children` must hold every other span exactly once.

    A span's subtree used the larger of what the span itself says and the sum of its children's subtrees: an agent
    that repeats the sum of its calls counts once, and a parent that knows of more than its children sent counts for
    the more. A figure that no span records is None.
    """
    upwards = [root_id]
    for span_id in upwards:
        upwards.extend(children.get(span_id, ()))
    upwards.reverse()

    def whole(read: Callable[[Span], Figure | None]) -> Figure | None:
        return _rolled(upwards, by_id, children, read)

    given = whole(lambda span: span.input_tokens)
    answered = whole(lambda span: span.output_tokens)
    total = whole(_total)
    return Totals(
        input_tokens=given,
        output_tokens=answered,
        total_tokens=None if total is None else max(total, (given or 0) + (answered or 0)),
        cache_read_tokens=whole(lambda span: span.cache_read_tokens),
        cache_write_tokens=whole(lambda span: span.cache_write_tokens),
        cost=whole(lambda span: span.cost),
    )


def _total(span: Span) -> int | None:
    if span.total_tokens is None and (span.input_tokens is not None or span.output_tokens is not None):
        return (span.input_tokens or 0) + (span.output_tokens or 0)
    return span.total_tokens


def _rolled(
    upwards: Sequence[str],
    by_id: Mapping[str, Span],
    children: Mapping[str, Sequence[str]],
    read: Callable[[Span], Figure | None],
) -> Figure | None:
    """Return the figure of the last span of `upwards`, which lists each span after everything below it."""
    used: dict[str, Figure] = {}
    for span_id in upwards:
        below: Figure | None = None
        for child in children.get(span_id, ()):
            if child in used:
                below = used[child] if below is None else below + used[child]
        own = read(by_id[span_id])
        figure = below if own is None else own if below is None else max(own, below)
        if figure is not None:
            used[span_id] = figure
    return used.get(upwards[-1])

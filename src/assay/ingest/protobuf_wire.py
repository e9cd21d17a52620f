"""A trace export on the wire: walked without building messages, so that a large body is judged before it is parsed."""

from collections.abc import Iterator
from dataclasses import dataclass, field

RESOURCE_SPANS = 1
RESOURCE, SCOPE_SPANS = 1, 2
SCOPE, SPANS = 1, 2
VARINT, FIXED_64, DELIMITED, FIXED_32 = 0, 1, 2, 5
VARINT_BITS = 70

# The messages inside each message, by field number; a text among them is one of a list of texts.
INSIDE: dict[str, dict[int, str]] = {
    "resource": {1: "pair", 3: "entity"},
    "entity": {3: "text", 4: "text"},
    "scope": {3: "pair"},
    "span": {9: "pair", 11: "event", 13: "link"},
    "event": {3: "pair"},
    "link": {4: "pair"},
    "pair": {2: "value"},
    "value": {5: "list", 6: "pairs"},
    "list": {1: "value"},
    "pairs": {1: "pair"},
    "text": {},
}


class WireDefect(Exception):
    """What is on the wire is no protobuf message, or holds more than allowed; the text says which."""


@dataclass(slots=True)
class ScopeBytes:
    """Where the spans of one scope lie in a body, with the scope's own bytes."""

    scope: bytes = b""
    spans: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])


@dataclass(slots=True)
class ResourceBytes:
    """Where the scopes of one resource lie in a body, with the resource's own bytes."""

    resource: bytes = b""
    scopes: list[ScopeBytes] = field(default_factory=list[ScopeBytes])


def layout(body: bytes, most: int) -> tuple[list[ResourceBytes], int]:
    """Return where everything lies, and how many resources, scopes and spans there are.

    It stops where it has found `most` of them. Raises WireDefect for what is no message.
    """
    groups: list[ResourceBytes] = []
    found = 0
    for number, start, end in _delimited(body, 0, len(body)):
        if number != RESOURCE_SPANS:
            continue
        group = ResourceBytes()
        groups.append(group)
        found += 1
        for inner, inner_start, inner_end in _delimited(body, start, end):
            if inner == RESOURCE:
                group.resource += body[inner_start:inner_end]
            elif inner == SCOPE_SPANS:
                scope = _scope(body, inner_start, inner_end, most - found)
                group.scopes.append(scope)
                found += 1 + len(scope.spans)
                if found >= most:
                    break
        if found >= most:
            break
    return groups, found


def _scope(body: bytes, start: int, end: int, most: int) -> ScopeBytes:
    scope = ScopeBytes()
    spans = scope.spans
    for number, inner_start, inner_end in _delimited(body, start, end):
        if number == SPANS:
            spans.append((inner_start, inner_end))
            if len(spans) >= most:
                break
        elif number == SCOPE:
            scope.scope += body[inner_start:inner_end]
    return scope


def count_messages(kind: str, body: bytes, start: int, end: int, most: int) -> int:
    """Return how many messages lie inside one, counting no further than one above `most`."""
    count = 0
    waiting = [(INSIDE[kind], start, end)]
    while waiting:
        inside, start, end = waiting.pop()
        for number, inner_start, inner_end in _delimited(body, start, end):
            inner = inside.get(number)
            if inner is not None:
                count += 1
                if count > most:
                    return count
                if inner_end > inner_start:
                    waiting.append((INSIDE[inner], inner_start, inner_end))
    return count


def _delimited(body: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield number, start and end of the length-delimited fields of a message."""
    while at < end:
        tag = body[at]
        at += 1
        if tag > 0x7F:
            tag, at = _varint(body, at - 1, end)
        kind = tag & 7
        if kind == DELIMITED:
            if at >= end:
                raise WireDefect("a field is cut short")
            size = body[at]
            at += 1
            if size > 0x7F:
                size, at = _varint(body, at - 1, end)
            start, at = at, at + size
            if at > end:
                raise WireDefect("a field is longer than what holds it")
            yield tag >> 3, start, at
        elif kind == VARINT:
            _, at = _varint(body, at, end)
        elif kind in (FIXED_64, FIXED_32):
            at += 8 if kind == FIXED_64 else 4
        else:
            raise WireDefect(f"a field has the wire type {kind}")
    if at > end:
        raise WireDefect("a field is longer than what holds it")


def _varint(body: bytes, at: int, end: int) -> tuple[int, int]:
    number = shift = 0
    while at < end and shift < VARINT_BITS:
        byte = body[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte <= 0x7F:
            return number, at
        shift += 7
    raise WireDefect("a number does not end")

"""How a family of conventions is written down: which attribute means what, in order of preference."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from assay.domain.json_value import JsonValue

Field = Literal[
    "agent",
    "application",
    "cache_read_tokens",
    "cache_write_tokens",
    "cost",
    "documents",
    "duration_s",
    "error_type",
    "input",
    "input_messages",
    "input_tokens",
    "input_type",
    "kind",
    "metadata",
    "model",
    "output",
    "output_messages",
    "output_tokens",
    "output_type",
    "provider",
    "session_id",
    "system_instructions",
    "tool_input",
    "tool_name",
    "tool_output",
    "total_tokens",
]
Reader: TypeAlias = Callable[[JsonValue], JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """All attributes below a dotted prefix, which make one nested value of a field."""

    prefix: str
    field: Field
    read: Reader


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageEvent:
    """A span event that carries one message: its text under `content`, or the whole under `whole`."""

    name: str
    field: Literal["input_messages", "output_messages"]
    role: str
    content: tuple[str, ...] = ("content", "gen_ai.event.content")


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """The attributes of one instrumentation convention.

    `keys` lists, for each field, the attribute names that hold it, best first; families are asked in the order of
    the table of families. `readers` replaces the usual reader of a field. `attribute_events` name the span events
    whose attributes are read like the span's own.
    """

    name: str
    keys: dict[Field, tuple[str, ...]]
    readers: dict[Field, Reader] = field(default_factory=dict[Field, Reader])
    prefixes: tuple[Prefix, ...] = ()
    message_events: tuple[MessageEvent, ...] = ()
    attribute_events: tuple[str, ...] = ()
    kinds: dict[str, str] = field(default_factory=dict[str, str])

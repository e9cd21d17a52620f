"""The table of families, best first, compiled for look-up by attribute name."""

from dataclasses import dataclass

from assay.ingest.conventions import readers
from assay.ingest.conventions.agenta import AGENTA
from assay.ingest.conventions.family import Field, MessageEvent, Reader
from assay.ingest.conventions.genai import GENAI
from assay.ingest.conventions.logfire import LOGFIRE
from assay.ingest.conventions.openinference import OPENINFERENCE
from assay.ingest.conventions.traceloop import TRACELOOP

FAMILIES = (AGENTA, GENAI, OPENINFERENCE, TRACELOOP, LOGFIRE)
READERS: dict[Field, Reader] = {
    "agent": readers.text,
    "application": readers.text,
    "cache_read_tokens": readers.count,
    "cache_write_tokens": readers.count,
    "cost": readers.amount,
    "documents": readers.content,
    "duration_s": readers.amount,
    "error_type": readers.text,
    "input": readers.content,
    "input_messages": readers.content,
    "input_tokens": readers.count,
    "input_type": readers.text,
    "kind": readers.kind,
    "metadata": readers.record,
    "model": readers.text,
    "output": readers.content,
    "output_messages": readers.content,
    "output_tokens": readers.count,
    "output_type": readers.text,
    "provider": readers.text,
    "session_id": readers.text,
    "system_instructions": readers.content,
    "tool_input": readers.content,
    "tool_name": readers.text,
    "tool_output": readers.content,
    "total_tokens": readers.count,
}


@dataclass(frozen=True, slots=True)
class Meaning:
    """What an attribute stands for; of several for one field, the lowest rank wins."""

    field: Field
    rank: int
    read: Reader


def _meanings() -> tuple[dict[str, Meaning], dict[str, tuple[tuple[str, Meaning], ...]]]:
    """Return the meanings by attribute name, and those of prefixes by the prefix's first word."""
    exact: dict[str, Meaning] = {}
    below: dict[str, tuple[tuple[str, Meaning], ...]] = {}
    rank = 0
    for family in FAMILIES:
        for field, keys in family.keys.items():
            for key in keys:
                rank += 1
                exact[key] = Meaning(field, rank, family.readers.get(field, READERS[field]))
        for prefix in family.prefixes:
            rank += 1
            first = prefix.prefix.partition(".")[0]
            below[first] = (*below.get(first, ()), (prefix.prefix, Meaning(prefix.field, rank, prefix.read)))
    return exact, below


EXACT, BELOW = _meanings()
MESSAGE_EVENTS: dict[str, MessageEvent] = {event.name: event for family in FAMILIES for event in family.message_events}
ATTRIBUTE_EVENTS = frozenset(name for family in FAMILIES for name in family.attribute_events)
KINDS: dict[str, str] = {name: kind for family in FAMILIES for name, kind in family.kinds.items()}

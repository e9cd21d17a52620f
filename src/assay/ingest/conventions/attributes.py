"""A span's attributes looked up in the table of families: for each field, the value of the best one there is."""

from assay.domain.json_value import JsonObject, JsonValue
from assay.ingest.conventions.families import BELOW, EXACT, Meaning
from assay.ingest.conventions.family import Field
from assay.ingest.conventions.nested import unflattened


class Found:
    """The fields found so far, with the rank of the attribute each came from."""

    __slots__ = ("ranks", "values")

    def __init__(self) -> None:
        self.values: dict[Field, JsonValue] = {}
        self.ranks: dict[Field, int] = {}

    def offer(self, meaning: Meaning, value: JsonValue) -> None:
        """Take a value that was read, unless a better one is held; metadata of several sources is merged."""
        held = self.values.get(meaning.field)
        better = held is None or meaning.rank < self.ranks[meaning.field]
        if meaning.field == "metadata" and isinstance(held, dict) and isinstance(value, dict):
            value = {**held, **value} if better else {**value, **held}
        elif not better:
            return
        self.values[meaning.field] = value
        self.ranks[meaning.field] = min(meaning.rank, self.ranks.get(meaning.field, meaning.rank))

    def text(self, field: Field) -> str | None:
        """Return a field that its reader leaves as text."""
        value = self.values.get(field)
        return value if isinstance(value, str) else None

    def count(self, field: Field) -> int | None:
        """Return a field that its reader leaves as a whole number."""
        value = self.values.get(field)
        return value if isinstance(value, int) else None

    def amount(self, field: Field) -> float | None:
        """Return a field that its reader leaves as a number."""
        value = self.values.get(field)
        return value if isinstance(value, float) else None


def look_up(found: Found, attributes: JsonObject) -> None:
    """Add what the attributes say to what was found."""
    groups: dict[int, tuple[Meaning, list[tuple[str, JsonValue]]]] = {}
    ranks = found.ranks
    for key, value in attributes.items():
        meaning = EXACT.get(key)
        if meaning is not None:
            field = meaning.field
            if field not in ranks or meaning.rank < ranks[field] or field == "metadata":
                read = meaning.read(value)
                if read is not None:
                    found.offer(meaning, read)
            continue
        for prefix, below in BELOW.get(key.partition(".")[0], ()):
            if key.startswith(prefix):
                groups.setdefault(below.rank, (below, []))[1].append((key[len(prefix) :], below.read(value)))
                break
    for below, pairs in groups.values():
        found.offer(below, unflattened(pairs))

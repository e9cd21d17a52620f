"""Where the lines of a translated text come from."""

from typing import TypeAlias

# For each line of the text, the columns from which it stems from which of the author's lines (all 1-based).
Places: TypeAlias = list[list[tuple[int, int]]]


def line_at(places: Places | None, line: int, column: int) -> int | None:
    """Return the author's line of a place in the text: the same without a translation, None where it is not known."""
    if places is None:
        return line
    if not 1 <= line <= len(places):
        return None
    found = None
    for start, source_line in places[line - 1]:
        if found is None or start <= column:
            found = source_line
    return found

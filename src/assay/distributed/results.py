"""The results of a part: one Parquet file, whose footer says what of the input it covers and how that went."""

import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager

import msgspec

from assay.distributed.parquet import UNREADABLE, TableWriter, footer_value
from assay.distributed.parts import Part
from assay.distributed.rows import Row
from assay.distributed.storage import open_input, put
from assay.domain.check import Check, CheckError, Reading
from assay.domain.text import mended

FOOTER_KEY = b"assay.part"
COLUMNS = {
    "source": "string",
    "row": "int64",
    "status": "string",
    "failed": "bool",
    "metrics": "string",
    "reason": "string",
    "error_kind": "string",
    "error_message": "string",
    "error_line": "int64",
    "logs": "string",
    "duration_ms": "float64",
    "runner": "string",
    "evaluator": "string",
}


class Counts(msgspec.Struct, kw_only=True):
    """How many rows there were, by status; those that failed are among the scored."""

    rows: int = 0
    scored: int = 0
    failed: int = 0
    skipped: int = 0
    errored: int = 0


class _Footer(msgspec.Struct, frozen=True, kw_only=True):
    part: Part
    counts: Counts


def counts_at(place: str, part: Part) -> Counts | None:
    """Return the counts of the results that are at this place already, whole and of this very part; else None."""
    try:
        with open_input(place) as stream:
            footer = msgspec.json.decode(footer_value(stream, FOOTER_KEY) or b"", type=_Footer)
    except (FileNotFoundError, UNREADABLE, msgspec.MsgspecError):
        return None
    return footer.counts if footer.part == part else None


@contextmanager
def results_at(place: str, part: Part, evaluator: str) -> Generator["Results"]:
    """Yield results to add to; they become a file at this place at the end, whole, or not at all after an error."""
    # The file has no name until then, so that nothing is left of it when this process is killed.
    with tempfile.TemporaryFile() as file:
        writer = TableWriter(file, COLUMNS)
        results = Results(writer, part, evaluator)
        yield results
        writer.close({FOOTER_KEY: msgspec.json.encode(_Footer(part=part, counts=results.counts))})
        put(place, file)


class Results:
    """The results of a part as far as they are there."""

    def __init__(self, writer: TableWriter, part: Part, evaluator: str) -> None:
        self.counts = Counts()
        self._writer = writer
        self._source = mended(part.file.source)
        self._evaluator = evaluator

    def add(self, rows: Sequence[Row], outcomes: Sequence[Check | CheckError]) -> None:
        """Add the outcomes of these rows."""
        self._writer.add([self._record(row, outcome) for row, outcome in zip(rows, outcomes, strict=True)])

    def _record(self, row: Row, outcome: Check | CheckError) -> dict[str, object]:
        if isinstance(outcome, CheckError):
            reading, logs, duration_s, runner = Reading(status="errored", error=outcome), "", 0.0, None
        else:
            reading, logs, duration_s, runner = outcome.reading, outcome.logs, outcome.duration_s, outcome.runner
        failed = reading.verdict is not None and reading.verdict.failed
        self._count(reading, failed)
        error = reading.error
        return {
            "source": self._source,
            "row": row.number,
            "status": reading.status,
            "failed": failed,
            "metrics": _json(reading.metrics),
            "reason": None if reading.reason is None else mended(reading.reason),
            "error_kind": None if error is None else error.kind,
            "error_message": None if error is None else mended(error.message),
            "error_line": None if error is None else error.line,
            "logs": mended(logs),
            "duration_ms": round(duration_s * 1000, 3),
            "runner": runner,
            "evaluator": self._evaluator,
        }

    def _count(self, reading: Reading, failed: bool) -> None:
        self.counts.rows += 1
        self.counts.failed += failed
        match reading.status:
            case "scored":
                self.counts.scored += 1
            case "skipped":
                self.counts.skipped += 1
            case "errored":
                self.counts.errored += 1


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()

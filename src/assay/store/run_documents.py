"""Rows, and runs with their progress and results, as the JSON bytes of their columns, and back."""

import base64
import zlib
from collections.abc import Sequence
from typing import Any

import msgspec

from assay.domain.check import CheckError
from assay.domain.run import (
    ColumnOutputs,
    Outputs,
    RevisionTotals,
    RowOutput,
    RowRecord,
    RowResult,
    RowSource,
    Run,
    RunProgress,
    StoredTraces,
    SuppliedOutputs,
    Tally,
    TargetOutputs,
    TestsetRows,
)
from assay.domain.testset import Case
from assay.store.documents import encode

SOURCES: dict[str, type[RowSource]] = {"testset": TestsetRows, "traces": StoredTraces}
OUTPUTS: dict[str, type[Outputs]] = {"column": ColumnOutputs, "supplied": SuppliedOutputs, "target": TargetOutputs}
_decode = msgspec.json.Decoder().decode
RESULTS_LEVEL = 1


def encode_run(run: Run) -> bytes:
    """Return what of a run never changes."""
    fields: dict[str, Any] = {name: getattr(run, name) for name in _FIXED}
    fields["source"] = [_name_of(run.source, SOURCES), run.source]
    fields["outputs"] = [_name_of(run.outputs, OUTPUTS), run.outputs]
    return encode(fields)


def _name_of(value: object, kinds: dict[str, type[Any]]) -> str:
    return next(name for name, kind in kinds.items() if isinstance(value, kind))


_FIXED = ("name", "revision_ids", "expected_column", "raises_signals", "rows_per_s", "row_count")


def encode_progress(progress: RunProgress) -> bytes:
    """Return how far a run has come."""
    return encode(progress)


def decode_run(row: Any) -> Run:
    """Return the run of a row of the table."""
    fixed: dict[str, Any] = _decode(row.document)
    source, source_fields = fixed.pop("source")
    outputs, output_fields = fixed.pop("outputs")
    revision_ids: list[str] = fixed.pop("revision_ids")
    return Run(
        **fixed,
        revision_ids=tuple(revision_ids),
        source=SOURCES[source](**source_fields),
        outputs=_outputs(outputs, output_fields),
        id=row.id,
        project_id=row.project_id,
        is_backfill=row.is_backfill,
        state=row.state,
        cause=row.cause,
        created_at_ns=row.created_at_ns,
        ended_at_ns=row.ended_at_ns,
        progress=_progress(row.progress, row.version),
    )


def _outputs(kind: str, fields: dict[str, Any]) -> Outputs:
    if kind == "target":
        headers: list[list[str]] = fields.pop("headers")
        sealed: str | None = fields.pop("sealed_headers")
        return TargetOutputs(
            **fields,
            headers=tuple((name, value) for name, value in headers),
            sealed_headers=None if sealed is None else base64.b64decode(sealed),
        )
    return OUTPUTS[kind](**fields)


def _progress(document: bytes, version: int) -> RunProgress:
    found: dict[str, Any] = _decode(document)
    cursor: list[int] | None = found.pop("cursor")
    totals: dict[str, dict[str, Any]] = found.pop("totals")
    found["version"] = version
    return RunProgress(
        **found,
        cursor=None if cursor is None else (cursor[0], cursor[1]),
        totals={revision_id: _totals(fields) for revision_id, fields in totals.items()},
    )


def _totals(fields: dict[str, Any]) -> RevisionTotals:
    tally = Tally(**fields.pop("tally"))
    return RevisionTotals(**fields, tally=tally)


def decode_cases(document: bytes) -> list[Case]:
    """Return the rows of a block."""
    return [Case(**fields) for fields in _decode(document)]


def decode_row_output(document: bytes) -> RowOutput:
    """Return what an application answered for a row."""
    fields: dict[str, Any] = _decode(document)
    error = _error(fields.pop("error"))
    return RowOutput(**fields, error=error)


def encode_records(records: Sequence[RowRecord]) -> bytes:
    """Return the compressed JSON of results, which repeat themselves a lot."""
    return zlib.compress(encode(records), RESULTS_LEVEL)


def decode_records(document: bytes) -> tuple[RowRecord, ...]:
    """Return results."""
    found: list[dict[str, Any]] = _decode(zlib.decompress(document))
    return tuple(_record(fields) for fields in found)


def _record(fields: dict[str, Any]) -> RowRecord:
    results: list[dict[str, Any]] = fields.pop("results")
    return RowRecord(**fields, results=tuple(_result(result) for result in results))


def _result(fields: dict[str, Any]) -> RowResult:
    error = _error(fields.pop("error"))
    return RowResult(**fields, error=error)


def _error(fields: dict[str, Any] | None) -> CheckError | None:
    return None if fields is None else CheckError(**fields)

"""Domain values as the JSON bytes of a `document` column, and back."""

from dataclasses import fields
from typing import Any

import msgspec

from assay.domain.channel import Channel
from assay.domain.check import Check, CheckError, Reading, Verdict
from assay.domain.credentials import SealedCredentials
from assay.domain.evaluator import Revision
from assay.domain.failure_window import Failed, FailureWindow, Occurrence
from assay.domain.notification import Delivery, Owed
from assay.domain.severity import SeverityBand
from assay.domain.signal import Signal
from assay.domain.signal_log import LogEntry
from assay.domain.testset import Column
from assay.domain.text import mended_value
from assay.domain.trace import Span

_encoder = msgspec.json.Encoder()
_decode = msgspec.json.Decoder().decode
_decode_revision = msgspec.json.Decoder(Revision).decode
_decode_channel = msgspec.json.Decoder(Channel).decode
_decode_owed = msgspec.json.Decoder(Owed).decode
_decode_delivery = msgspec.json.Decoder(Delivery).decode
_decode_credentials = msgspec.json.Decoder(SealedCredentials).decode
decode_columns = msgspec.json.Decoder(tuple[Column, ...]).decode
_SPAN_FIELDS = frozenset(field.name for field in fields(Span))


def encode(value: Any) -> bytes:
    """Return the JSON of a domain value. Lone surrogates, which are no text in any encoding, become U+FFFD."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(mended_value(msgspec.to_builtins(value)))


def decode_list(document: bytes) -> list[Any]:
    """Return a JSON list."""
    return _decode(document)


def decode_span(document: bytes) -> Span:
    """Return the span; fields of an older or newer version that Span does not have are left out."""
    found: dict[str, Any] = _decode(document)
    return Span(**{name: value for name, value in found.items() if name in _SPAN_FIELDS})


def decode_revision(document: bytes) -> Revision:
    """Return the revision."""
    return _decode_revision(document)


def decode_channel(document: bytes) -> Channel:
    """Return the channel."""
    return _decode_channel(document)


def decode_owed(document: bytes) -> Owed:
    """Return the notification that is owed."""
    return _decode_owed(document)


def decode_delivery(document: bytes) -> Delivery:
    """Return the delivery."""
    return _decode_delivery(document)


def decode_credentials(document: bytes) -> SealedCredentials:
    """Return the sealed credentials."""
    return _decode_credentials(document)


def decode_check(document: bytes) -> Check:
    """Return the check."""
    found: dict[str, Any] = _decode(document)
    reading: dict[str, Any] = found.pop("reading")
    error = reading.pop("error")
    verdict = reading.pop("verdict")
    notes = reading.pop("notes", ())
    return Check(
        **found,
        reading=Reading(
            **reading,
            error=None if error is None else CheckError(**error),
            verdict=None if verdict is None else Verdict(**verdict),
            notes=tuple(notes),
        ),
    )


def decode_signal(document: bytes) -> Signal:
    """Return the signal."""
    found: dict[str, Any] = _decode(document)
    evidence: list[dict[str, Any]] = found.pop("evidence")
    return Signal(**found, evidence=tuple(Occurrence(**occurrence) for occurrence in evidence))


def decode_log_entry(number: int, document: bytes) -> LogEntry:
    """Return the entry of this number."""
    found: dict[str, Any] = _decode(document)
    found["number"] = number
    return LogEntry(**found)


def decode_failure_window(document: bytes) -> FailureWindow:
    """Return the window."""
    found: dict[str, Any] = _decode(document)
    return FailureWindow(
        closings=found["closings"],
        entries=tuple(None if entry is None else Failed(**entry) for entry in found["entries"]),
        waiting=tuple(Occurrence(**occurrence) for occurrence in found["waiting"]),
    )


def decode_bands(document: bytes | None) -> tuple[SeverityBand, ...]:
    """Return severity bands, none for no document."""
    return tuple(SeverityBand(**band) for band in _decode(document)) if document else ()

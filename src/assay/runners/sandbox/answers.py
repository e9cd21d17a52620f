"""What a child's frames say, as outcomes. A frame comes from a process that ran hostile code: it is checked first."""

import math
import os
import signal
from typing import Literal, get_args

import msgspec

from assay.domain.json_value import JsonValue
from assay.domain.outcome import Exceeded, Limits, Outcome, Raised, RaisedKind, Returned
from assay.runners.sandbox import frames

_MAX_DEPTH = 64
_OWN_KINDS: tuple[RaisedKind, ...] = (
    "script-raised", "script-exited", "entry-point-missing", "unsupported-return-type", "not-json-serialisable",
    "non-finite", "non-string-key", "too-deep", "bad-unicode",
)  # fmt: skip
assert set(_OWN_KINDS) <= set(get_args(RaisedKind))


class _Report(msgspec.Struct, frozen=True):
    kind: Literal[
        "script-raised", "script-exited", "entry-point-missing", "unsupported-return-type", "not-json-serialisable",
        "non-finite", "non-string-key", "too-deep", "bad-unicode",
    ]  # fmt: skip
    type: str
    message: str
    line: int | None = None
    traceback: str | None = None


_decode_value = msgspec.json.Decoder(JsonValueDecoded := object).decode
_decode_report = msgspec.json.Decoder(_Report).decode

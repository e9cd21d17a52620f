"""What an evaluator is applied to: a stored trace, or a case somebody wrote down."""

from dataclasses import dataclass, field
from typing import TypeAlias

from assay.domain.json_value import JsonObject, JsonValue
from assay.domain.trace import Span, Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Testcase:
    """One row: the whole case, what the application answered, and what was expected.

    `trace` is the view `evaluate` gets, as the caller wrote it; `spans` is what `handler` reads.
    `app_params` belongs to the four-parameter interface alone.
    """

    inputs: JsonValue = field(default_factory=dict[str, JsonValue])
    outputs: JsonValue = None
    expected: JsonValue = None
    metadata: JsonObject = field(default_factory=dict[str, JsonValue])
    trace: JsonObject | None = None
    spans: tuple[Span, ...] = ()
    app_params: JsonObject = field(default_factory=dict[str, JsonValue])


Subject: TypeAlias = Trace | Testcase

"""How bad a failure is: its evaluator's word, or that of the band its score falls into."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from assay.domain.json_value import JsonValue

Severity = Literal["low", "medium", "high", "critical"]
SEVERITIES: tuple[Severity, ...] = ("low", "medium", "high", "critical")


@dataclass(frozen=True, slots=True, kw_only=True)
class SeverityBand:
    """Failures with a score under `below` (0 to 1, exclusive) have this severity, unless a lower band has them."""

    below: float
    severity: Severity


def severity_of(score: JsonValue, bands: Sequence[SeverityBand], otherwise: Severity) -> Severity:
    """Return the severity of a score: that of the lowest band it is under, else `otherwise`, as for what is no score.

    The bands are in ascending order.
    """
    if isinstance(score, bool) or not isinstance(score, int | float):
        return otherwise
    for band in bands:
        if score < band.below:
            return band.severity
    return otherwise


def is_worse(severity: Severity, than: Severity) -> bool:
    """Tell whether the first is the more severe one."""
    return SEVERITIES.index(severity) > SEVERITIES.index(than)

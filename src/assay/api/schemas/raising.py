"""When and how badly an evaluator raises a signal, as sent and as answered."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from assay.api.schemas.fields import Answer, Request, Share
from assay.domain.failure_window import MOST_COUNTED, RaiseAfter
from assay.domain.severity import Severity, SeverityBand

MOST_BANDS = 10


class BandFields(Request):
    """Failures with a score below this have this severity."""

    below: Share
    severity: Severity


def _ascending(bands: list[BandFields]) -> list[BandFields]:
    for lower, upper in pairwise(bands):
        if not lower.below < upper.below:
            raise PydanticCustomError(
                "bands",
                "must ascend in `below`, each once; found {upper} after {lower}",
                {"lower": lower.below, "upper": upper.below},
            )
    if bands and bands[0].below == 0:
        raise PydanticCustomError("bands", "must begin above 0: no score is below it")
    return bands


Bands = Annotated[
    list[BandFields],
    Field(
        max_length=MOST_BANDS,
        description="Severities by score, in ascending order; the lowest band that a score is below decides, and "
        "`severity` where there is none.",
    ),
    AfterValidator(_ascending),
]


class RaiseAfterFields(Request):
    """Raise when at least `failures` of the last `of` scored checks of an agent failed."""

    failures: Annotated[int, Field(ge=1, le=MOST_COUNTED)] = 1
    of: Annotated[int, Field(ge=1, le=MOST_COUNTED)] = 1

    @model_validator(mode="after")
    def _demand_reachable(self) -> "RaiseAfterFields":
        if self.failures > self.of:
            raise PydanticCustomError(
                "raise-after",
                "cannot wait for {failures} failures of {of} checks",
                {"failures": self.failures, "of": self.of},
            )
        return self


class BandAnswer(Answer):
    """A band of scores and its severity."""

    below: float
    severity: Severity


class RaiseAfterAnswer(Answer):
    """How many of the last checks have to fail."""

    failures: int
    of: int


def band_answers(bands: Sequence[SeverityBand]) -> list[BandAnswer]:
    """Return bands as the API shows them."""
    return [BandAnswer(below=band.below, severity=band.severity) for band in bands]


def raise_after_answer(raise_after: RaiseAfter) -> RaiseAfterAnswer:
    """Return the rate as the API shows it."""
    return RaiseAfterAnswer(failures=raise_after.failures, of=raise_after.of)

"""What a worker is told to do to each part, and the digest that its results are named by."""

import hashlib
import re
from dataclasses import dataclass

import msgspec

from assay.domain.evaluator import Revision

RESULTS_VERSION = 1
SHOWN_OF_DIGEST = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A revision, the columns it is given (`expected_column` is None where nothing is expected), and where to write."""

    revision: Revision
    outputs_column: str
    expected_column: str | None
    output: str

    @property
    def digest(self) -> str:
        """Return the hexadecimal SHA-256 of all that decides what a row's result is, but for the row."""
        revision = self.revision
        decisive = (
            RESULTS_VERSION, revision.language, revision.source, revision.interface, revision.threshold,
            self.outputs_column, self.expected_column,
        )  # fmt: skip
        return hashlib.sha256(msgspec.json.encode(decisive)).hexdigest()

    @property
    def folder(self) -> str:
        """Return the folder, or the prefix, of this evaluator's results, without a slash at its end."""
        name = re.sub(r"[^\w.-]", "-", self.revision.evaluator_name)
        return f"{self.output.rstrip('/')}/{name}-{self.digest[:SHOWN_OF_DIGEST]}"

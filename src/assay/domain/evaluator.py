"""Evaluators, their revisions, and what each interface calls."""

from dataclasses import dataclass
from typing import Literal

from assay.domain.credentials import SealedCredentials
from assay.domain.failure_window import EVERY_FAILURE, RaiseAfter
from assay.domain.severity import Severity, SeverityBand

EvaluatorKind = Literal["code", "external"]
Language = Literal["python", "javascript", "typescript"]
Interface = Literal["evaluate", "evaluate-float", "evaluate-app-params", "handler"]
ScopeMode = Literal["all", "selected"]

ENTRY_POINTS: dict[Interface, str] = {
    "evaluate": "evaluate",
    "evaluate-float": "evaluate",
    "evaluate-app-params": "evaluate",
    "handler": "handler",
}
ARGUMENTS: dict[Interface, tuple[str, ...]] = {
    "evaluate": ("inputs", "outputs", "trace"),
    "evaluate-float": ("inputs", "outputs", "trace"),
    "evaluate-app-params": ("app_params", "inputs", "output", "correct_answer"),
    "handler": ("input", "output", "expected", "metadata", "trace"),
}
DEFAULT_THRESHOLD = 0.5
DEFAULT_SAMPLE_RATE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """An immutable version of an evaluator's code and settings; every check names the one that made it.

    A code revision has `language`, `interface` and `source`; an external one has `url` and `raise_when`.
    `threshold` is 0 to 1 and inclusive: a score below it fails. `wall_s`, `cpu_s` and `memory_bytes` are the budgets of
    one evaluation of code, None for the operator's ceiling.
    """

    id: str
    evaluator_id: str
    project_id: str
    number: int
    created_at_ns: int
    evaluator_name: str
    kind: EvaluatorKind
    language: Language | None = None
    interface: Interface | None = None
    source: str | None = None
    threshold: float = DEFAULT_THRESHOLD
    correct_answer_key: str = "correct_answer"
    wall_s: float | None = None
    cpu_s: float | None = None
    memory_bytes: int | None = None
    url: str | None = None
    raise_when: bool = True

    @property
    def is_draft(self) -> bool:
        """Tell whether no saved evaluator is behind it, as in a dry run."""
        return self.evaluator_id == ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluator:
    """A check somebody wrote, with what may change without a new revision; `revision` is the current one.

    `credentials` are of external ones, and no part of a revision: a token that is renewed holds for all that is owed.
    """

    id: str
    project_id: str
    name: str
    enabled: bool = True
    severity: Severity = "medium"
    severity_bands: tuple[SeverityBand, ...] = ()
    raise_after: RaiseAfter = EVERY_FAILURE
    sample_rate: float = DEFAULT_SAMPLE_RATE
    scope_mode: ScopeMode = "all"
    agent_ids: tuple[str, ...] = ()
    created_at_ns: int
    updated_at_ns: int
    credentials: SealedCredentials | None = None
    revision: Revision

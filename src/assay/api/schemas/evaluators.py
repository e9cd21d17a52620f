"""Evaluators and their revisions, as sent and as answered."""

from typing import Annotated, Any, ClassVar

from pydantic import Field

from assay.api.schemas.credentials import BearerToken, Headers, SigningSecrets, credentials_shown
from assay.api.schemas.fields import Answer, Identifier, Name, Request, Share, Text, iso
from assay.api.schemas.raising import (
    BandAnswer,
    BandFields,
    Bands,
    RaiseAfterAnswer,
    RaiseAfterFields,
    band_answers,
    raise_after_answer,
)
from assay.domain.budgets import MEBIBYTE
from assay.domain.evaluator import (
    DEFAULT_SAMPLE_RATE,
    DEFAULT_THRESHOLD,
    Evaluator,
    EvaluatorKind,
    Interface,
    Language,
    Revision,
    ScopeMode,
    Severity,
)
from assay.domain.url import masked

LONGEST_URL = 2048
MOST_AGENTS = 1000


class EvaluatorFields(Request):
    """What can be set of an evaluator. What is left out keeps its value, or its default in a new one.

    `threshold` is another word for `alertBelow`, and `invertMatch` is the opposite of `raiseWhen`.
    """

    read_only: ClassVar[frozenset[str]] = frozenset({"id", "_id", "revision", "revisionId", "createdAt", "updatedAt"})

    kind: Annotated[EvaluatorKind, Field(description="`external` posts to `url`; `code` runs `script`.")] = "external"
    enabled: bool = True
    severity: Severity = "medium"
    severity_bands: Bands = Field(default_factory=list[BandFields])
    raise_after: RaiseAfterFields = Field(default_factory=RaiseAfterFields)
    sample_rate: Annotated[Share, Field(description="The share of traces that are checked.")] = DEFAULT_SAMPLE_RATE
    scope_mode: Annotated[ScopeMode, Field(description="`selected` checks the agents in `agentIds` only.")] = "all"
    agent_ids: Annotated[list[Identifier], Field(max_length=MOST_AGENTS)] = Field(default_factory=list[str])
    language: Language | None = None
    interface: Annotated[
        Interface | None, Field(description="How the function is called; seen from the code when left out.")
    ] = None
    script: Annotated[Text | None, Field(description="The source, which defines `evaluate` or `handler`.")] = None
    alert_below: Annotated[Share, Field(description="A score below it fails.")] = DEFAULT_THRESHOLD
    threshold: Annotated[Share, Field(description="The same as `alertBelow`.")] = DEFAULT_THRESHOLD
    correct_answer_key: Annotated[
        Name, Field(description="The input that holds the ground truth, for `evaluate-app-params`.")
    ] = "correct_answer"
    wall_seconds: Annotated[
        float | None, Field(description="Wall time of one evaluation; null is the operator's ceiling.")
    ] = None
    cpu_seconds: Annotated[
        float | None, Field(description="CPU time of one evaluation; null is the operator's ceiling.")
    ] = None
    memory_mb: Annotated[
        int | None, Field(description="Memory of one evaluation, in MiB; null is the operator's ceiling.")
    ] = None
    url: Annotated[Text | None, Field(max_length=LONGEST_URL)] = None
    raise_when: Annotated[bool, Field(description="The value of `matches` that raises a signal.")] = True
    invert_match: Annotated[bool, Field(description="The opposite of `raiseWhen`.")] = False
    headers: Headers = None
    bearer_token: BearerToken = None
    signing_secrets: SigningSecrets = None


class EvaluatorChanges(EvaluatorFields):
    """Changes to an evaluator."""

    name: Name = ""


class NewEvaluator(EvaluatorFields):
    """A new evaluator; `code` needs `language` and `script`, `external` needs `url`."""

    name: Name


class Duplicate(Request):
    """What shall differ in a copy of an evaluator; all else is as in the original."""

    name: Annotated[Name | None, Field(description="That of the original and ` (copy)` when left out.")] = None
    interface: Annotated[
        Interface | None, Field(description="How the copy's function is called; the original's when left out.")
    ] = None


class EvaluatorAnswer(Answer):
    """An evaluator with its current revision; the fields of the other kind are left out."""

    id: str
    also_id: Annotated[str, Field(serialization_alias="_id")]
    name: str
    kind: EvaluatorKind
    enabled: bool
    severity: Severity
    severity_bands: list[BandAnswer]
    raise_after: RaiseAfterAnswer
    sample_rate: float
    scope_mode: ScopeMode
    agent_ids: list[str]
    language: Language | None = None
    interface: Interface | None = None
    script: str | None = None
    alert_below: float | None = None
    threshold: float | None = None
    correct_answer_key: str | None = None
    wall_seconds: Annotated[float | None, Field(description="Left out where the operator's ceiling holds.")] = None
    cpu_seconds: float | None = None
    memory_mb: int | None = None
    url: Annotated[str | None, Field(description="Its query, where tokens live, is masked.")] = None
    raise_when: bool | None = None
    invert_match: bool | None = None
    headers: Annotated[dict[str, str] | None, Field(description="Which are set; their values are not shown.")] = None
    bearer_token: Annotated[str | None, Field(description="Whether one is set; it is not shown.")] = None
    signing_secrets: Annotated[list[str] | None, Field(description="The start of a hash of each.")] = None
    revision: Annotated[int, Field(description="The number of the current revision.")]
    revision_id: str
    created_at: str
    updated_at: str


class EvaluatorList(Answer):
    """All evaluators of the project, newest first."""

    evaluators: list[EvaluatorAnswer]


class RevisionAnswer(Answer):
    """One version of an evaluator's code and settings."""

    id: str
    revision: int
    name: str
    kind: EvaluatorKind
    language: Language | None = None
    interface: Interface | None = None
    script: str | None = None
    alert_below: float | None = None
    threshold: float | None = None
    correct_answer_key: str | None = None
    wall_seconds: float | None = None
    cpu_seconds: float | None = None
    memory_mb: int | None = None
    url: str | None = None
    raise_when: bool | None = None
    invert_match: bool | None = None
    created_at: str


class RevisionList(Answer):
    """All revisions of an evaluator, newest first."""

    revisions: list[RevisionAnswer]


def evaluator_answer(evaluator: Evaluator) -> EvaluatorAnswer:
    """Return an evaluator as the API shows it."""
    revision = evaluator.revision
    return EvaluatorAnswer(
        id=evaluator.id,
        also_id=evaluator.id,
        name=evaluator.name,
        kind=revision.kind,
        enabled=evaluator.enabled,
        severity=evaluator.severity,
        severity_bands=band_answers(evaluator.severity_bands),
        raise_after=raise_after_answer(evaluator.raise_after),
        sample_rate=evaluator.sample_rate,
        scope_mode=evaluator.scope_mode,
        agent_ids=list(evaluator.agent_ids),
        **_content(revision),
        **credentials_shown(evaluator.credentials),
        revision=revision.number,
        revision_id=revision.id,
        created_at=iso(evaluator.created_at_ns),
        updated_at=iso(evaluator.updated_at_ns),
    )


def revision_answer(revision: Revision) -> RevisionAnswer:
    """Return a revision as the API shows it."""
    return RevisionAnswer(
        id=revision.id,
        revision=revision.number,
        name=revision.evaluator_name,
        kind=revision.kind,
        **_content(revision),
        created_at=iso(revision.created_at_ns),
    )


def _content(revision: Revision) -> dict[str, Any]:
    """Return what a revision does, with the fields of the other kind left out."""
    is_code = revision.kind == "code"
    return {
        "language": revision.language,
        "interface": revision.interface,
        "script": revision.source,
        "alert_below": revision.threshold if is_code else None,
        "threshold": revision.threshold if is_code else None,
        "correct_answer_key": revision.correct_answer_key if is_code else None,
        "wall_seconds": revision.wall_s,
        "cpu_seconds": revision.cpu_s,
        "memory_mb": None if revision.memory_bytes is None else revision.memory_bytes // MEBIBYTE,
        "url": None if revision.url is None else masked(revision.url),
        "raise_when": None if is_code else revision.raise_when,
        "invert_match": None if is_code else not revision.raise_when,
    }

"""What a request makes of an evaluator: its fields laid over what is stored, and a new revision where it needs one."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from assay.api.schemas.evaluators import EvaluatorFields
from assay.api.schemas.fields import LONGEST_NAME, shown
from assay.api.urls import demand_url
from assay.domain.budgets import LEAST_MEMORY_BYTES, LEAST_S, MEBIBYTE
from assay.domain.evaluator import Evaluator, EvaluatorKind, Interface, Revision
from assay.domain.failure_window import RaiseAfter
from assay.domain.identity import new_id
from assay.domain.outcome import Limits
from assay.domain.severity import SeverityBand
from assay.domain.url import masked
from assay.engine import Engine
from assay.errors import InvalidInputError

SETTINGS = ("name", "enabled", "severity", "sample_rate", "scope_mode", "agent_ids")
BUDGETS = ("wall_seconds", "cpu_seconds", "memory_mb")
OF_CODE = ("language", "interface", "script", "alert_below", "threshold", "correct_answer_key", *BUDGETS)
OF_EXTERNAL = ("url", "raise_when", "invert_match", "headers", "bearer_token", "signing_secrets")
COPY = " (copy)"
NULL_IS_LEFT_OUT = ("language", "interface", "script", "url")
SPELLINGS = {
    "alert_below": "alertBelow",
    "correct_answer_key": "correctAnswerKey",
    "wall_seconds": "wallSeconds",
    "cpu_seconds": "cpuSeconds",
    "memory_mb": "memoryMb",
    "raise_when": "raiseWhen",
    "invert_match": "invertMatch",
    "bearer_token": "bearerToken",
    "signing_secrets": "signingSecrets",
}


def new_evaluator(project_id: str, fields: EvaluatorFields, now_ns: int, *, name: str) -> Evaluator:
    """Return a new evaluator of these fields; raise InvalidInputError where they make no sense together."""
    given = fields.model_dump(exclude_unset=True)
    if given.get("alert_below", fields.threshold) != given.get("threshold", fields.alert_below):
        raise _contradiction("alertBelow", "threshold")
    if given.get("raise_when", not fields.invert_match) == given.get("invert_match", not fields.raise_when):
        raise _contradiction("raiseWhen", "invertMatch")
    return laid_over(_blank(project_id, fields.kind, now_ns, name), fields)


def _blank(project_id: str, kind: EvaluatorKind, now_ns: int, name: str) -> Evaluator:
    evaluator_id = new_id("evl", now_ns)
    revision = Revision(
        id=new_id("rev", now_ns),
        evaluator_id=evaluator_id,
        project_id=project_id,
        number=1,
        created_at_ns=now_ns,
        evaluator_name=name,
        kind=kind,
    )
    return Evaluator(
        id=evaluator_id,
        project_id=project_id,
        name=name,
        created_at_ns=now_ns,
        updated_at_ns=now_ns,
        revision=revision,
    )


def laid_over(evaluator: Evaluator, fields: EvaluatorFields) -> Evaluator:
    """Return the evaluator with the fields that were given; raise InvalidInputError where they make no sense together.

    Its revision keeps its id and number, whatever changed in it.
    """
    given: dict[str, Any] = fields.model_dump(exclude_unset=True)
    for name in NULL_IS_LEFT_OUT:
        if given.get(name, "") is None:
            del given[name]
    kind = evaluator.revision.kind
    if given.get("kind", kind) != kind:
        raise InvalidInputError(
            f"This evaluator is of the kind {kind}, which cannot change; make a new one.", field="kind"
        )
    _demand_same_interface(evaluator.revision.interface, given)
    foreign, other = (OF_EXTERNAL, "external") if kind == "code" else (OF_CODE, "code")
    for name in foreign:
        if name in given and not (name in BUDGETS and given[name] is None):
            spelling = SPELLINGS.get(name, name)
            raise InvalidInputError(
                f"{spelling} belongs to evaluators of the kind {other}, and this is of the kind {kind}; leave it out, "
                f'or give "kind": "{other}" when making one.',
                field=spelling,
            )
    settings = {name: given[name] for name in SETTINGS if name in given}
    if "severity_bands" in given:
        settings["severity_bands"] = tuple(SeverityBand(**band) for band in given["severity_bands"])
    if "raise_after" in given:
        settings["raise_after"] = RaiseAfter(**given["raise_after"])
    if "agent_ids" in given:
        settings["agent_ids"] = tuple(dict.fromkeys(given["agent_ids"]))
        if given["agent_ids"] and "scope_mode" not in given:
            settings["scope_mode"] = "selected"
    merged = replace(evaluator, **settings)
    if merged.scope_mode == "selected" and not merged.agent_ids:
        raise InvalidInputError(
            "The scopeMode is selected, but agentIds names no agent, so nothing would ever be checked.",
            field="agentIds",
        )
    return replace(merged, revision=_revision(merged, given))


def duplicated(evaluator: Evaluator, interface: Interface | None, name: str | None, now_ns: int) -> Evaluator:
    """Return a new evaluator like this one, disabled, at its first revision; None keeps the interface.

    Disabled, because both would check the same traces and raise their signals twice.
    """
    source = evaluator.revision
    if interface is not None and source.kind == "external":
        raise InvalidInputError(
            "interface belongs to evaluators of the kind code, and this is of the kind external; leave it out.",
            field="interface",
        )
    called = name or f"{evaluator.name[: LONGEST_NAME - len(COPY)]}{COPY}"
    made = _blank(evaluator.project_id, source.kind, now_ns, called)
    revision = replace(
        source,
        id=made.revision.id,
        evaluator_id=made.id,
        number=made.revision.number,
        created_at_ns=now_ns,
        evaluator_name=called,
        interface=interface or source.interface,
    )
    return replace(
        evaluator,
        id=made.id,
        name=called,
        enabled=False,
        created_at_ns=now_ns,
        updated_at_ns=now_ns,
        revision=revision,
    )


def _demand_same_interface(stored: Interface | None, given: Mapping[str, Any]) -> None:
    if stored is not None and given.get("interface", stored) != stored:
        raise InvalidInputError(
            f"The interface of this evaluator is {stored}, and is kept for all its revisions; found "
            f"{given['interface']}. POST to its /duplicate with this interface makes a new evaluator that has it.",
            field="interface",
        )


def content(revision: Revision) -> tuple[object, ...]:
    """Return all that makes one revision differ from another."""
    judging = (revision.threshold, revision.correct_answer_key, revision.url, revision.raise_when)
    return (*code(revision), *judging, *_budgets(revision))


def code(revision: Revision) -> tuple[object, ...]:
    """Return what has to be looked at again before it is saved."""
    return (revision.language, revision.interface, revision.source)


def numbered(merged: Evaluator, stored: Evaluator, now_ns: int) -> Evaluator:
    """Return the evaluator as it is to be written over the stored one: with a revision of its own where it differs."""
    changed = content(merged.revision) != content(stored.revision)
    revision = stored.revision
    if changed:
        revision = replace(
            merged.revision,
            id=new_id("rev", now_ns),
            number=stored.revision.number + 1,
            created_at_ns=now_ns,
            evaluator_name=merged.name,
        )
    return replace(merged, revision=revision, updated_at_ns=now_ns)


def demand_affordable(revision: Revision, stored: Revision | None, limits: Limits) -> None:
    """Raise InvalidInputError for a budget that is too small, or above the operator's ceiling in `limits`.

    One that only repeats what is stored passes, since a ceiling may have been lowered after it was saved.
    """
    wall_s, cpu_s, memory_mb = (None, None, None) if stored is None else _budgets(stored)
    asked_wall_s, asked_cpu_s, asked_memory_mb = _budgets(revision)
    if asked_wall_s != wall_s:
        _demand_between("wallSeconds", asked_wall_s, LEAST_S, limits.wall_s, "s")
    if asked_cpu_s != cpu_s:
        _demand_between("cpuSeconds", asked_cpu_s, LEAST_S, limits.cpu_s, "s")
    if asked_memory_mb != memory_mb:
        least, most = LEAST_MEMORY_BYTES // MEBIBYTE, limits.memory_bytes // MEBIBYTE
        _demand_between("memoryMb", asked_memory_mb, least, most, "MiB")


def _budgets(revision: Revision) -> tuple[float | None, float | None, int | None]:
    memory_bytes = revision.memory_bytes
    return revision.wall_s, revision.cpu_s, None if memory_bytes is None else memory_bytes // MEBIBYTE


def _demand_between(field: str, asked: float | None, least: float, most: float, unit: str) -> None:
    least = min(least, most)
    if asked is not None and not least <= asked <= most:
        raise InvalidInputError(
            f"{field} is {shown(asked)}; allowed are {least:g} to {most:g} {unit}, or null for the most this server "
            "gives.",
            field=field,
        )


async def vetted(engine: Engine, revision: Revision) -> Revision:
    """Return a revision that can be saved, with its interface; raise InvalidInputError for one that cannot."""
    if revision.kind == "external":
        if not revision.url:
            raise InvalidInputError(
                'An external evaluator needs a url to post to; for code, give "kind": "code", language and script.',
                field="url",
            )
        return revision
    if revision.language is None:
        raise InvalidInputError("Code needs its language: python, javascript or typescript.", field="language")
    if not (revision.source or "").strip():
        raise InvalidInputError("Code needs a script, which defines evaluate or handler.", field="script")
    source = revision.source or ""
    interface = await engine.vet(revision.language, source, revision.interface, revision.project_id)
    return replace(revision, interface=interface)


def _revision(merged: Evaluator, given: Mapping[str, Any]) -> Revision:
    stored = merged.revision
    changes: dict[str, Any] = {
        name: given[name] for name in ("language", "interface", "correct_answer_key") if name in given
    }
    if "script" in given:
        changes["source"] = given["script"]
    if "wall_seconds" in given:
        changes["wall_s"] = given["wall_seconds"]
    if "cpu_seconds" in given:
        changes["cpu_s"] = given["cpu_seconds"]
    if "memory_mb" in given:
        changes["memory_bytes"] = None if given["memory_mb"] is None else given["memory_mb"] * MEBIBYTE
    if "url" in given and (stored.url is None or given["url"] != masked(stored.url)):
        changes["url"] = demand_url(given["url"])
    if "invert_match" in given:
        given = {**given, "invert_match": not given["invert_match"]}
    changes["threshold"] = _spoken_once(given, "alert_below", "threshold", stored.threshold)
    changes["raise_when"] = _spoken_once(given, "raise_when", "invert_match", stored.raise_when)
    return replace(stored, evaluator_name=merged.name, **changes)


def _spoken_once(given: Mapping[str, Any], word: str, synonym: str, stored: object) -> object:
    """Return a value that two fields can give.

    Where they differ, the one that only repeats what is stored says nothing: somebody changed the other in what we
    had answered.
    """
    values = list(dict.fromkeys(given[name] for name in (word, synonym) if name in given))
    if len(values) > 1:
        values = [value for value in values if value != stored]
    if len(values) > 1:
        first, second = (SPELLINGS.get(name, name) for name in (word, synonym))
        raise _contradiction(first, second)
    return values[0] if values else stored


def _contradiction(first: str, second: str) -> InvalidInputError:
    return InvalidInputError(f"{first} and {second} contradict each other; give one of them.", field=first)

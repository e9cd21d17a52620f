"""Which interface a revision speaks: its arguments from a subject, and its reading of an outcome."""

from typing import assert_never

from assay.domain.check import CheckError, Reading
from assay.domain.evaluator import Revision
from assay.domain.json_value import JsonValue
from assay.domain.outcome import Budget, Exceeded, Raised, Returned, is_crash
from assay.domain.subject import Subject
from assay.domain.trace import Trace
from assay.interfaces import evaluate, handler, legacy, trace_view, webhook

BREACHES: dict[Budget, str] = {
    "wall": "timeout",
    "cpu": "cpu-exceeded",
    "memory": "memory-exceeded",
    "result": "result-too-large",
    "payload": "payload-too-large",
}
LOGS_CUT = "\n[logs cut: "
SHOWN_OF_LINE = 200
THEIR_EXCEPTIONS = ("script-raised", "script-exited", "syntax-error")


def arguments(revision: Revision, subject: Subject) -> tuple[JsonValue, ...] | CheckError:
    """Return what the revision is called with, in the order of its interface; for an endpoint, the one payload.

    A subject that lacks what the interface needs (a ground-truth column) gives the error of kind missing-input.
    """
    if revision.kind == "external":
        return (webhook.payload(revision, subject),)
    match revision.interface:
        case "evaluate" | "evaluate-float":
            return evaluate.arguments(subject)
        case "evaluate-app-params":
            return legacy.app_params_arguments(revision, subject)
        case "handler":
            return handler.arguments(subject)
        case None:
            return _no_interface(revision)
        case _:
            assert_never(revision.interface)


def least_bytes(revision: Revision, trace: Trace, enough: int) -> int:
    """Return how many bytes of JSON the arguments have at least, counting no further than `enough`."""
    if revision.kind != "external" and revision.interface in ("evaluate", "evaluate-float"):
        return trace_view.least_bytes(trace, enough)
    return 0


def read(revision: Revision, outcome: Returned | Raised | Exceeded) -> Reading:
    """Return what an outcome says about its subject; the author's failures are errored readings."""
    match outcome:
        case Returned():
            return _read_value(revision, outcome.value)
        case Raised():
            return Reading(status="errored", error=_raised(outcome))
        case Exceeded():
            message = _with_last_words(outcome)
            return Reading(status="errored", error=CheckError(kind=BREACHES[outcome.budget], message=message))
        case _:
            assert_never(outcome)


def _read_value(revision: Revision, value: JsonValue) -> Reading:
    if revision.kind == "external":
        return webhook.read(revision, value)
    match revision.interface:
        case "evaluate":
            return evaluate.read(revision, value)
        case "evaluate-float" | "evaluate-app-params":
            return legacy.read(revision, value)
        case "handler":
            return handler.read(revision, value)
        case None:
            return Reading(status="errored", error=_no_interface(revision))
        case _:
            assert_never(revision.interface)


def _raised(outcome: Raised) -> CheckError:
    """Show an exception of theirs with its type, as their own console would; our own findings speak for themselves."""
    message = _with_last_words(outcome)
    if outcome.kind in THEIR_EXCEPTIONS and outcome.type:
        message = f"{outcome.type}: {message}" if message else outcome.type
    return CheckError(kind=outcome.kind, message=message, line=outcome.line, traceback=outcome.traceback)


def _with_last_words(outcome: Raised | Exceeded) -> str:
    """Return the message; of code that was cut off, with the last line it printed: how far it had come."""
    if not is_crash(outcome):
        return outcome.message
    printed, mark, _ = outcome.logs.rpartition(LOGS_CUT)
    lines = (printed if mark else outcome.logs).rstrip().splitlines()
    if not lines:
        return f"{outcome.message}; it had printed nothing"
    line = lines[-1].strip()
    shown = line if len(line) <= SHOWN_OF_LINE else f"…{line[-SHOWN_OF_LINE:]}"
    which = "the last line kept of what it printed" if mark else "the last line it printed"
    return f"{outcome.message}; {which}: {shown}"


def _no_interface(revision: Revision) -> CheckError:
    return CheckError(
        kind="entry-point-missing",
        message=f'Revision {revision.number} of "{revision.evaluator_name}" names no interface; save the code again.',
    )

"""Outcomes read into checks' readings, whichever interface."""

from dataclasses import replace
from typing import get_args

import pytest

from assay.domain.check import CheckError
from assay.domain.outcome import Budget, Exceeded, Raised, Returned
from assay.interfaces.reading import BREACHES, arguments, read
from assay.testing import a_revision, a_trace


def test_every_budget_has_a_name_for_its_breach() -> None:
    assert set(BREACHES) == set(get_args(Budget))
    reading = read(a_revision(), Exceeded(budget="payload", message="over 6 MiB"))
    assert reading.error == CheckError(kind="payload-too-large", message="over 6 MiB")


@pytest.mark.parametrize(
    ("logs", "told"),
    [
        ("", "; it had printed nothing"),
        (" \n", "; it had printed nothing"),
        ("one\ntwo\n\n", "; the last line it printed: two"),
        ("x" * 300 + "end", "; the last line it printed: …" + "x" * 197 + "end"),
        ("one\ntw\n[logs cut: 99 bytes were printed, 6 are kept]", "; the last line kept of what it printed: tw"),
    ],
)
def test_code_that_was_cut_off_is_told_how_far_it_had_come(logs: str, told: str) -> None:
    for outcome in (
        Exceeded(budget="wall", message="too long", logs=logs),
        Raised(kind="script-crashed", type="ProcessEnded", message="too long", logs=logs),
    ):
        error = read(a_revision(), outcome).error
        assert error is not None
        assert error.message == f"too long{told}"
    raised = read(a_revision(), Raised(kind="script-raised", type="E", message="no", logs=logs)).error
    assert raised is not None
    assert raised.message == "E: no"


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        (Raised(kind="script-raised", type="KeyError", message="'k'", line=2), "KeyError: 'k'"),
        (Raised(kind="script-raised", type="KeyError", message="", line=2), "KeyError"),
        (Raised(kind="non-finite", type="UnfitValue", message="the number is nan"), "the number is nan"),
    ],
)
def test_an_exception_of_theirs_shows_its_type_and_our_findings_do_not(raised: Raised, message: str) -> None:
    reading = read(a_revision(), raised)
    assert reading.error is not None
    assert (reading.status, reading.error.message, reading.error.line) == ("errored", message, raised.line)


def test_each_interface_is_read_in_its_own_way() -> None:
    value = Returned(value=True)
    assert read(a_revision(interface="evaluate"), value).metrics == {"success": True}
    assert read(a_revision(interface="evaluate-float"), value).metrics == {"score": 1.0, "success": True}
    assert read(a_revision(interface="handler"), value).status == "errored"
    external = replace(a_revision(), kind="external", interface=None)
    assert read(external, Returned(value={"matches": True})).metrics == {"matches": True}


def test_each_interface_is_called_in_its_own_way() -> None:
    lengths = {}
    for interface in ("evaluate", "evaluate-float", "handler"):
        called = arguments(a_revision(interface=interface), a_trace())
        assert isinstance(called, tuple)
        lengths[interface] = len(called)
    assert lengths == {"evaluate": 3, "evaluate-float": 3, "handler": 5}
    called = arguments(replace(a_revision(), kind="external", interface=None), a_trace())
    assert isinstance(called, tuple)
    assert len(called) == 1


def test_a_code_revision_without_an_interface_is_errored() -> None:
    nameless = replace(a_revision(), interface=None)
    assert isinstance(arguments(nameless, a_trace()), CheckError)
    assert read(nameless, Returned(value=1)).status == "errored"

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
    reading = read(a_revision(), Exceeded(budget="memory", message="over 256 MiB"))
    assert reading.error == CheckError(kind="memory-exceeded", message="over 256 MiB")


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

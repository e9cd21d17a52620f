"""When several of the last checks have to fail, held against a model that counts again each time."""

from dataclasses import dataclass, field, replace
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.domain.check import Check, Metrics, Reading, Verdict
from assay.domain.failure_window import EVERY_FAILURE, FailureWindow, RaiseAfter
from assay.domain.severity import SeverityBand
from assay.domain.signal import Decision, Fold, Nothing, Raise, Reopen, Signal, fold
from assay.domain.signal_steps import acknowledge, archive, resolve
from support.records import a_check, an_error, an_evaluator

Event = Literal["failed", "passed", "skipped", "errored", "acknowledged", "resolved", "archived"]
CHECKS = ("failed", "passed", "skipped", "errored")
BANDS = (SeverityBand(below=0.2, severity="critical"), SeverityBand(below=0.4, severity="high"))


def check_of(event: Event, number: int) -> Check:
    check = a_check(f"t{number}", failed=event == "failed", recorded_at_ns=number)
    match event:
        case "skipped":
            return replace(check, reading=Reading(status="skipped"))
        case "errored":
            return replace(check, reading=an_error("script-raised"))
        case _:
            return check


def scored(score: float | None, number: int) -> Check:
    metrics: Metrics = {} if score is None else {"score": score}
    reading = Reading(status="scored", metrics=metrics, verdict=Verdict(failed=True))
    return a_check(f"t{number}", reading=reading, recorded_at_ns=number)


@dataclass
class Folder:
    """Folds one check after the other."""

    after: RaiseAfter = EVERY_FAILURE
    bands: tuple[SeverityBand, ...] = ()
    signal: Signal | None = None
    window: FailureWindow = field(default_factory=FailureWindow)

    def fold(self, check: Check) -> Decision:
        evaluator = an_evaluator(severity="medium", raise_after=self.after, severity_bands=self.bands)
        decision, self.window = fold(self.signal, self.window, check, evaluator=evaluator, now_ns=1)
        self.signal = decision.signal
        return decision

    def step(self, event: Event) -> None:
        if self.signal is None:
            return
        match event:
            case "resolved":
                changed = resolve(self.signal, reason="done", now_ns=1)
            case "archived":
                changed = archive(self.signal, now_ns=1)
            case _:
                changed = acknowledge(self.signal, now_ns=1)
        self.signal = changed if isinstance(changed, Signal) else self.signal


@given(
    events=st.lists(st.sampled_from(Event.__args__), max_size=60),
    rate=st.tuples(st.integers(1, 6), st.integers(1, 8)).filter(lambda rate: rate[0] <= rate[1]),
)
def test_a_signal_is_raised_exactly_when_so_many_of_the_last_checks_failed(
    events: list[Event], rate: tuple[int, int]
) -> None:
    failures, of = rate
    folder = Folder(after=RaiseAfter(failures=failures, of=of))
    since_closed: list[tuple[bool, int]] = []
    folded: set[int] = set()
    is_open = exists = False
    for number, event in enumerate(events):
        if event not in CHECKS:
            if exists and event in ("resolved", "archived") and is_open:
                since_closed, is_open = [], False
            folder.step(event)
            continue
        decision = folder.fold(check_of(event, number))
        if event in ("failed", "passed"):
            since_closed.append((event == "failed", number))
        last = since_closed[-of:]
        tells = event == "failed" and (is_open or sum(failed for failed, _ in last) >= failures)
        if not tells:
            assert isinstance(decision, Nothing)
            continue
        folded |= {seen for failed, seen in last if failed}
        assert isinstance(decision, Fold if is_open else Reopen if exists else Raise)
        is_open = exists = True
        assert decision.signal.count == len(folded)
        assert [seen.trace_id for seen in decision.signal.evidence] == [f"t{n}" for n in sorted(folded)[::-1][:10]]


def test_a_failure_that_errored_is_told_at_once_whatever_rate_is_wanted() -> None:
    folder = Folder(after=RaiseAfter(failures=3, of=5))
    paused = replace(an_error("paused"), verdict=Verdict(failed=True, reason="paused after five crashes"))
    assert isinstance(folder.fold(a_check("t1", reading=paused)), Raise)


@pytest.mark.parametrize(
    ("score", "severity"),
    [
        (0, "critical"),
        (0.19, "critical"),
        (0.2, "high"),
        (0.39, "high"),
        (0.4, "medium"),
        (1, "medium"),
        (None, "medium"),
    ],
)
def test_the_lowest_band_a_score_is_below_decides_and_without_one_the_evaluator(
    score: float | None, severity: str
) -> None:
    decision = Folder(bands=BANDS).fold(scored(score, 1))
    assert isinstance(decision, Raise)
    assert decision.signal.severity == severity


def test_what_is_no_number_has_no_band() -> None:
    check = a_check("t1", reading=Reading(status="scored", metrics={"score": True}, verdict=Verdict(failed=True)))
    decision = Folder(bands=BANDS).fold(check)
    assert decision.signal is not None
    assert decision.signal.severity == "medium"


@given(scores=st.lists(st.sampled_from([0.1, 0.3, 0.5]), min_size=1, max_size=12), order=st.randoms())
def test_failures_make_the_same_signal_in_whatever_order_they_are_folded(scores: list[float], order: object) -> None:
    checks = [scored(score, number) for number, score in enumerate(scores)]
    straight, shuffled = Folder(bands=BANDS), Folder(bands=BANDS)
    for check in checks:
        straight.fold(check)
    order.shuffle(checks)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    for check in checks:
        shuffled.fold(check)
    assert shuffled.signal == straight.signal
    assert straight.signal is not None
    worst = "critical" if 0.1 in scores else "high" if 0.3 in scores else "medium"
    assert (straight.signal.count, straight.signal.severity) == (len(scores), worst)


def test_only_what_is_worse_escalates_and_reopening_begins_anew() -> None:
    folder = Folder(bands=BANDS)
    kinds = [folder.fold(scored(score, number)).kind for number, score in enumerate((0.5, 0.3, 0.5, 0.1, 0.1, 0.3))]
    assert kinds == ["raised", "escalated", None, "escalated", None, None]
    folder.step("resolved")
    decision = folder.fold(scored(0.3, 9))
    assert (decision.kind, decision.signal and decision.signal.severity) == ("reopened", "high")


def test_the_worst_of_the_failures_that_raise_it_together_is_its_severity() -> None:
    folder = Folder(after=RaiseAfter(failures=3, of=3), bands=BANDS)
    for number, score in enumerate((0.1, 0.5)):
        assert isinstance(folder.fold(scored(score, number)), Nothing)
    decision = folder.fold(scored(0.3, 3))
    assert isinstance(decision, Raise)
    assert (decision.signal.severity, decision.signal.count, decision.signal.first_seen_ns) == ("critical", 3, 0)

"""When an evaluation has used up its time: simulated machines, looked at as the pool looks at real ones."""

import math
from dataclasses import dataclass

import pytest

from assay.domain.outcome import Limits
from assay.runners.children.deadline import Deadline

BEGAN = 100.0


@dataclass
class Machine:
    """A child that has `share` of the CPU; `claimed` is when it says its evaluation began."""

    limits: Limits
    share: float
    claimed: float = BEGAN
    used_before_s: float = 0.0

    def watched(self) -> tuple[float, str]:
        """Return how long the evaluation ran until its time was used up, and which budget that was."""
        deadline = Deadline(self.limits, begun=0, told=(BEGAN, self.used_before_s), now=BEGAN)
        now, told = BEGAN, None
        while True:
            left_s = deadline.left_s(now, progress=(1, self.claimed), answers=0, told=told, is_running=True)
            if left_s <= 0:
                return now - deadline.since, "cpu" if deadline.is_over_cpu else "wall"
            told = (now, self.used_before_s + (now - BEGAN) * self.share)
            now += left_s


@pytest.mark.parametrize(
    ("wall_s", "cpu_s", "share", "named", "least_s", "most_s"),
    [
        (8, 8, 1.0, "cpu", 8, 8.1),
        (8, 8, 0.95, "cpu", 8.4, 8.6),
        (8, 8, 0.8, "wall", 8, 8.1),
        (8, 8, 0.3, "wall", 16, 16.1),
        (8, 8, 0.0, "wall", 8, 8.1),
        (8, 2, 1.0, "cpu", 2, 2.6),
        (600, 2, 1.0, "cpu", 2, 3),
        (8, 2, 0.5, "cpu", 4, 5.1),
        (2, 8, 1.0, "wall", 2, 2.1),
        (8, 8, 2.0, "cpu", 4, 4.6),
        (0.1, 0.1, 1.0, "cpu", 0.1, 0.15),
    ],
)
def test_the_budget_that_was_used_up_is_named_when_it_was(
    wall_s: float, cpu_s: float, share: float, named: str, least_s: float, most_s: float
) -> None:
    ran_s, budget = Machine(Limits(wall_s=wall_s, cpu_s=cpu_s), share).watched()
    assert budget == named
    assert least_s <= round(ran_s, 6) <= most_s


def test_what_the_child_used_before_is_not_counted() -> None:
    ran_s, budget = Machine(Limits(wall_s=8, cpu_s=2), 0.0, used_before_s=50).watched()
    assert (budget, round(ran_s, 1)) == ("wall", 8.0)


@pytest.mark.parametrize("claimed", [math.nan, math.inf, -1.0, 0.0, BEGAN + 1e9])
def test_a_lie_about_the_beginning_gains_nothing(claimed: float) -> None:
    ran_s, _ = Machine(Limits(wall_s=8, cpu_s=60), 0.0, claimed=claimed).watched()
    assert round(ran_s, 1) == 8.0


def test_a_child_that_only_claims_to_make_progress_has_one_more_deadline() -> None:
    deadline, now = Deadline(Limits(wall_s=8, cpu_s=60), begun=0, told=(BEGAN, 0.0), now=BEGAN), BEGAN
    for begun in range(10_000):
        left_s = deadline.left_s(now, progress=(begun, now), answers=0, told=None, is_running=True)
        if left_s <= 0:
            break
        now += left_s
    assert now - BEGAN == pytest.approx(16, abs=0.3)


def test_each_evaluation_has_the_whole_of_its_time_and_answers_move_the_deadline() -> None:
    deadline, now = Deadline(Limits(wall_s=8, cpu_s=8), begun=0, told=(BEGAN, 0.0), now=BEGAN), BEGAN
    used_s, told, begun_at = 0.0, (BEGAN, 0.0), BEGAN
    for number in range(20):
        begun_at = now
        while now < begun_at + 6:
            left_s = deadline.left_s(now, progress=(number + 1, begun_at), answers=number, told=told, is_running=True)
            assert left_s > 0
            told = (now, used_s)
            now, used_s = now + left_s, used_s + left_s
    assert deadline.since == pytest.approx(begun_at)
    assert deadline.before[0] <= deadline.since < deadline.before[0] + 0.6


def test_a_child_that_has_not_begun_to_run_code_is_waited_for_longer() -> None:
    deadline = Deadline(Limits(wall_s=1), begun=0, told=(BEGAN, 0.0), now=BEGAN)
    assert deadline.left_s(BEGAN + 15, progress=(0, 0.0), answers=0, told=None, is_running=False) > 0
    assert deadline.left_s(BEGAN + 20, progress=(0, 0.0), answers=0, told=None, is_running=False) <= 0

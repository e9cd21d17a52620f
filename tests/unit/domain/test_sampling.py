"""Whether an evaluator runs on a trace."""

from dataclasses import replace

import pytest

from assay.domain.evaluator import Evaluator
from assay.domain.sampling import Run, Skip, decide
from assay.testing import a_revision

EVALUATOR = Evaluator(
    id="evl_1",
    project_id="default",
    name="check",
    sample_rate=1,
    created_at_ns=0,
    updated_at_ns=0,
    revision=a_revision(),
)
TRACES = [f"{number:032x}" for number in range(4000)]
PINNED = [298, 432, 483, 1126, 1619, 1715, 2254, 2692, 2805, 3163, 3855]


def picked(evaluator: Evaluator) -> set[str]:
    return {trace_id for trace_id in TRACES if decide(evaluator, None, trace_id) == Run()}


@pytest.mark.parametrize(("rate", "fewest", "most"), [(0, 0, 0), (0.1, 300, 500), (0.5, 1840, 2160), (1, 4000, 4000)])
def test_the_share_of_traces_is_the_rate(rate: float, fewest: int, most: int) -> None:
    assert fewest <= len(picked(replace(EVALUATOR, sample_rate=rate))) <= most


def test_a_higher_rate_keeps_what_a_lower_one_picked() -> None:
    assert picked(replace(EVALUATOR, sample_rate=0.1)) < picked(replace(EVALUATOR, sample_rate=0.3))


def test_evaluators_draw_independently() -> None:
    first = picked(replace(EVALUATOR, sample_rate=0.5))
    second = picked(replace(EVALUATOR, id="evl_2", sample_rate=0.5))
    assert 840 <= len(first & second) <= 1160


def test_the_draw_is_the_same_everywhere_and_for_ever() -> None:
    few = replace(EVALUATOR, sample_rate=0.002)
    assert [TRACES.index(trace_id) for trace_id in sorted(picked(few))] == PINNED


def test_a_switched_off_evaluator_never_runs() -> None:
    assert decide(replace(EVALUATOR, enabled=False), "agt_1", TRACES[0]) == Skip(why="disabled")


def test_an_evaluator_of_selected_agents_runs_on_those_alone() -> None:
    selective = replace(EVALUATOR, scope_mode="selected", agent_ids=("agt_1",))
    assert decide(selective, "agt_1", TRACES[0]) == Run()
    assert decide(selective, "agt_2", TRACES[0]) == Skip(why="agent-not-selected")
    assert decide(selective, None, TRACES[0]) == Skip(why="agent-not-selected")


def test_a_trace_not_drawn_says_so() -> None:
    assert decide(replace(EVALUATOR, sample_rate=0), None, TRACES[0]) == Skip(why="not-sampled")


def test_a_trace_id_of_any_text_can_be_drawn() -> None:
    assert decide(EVALUATOR, None, "cut \ud83d") == Run()

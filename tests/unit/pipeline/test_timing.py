"""Of the time of a step, each view is charged with all but what only others need."""

import pytest

from tidemill.pipeline.plan.circuit import Circuit
from tidemill.pipeline.plan.node import Negate, Source, View
from tidemill.pipeline.task import Report
from tidemill.pipeline.timing import StepTiming

SCHEMA = {"type": "struct", "fields": [{"name": "k", "type": "long", "nullable": True, "metadata": {}}]}
CIRCUIT = Circuit(
    (
        Source((), SCHEMA, "t", (), (0,)),
        View((0,), SCHEMA, "whole"),
        Negate((0,), SCHEMA),
        View((2,), SCHEMA, "less"),
        Negate((3,), SCHEMA),
        View((4,), SCHEMA, "on_less"),
    )
)


def test_what_is_shared_counts_for_each_view_and_what_is_not_for_its_own() -> None:
    report = Report(0, 0, seconds={0: 1.0, 1: 0.5, 2: 0.25, 3: 0.125, 4: 0.0, 5: 2.0})
    found = StepTiming(CIRCUIT, 10.0, (report,)).by_view()

    assert found == {"whole": 10 - 2.375, "less": 10 - 2.5, "on_less": 10 - 0.5}


def test_of_pipeline_workers_that_run_side_by_side_the_mean_counts() -> None:
    reports = [Report(worker, stage, seconds={1 + stage: 1.0}) for worker in range(2) for stage in range(3)]
    found = StepTiming(CIRCUIT, 10.0, tuple(reports)).by_view()

    assert found == {"whole": 8.0, "less": 9.0, "on_less": 9.0}


@pytest.mark.parametrize(("position", "below"), [(0, {0}), (1, {0, 1}), (3, {0, 2, 3}), (5, {0, 2, 3, 4, 5})])
def test_a_node_is_computed_from_all_below_it(position: int, below: set[int]) -> None:
    assert CIRCUIT.below([position]) == below
    assert CIRCUIT.below([]) == set()


def test_without_a_step_there_is_nothing_to_tell() -> None:
    assert StepTiming().by_view() == {}

"""A pipeline whose merges run beside its steps, killed or stalled in such a merge, ends as one left in peace.

Other than in `test_pipeline` a merge is under way here while steps, commits, sweeps and changes of the plan
come and go: one unit of it runs at the same time as each step, and its result is adopted between two.
"""

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from crash.pipeline_child import MERGING, OUSTED
from crash.pipeline_process import Children, Folder

pytestmark = [pytest.mark.crash, pytest.mark.timeout(300)]

MERGE_POINTS = ("state.merge.before_write", "state.merge.after_write")
OTHER_POINTS = (
    "state.seal.after_write",
    "engine.step.after_run",
    "engine.step.after_output",
    "engine.commit.after_root",
    "engine.plan.after_root",
    "state.sweep.after_delete",
)
"""Where a merge may be under way, though it is somebody else who is caught there."""

BESIDE = {"merging": True, "beside": True}
Report = dict[str, Any]


@pytest.fixture(scope="module")
def children() -> Iterator[Children]:
    with Children() as found:
        yield found


@pytest.fixture(scope="module")
def in_peace(children: Children) -> Report:
    """With merges done at once, between the steps."""
    with Folder() as folder:
        assert children.run(folder.job(merging=True)) == 0
        return folder.report


@pytest.fixture(scope="module")
def beside(children: Children) -> Report:
    with Folder() as folder:
        assert children.run(folder.job(**BESIDE, count=True)) == 0
        return folder.report


def seen(report: Report) -> Report:
    return {name: value for name, value in report.items() if name != "passings"}


def test_merges_beside_the_steps_change_nothing(in_peace: Report, beside: Report) -> None:
    assert seen(beside) == seen(in_peace)
    assert not beside["missing"]
    assert not beside["orphans"]
    assert beside["passings"][MERGE_POINTS[0]] == beside["passings"][MERGE_POINTS[1]] >= 4


@pytest.mark.parametrize("passing", range(1, 5))
@pytest.mark.parametrize("point", MERGE_POINTS)
def test_a_kill_in_a_merge_beside_a_step_changes_nothing(
    children: Children, beside: Report, point: str, passing: int
) -> None:
    assert killed(children, f"{point}:{passing}") == seen(beside)


@pytest.mark.parametrize("point", OTHER_POINTS)
def test_a_kill_beside_a_merge_that_is_under_way_changes_nothing(
    children: Children, beside: Report, point: str
) -> None:
    last = beside["passings"][point]
    for passing in {max(1, last // 2), max(1, last - 1)}:
        assert killed(children, f"{point}:{passing}") == seen(beside), f"killed at {point}:{passing}"


def killed(children: Children, point: str) -> Report:
    """What there is to be seen in the end when the first process is killed at this point."""
    with Folder() as folder:
        code = children.run(folder.job(failpoint=point, **BESIDE))
        assert code == -signal.SIGKILL, f"{point}: the child ended with {code}"
        assert children.run(folder.job(**BESIDE)) == 0
        return seen(folder.report)


@pytest.mark.parametrize("passing", [1, 3])
@pytest.mark.parametrize("point", MERGE_POINTS)
def test_a_merge_that_stalls_and_goes_on_after_a_takeover_harms_nothing(
    children: Children, beside: Report, point: str, passing: int
) -> None:
    with Folder() as folder, Children() as stalled:
        stalled.begin(folder.job(pausepoint=f"{point}:{passing}", **BESIDE))
        stalled.wait_stopped()
        successor = folder.job(stop=len(MERGING) - 1, said="successor", **BESIDE)
        assert children.run(successor) == 0
        ended = stalled.resume()
        (folder.path / "said").write_text("".join(f"{act}\n" for act in MERGING[:-1]))

        assert ended == OUSTED
        assert children.run(folder.job(**BESIDE)) == 0
        assert seen(folder.report) == seen(beside)

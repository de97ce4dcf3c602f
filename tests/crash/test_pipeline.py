"""A pipeline whose process is killed between any two writes ends as one that was left in peace.

The scenario of `pipeline_child` passes every failpoint. For each point, and for several of its passings, a
child is killed there and another goes on. All that anybody can see must then be as without the kill: rows of
tables and views, what each step took and put out, the receipts of producers. No file that something refers to
may be missing, and none that nothing refers to may stay.
"""

import re
import signal
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from crash.pipeline_process import Children, Folder
from tidemill.pipeline import failpoint

pytestmark = [pytest.mark.crash, pytest.mark.long, pytest.mark.timeout(600)]

AT_ONCE = 2
Report = dict[str, Any]


def passings(count: int) -> list[int]:
    """Of so many passings those at which to kill: the first ones, one in the middle, the last."""
    return sorted({number for number in (1, 2, 5, count // 2, count) if 1 <= number <= count})


class Matrix:
    """Runs all cases, some at once, each a single time."""

    def __init__(self) -> None:
        self._idle: SimpleQueue[Children] = SimpleQueue()
        self._all = [Children() for _ in range(AT_ONCE)]
        for children in self._all:
            self._idle.put(children)
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self.undisturbed = self._run(None)
        counts = self.undisturbed["passings"]
        self.cases: dict[str, dict[int, Future[Report]]] = {
            point: {
                number: self._pool.submit(self._run, f"{point}:{number}")
                for number in passings(counts.get(point, 0))
            }
            for point in failpoint.POINTS
        }

    def _run(self, point: str | None) -> Report:
        children = self._idle.get()
        try:
            with Folder() as folder:
                if point:
                    code = children.run(folder.job(failpoint=point))
                    assert code == -signal.SIGKILL, f"{point}: the child ended with {code}"
                code = children.run(folder.job(count=not point))
                assert code == 0, f"after {point}: the child ended with {code} after act {folder.done - 1}"
                return folder.report
        finally:
            self._idle.put(children)

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        for children in self._all:
            children.close()


@pytest.fixture(scope="module")
def matrix() -> Iterator[Matrix]:
    found = Matrix()
    yield found
    found.close()


def seen(report: Report) -> Report:
    """What must not depend on a kill."""
    return {name: value for name, value in report.items() if name != "passings"}


def test_every_point_is_listed_and_every_listed_one_is_there() -> None:
    source = Path(failpoint.__file__).parent
    used = [
        name for path in source.rglob("*.py") for name in re.findall(r'\breach\(\s*"(.+?)"', path.read_text())
    ]

    assert sorted(used) == sorted(failpoint.POINTS)


def test_the_scenario_passes_every_point(matrix: Matrix) -> None:
    assert sorted(matrix.undisturbed["passings"]) == sorted(failpoint.POINTS)


def test_left_in_peace_nothing_is_missing_and_nothing_is_left_over(matrix: Matrix) -> None:
    report = matrix.undisturbed

    assert not report["missing"]
    assert not report["orphans"]
    assert not report["orphans of lower terms"]
    assert [step[1] for step in report["steps"]].count("aborted") == 1
    assert all(report["rows"].values())


@pytest.mark.parametrize("point", failpoint.POINTS)
def test_a_kill_changes_nothing(matrix: Matrix, point: str) -> None:
    assert matrix.cases[point]
    for number, killed in matrix.cases[point].items():
        assert seen(killed.result()) == seen(matrix.undisturbed), f"killed at {point}:{number}"

"""The bank test across kill -9: whatever process dies wherever, each step shows and says what it would have.

Whoever goes on has another number of pipeline workers. On the way two views are dropped, and come again.
TIDEMILL_BANK_ROWS says how many transactions there are: with 100,000 it takes some minutes.
"""

import json
import os
import random
import shutil
import signal
from collections.abc import Iterator
from itertools import cycle, pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from crash.bank_child import Job, Planned, Setup
from crash.bank_driver import LATER
from crash.pipeline_process import Children, Folder
from crash.spark_process import Driver
from e2e import bank
from tidemill.api.pipeline import Pipeline
from tidemill.pipeline import failpoint
from tidemill.pipeline.errors import AlreadyOpen
from tidemill.pipeline.log.folder import FolderLock
from tidemill.pipeline.runtimes.java import Java
from tidemill.sql.planner import Planner

pytestmark = [pytest.mark.crash, pytest.mark.long, pytest.mark.timeout(3600)]

ROWS = int(os.environ.get("TIDEMILL_BANK_ROWS", "900"))
SINGLE, STEPS, KILLS = (25, 45, 12) if ROWS < 10_000 else (50, 250, 80)
DROPPED, CREATED = STEPS // 2, STEPS // 2 + 4
WORKERS = (1, 2, 3, 4)
SEED = 7

ON_THE_WAY = (
    "engine.plan.after_blob",
    "engine.plan.after_root",
)
"""Points that are passed when the views are changed: a child goes on until then."""

SELDOM = {
    "log.page.after_write",
    "log.listing.after_write",
    "state.merge.before_write",
    "state.merge.after_write",
}
"""Points that are not passed on so short a way."""


class Course:
    """One way through all lots, in a folder of its own, by children of which some are killed."""

    def __init__(self, planned: Path, children: Children, folder: Path) -> None:
        self.folder = folder
        self._children = children
        self._workers = cycle(WORKERS)
        self.kills = 0
        shutil.copytree(planned, folder, dirs_exist_ok=True)

    def job(self, **options: Any) -> Job:
        return Job(str(self.folder), next(self._workers), **options)

    def go(self, **options: Any) -> bool:
        """Have a child go on, with the next number of workers; whether it was killed."""
        code = self._children.run(self.job(**options))
        assert code in (0, -signal.SIGKILL)
        self.kills += code != 0
        return code != 0

    def tell(self) -> None:
        print(f"{len(self.judged)} steps judged, {len(self.wrong)} wrong, {self.kills} kills survived")

    @property
    def judged(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "judged").read_text().splitlines()]

    @property
    def wrong(self) -> list[Any]:
        return [line for line in self.judged if line["wrong"]]

    @property
    def outputs(self) -> list[tuple[int, str]]:
        """What each step put out."""
        return [(line["lot"], line["output"]) for line in self.judged]

    @property
    def over(self) -> bool:
        judged = self.folder / "judged"
        return judged.exists() and len(self.judged) == len(bank.lots(ROWS, STEPS, SINGLE))


@pytest.fixture(scope="module")
def planned(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the pipeline, before its first step, and with what it computes later."""
    folder = tmp_path_factory.mktemp("planned")
    with Pipeline(spark, folder / "p", runtime="inline") as p:
        p.sql(bank.script())
        planner, plans = Planner(spark), [Planned(0, p._engine.plan)]
    planner.load(plans[0].plan)
    drops = [f"DROP VIEW {view}" for view in reversed(LATER)]
    creations = [f"CREATE VIEW {view} AS {bank.VIEWS[view]}" for view in LATER]
    for lot, texts in ((DROPPED, drops), (CREATED, creations)):
        change = planner.script(";".join(texts))
        assert change is not None
        planner.load(change.plan)
        plans.append(Planned(lot, change.plan, change.fresh))
    setup = Setup(planner.settings, ROWS, STEPS, SINGLE, plans)
    (folder / "setup.json").write_bytes(msgspec.json.encode(setup))
    return folder


@pytest.fixture(scope="module")
def children() -> Iterator[Children]:
    with Children("crash.bank_child") as found:
        yield found


@pytest.fixture
def course(planned: Path, children: Children) -> Iterator[Course]:
    with Folder() as folder:
        yield Course(planned, children, folder.path)


@pytest.fixture(scope="module")
def undisturbed(planned: Path, children: Children) -> list[tuple[int, str]]:
    """What each step puts out when nobody is killed."""
    with Folder() as folder:
        course = Course(planned, children, folder.path)
        assert not course.go()
        assert course.wrong == []
        assert course.over
        return course.outputs


def test_a_child_that_is_killed_at_any_named_point_leaves_no_trace(
    course: Course, undisturbed: list[tuple[int, str]]
) -> None:
    others = [point for point in failpoint.POINTS if point not in ON_THE_WAY]
    half = len(others) // 2
    killed = {point for point in others[:half] if course.go(failpoint=point, lots=4)}
    killed |= {point for point in ON_THE_WAY if course.go(failpoint=point)}
    killed |= {point for point in others[half:] if course.go(failpoint=point, lots=4)}
    course.go()
    course.tell()

    assert course.wrong == []
    assert course.outputs == undisturbed
    assert killed >= set(failpoint.POINTS) - SELDOM


def test_a_child_that_is_killed_at_any_moment_leaves_no_trace(
    course: Course, undisturbed: list[tuple[int, str]]
) -> None:
    draw = random.Random(SEED)
    while course.kills < KILLS and not course.over:
        course.go(kill_after_s=draw.uniform(0.01, 0.5))
    course.go()
    course.tell()

    assert course.kills
    assert course.wrong == []
    assert course.outputs == undisturbed


def test_a_child_that_stops_and_goes_on_leaves_no_trace(
    course: Course, children: Children, undisturbed: list[tuple[int, str]]
) -> None:
    for point in ("engine.step.after_assign", "state.seal.after_write", "root.write.before:2"):
        children.begin(course.job(pausepoint=point, lots=2))
        process = children.wait_stopped()
        with pytest.raises(AlreadyOpen, match=str(process)):
            FolderLock(course.folder / "p")
        assert children.resume() == 0

    assert course.wrong == []
    assert course.outputs == undisturbed[:6]


def test_on_spark_a_driver_that_is_killed_leaves_no_trace(planned: Path, tmp_path: Path, java: Java) -> None:
    shutil.copytree(planned, tmp_path, dirs_exist_ok=True)
    takes = enumerate(pairwise([0, 1, 2, 40, 41, ROWS]))
    lots = iter([f"take {number} {start} {stop} {ROWS}" for number, (start, stop) in takes])
    with Driver(tmp_path, java, module="crash.bank_driver") as driver:
        driver.ask("open 2")
        assert driver.ask(next(lots)) == []
        driver.ask("drop_later")
        assert driver.ask(next(lots)) == []
        driver.ask("arm engine.step.after_sync")
        interrupted = next(lots)
        driver.begin(interrupted)
        assert driver.process.wait() == -signal.SIGKILL
    with Driver(tmp_path, java, module="crash.bank_driver") as driver:
        driver.ask("open 3")
        assert driver.ask(interrupted) == []
        driver.ask("create_later")
        assert [driver.ask(lot) for lot in lots] == [[], []]

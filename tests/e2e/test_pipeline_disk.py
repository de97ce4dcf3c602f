"""Steps of `tidemill.Pipeline` that find no room on the disk: nothing is lost, and nothing is left behind."""

import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import SparkSession

from e2e.auctions import rows
from tidemill.api.pipeline import Pipeline, RuntimeName
from tidemill.base.errors import TidemillError
from tidemill.pipeline.engine import Policy
from tidemill.pipeline.errors import StepFailed

pytestmark = pytest.mark.timeout(180)

ROWS = 20_000
SIZE = 64 << 20
SCRIPT = """
CREATE TABLE sales (shop BIGINT, price BIGINT);
CREATE TABLE shops (id BIGINT PRIMARY KEY, city BIGINT);
CREATE VIEW by_shop AS SELECT shop, sum(price) AS total, max(price) AS most FROM sales GROUP BY shop;
CREATE VIEW by_city AS
    SELECT city, sum(price) AS total, count(*) AS n FROM sales JOIN shops ON shop = id GROUP BY city;
"""
NO_ROOM = "No space left|full"
VIEWS = ("by_shop", "by_city")
Answers = dict[str, Counter[tuple[Any, ...]]]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of `SIZE` bytes, which really fills, also for root."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(disk)]
    try:
        subprocess.run(command, capture_output=True, text=True, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        pytest.skip(f"cannot mount a tmpfs here: {getattr(error, 'stderr', error)}")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


def room(disk: Path) -> int:
    found = os.statvfs(disk)
    return found.f_bavail * found.f_bsize


def fill(disk: Path, leave: int) -> Path:
    """A file that takes all room but so many bytes."""
    ballast = disk / "ballast"
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, room(disk) - leave)
    return ballast


def feed(pipeline: Pipeline, number: int) -> None:
    """The n-th appends, always the same: sales of many shops, and the shops."""
    random = np.random.default_rng(number)
    shops = random.permutation(2 * ROWS)[:ROWS]
    pipeline.insert("sales", pd.DataFrame({"shop": shops, "price": random.integers(0, 1000, ROWS)}))
    pipeline.insert("shops", pd.DataFrame({"id": shops[:100], "city": shops[:100] % 7}))


def answers(pipeline: Pipeline) -> Answers:
    return {view: rows(pipeline, view) for view in VIEWS}


@pytest.fixture(scope="module")
def undisturbed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[Answers]:
    """The views after each of four steps, on a disk that has room."""
    found = []
    with Pipeline(spark, tmp_path_factory.mktemp("undisturbed") / "p", runtime="inline") as p:
        p.sql(SCRIPT)
        for number in range(4):
            feed(p, number)
            p.step()
            found.append(answers(p))
    return found


@pytest.mark.parametrize("leave", [0, 2 << 20])
def test_a_step_that_fills_the_disk_fails_and_goes_on_once_there_is_room(
    spark: SparkSession, disk: Path, runtime: RuntimeName, leave: int, undisturbed: list[Answers]
) -> None:
    with Pipeline(spark, disk / "p", runtime=runtime) as p:
        p.sql(SCRIPT)
        for number in range(2):
            feed(p, number)
            p.step()
        feed(p, 2)
        ballast = fill(disk, leave)
        left = []
        for _ in range(6):
            with pytest.raises(StepFailed, match=f"step 2: .*({NO_ROOM})"):
                p.step()

            assert answers(p) == undisturbed[1]
            assert len(p.pending()) == 2
            left.append(room(disk))
        # What a failed attempt has written is gone, or trying again would take the room that is made. A task
        # of Spark that is told late may write until the next attempt: not after each of them it is all gone.
        assert max(left[3:]) >= leave - (1 << 18)
        ballast.unlink()
        assert p.step().number == 2
        assert p.pending() == []
        assert answers(p) == undisturbed[2]
    with Pipeline(spark, disk / "p", runtime=runtime) as p:
        assert answers(p) == undisturbed[2]
        feed(p, 3)
        p.step()
        assert answers(p) == undisturbed[3]
        assert changed(p, since=1) == minus(undisturbed[3], undisturbed[1])


def test_a_pipeline_that_is_closed_on_a_full_disk_is_opened_when_there_is_room(
    spark: SparkSession, disk: Path, runtime: RuntimeName, undisturbed: list[Answers]
) -> None:
    p = Pipeline(spark, disk / "p", runtime=runtime)
    p.sql(SCRIPT)
    feed(p, 0)
    p.step()
    feed(p, 1)
    ballast = fill(disk, 0)
    with pytest.raises(StepFailed):
        p.step()
    with pytest.raises(TidemillError, match=NO_ROOM):  # it can commit no version, and lets the folder go
        p.close()
    ballast.unlink()
    with Pipeline(spark, disk / "p", runtime=runtime) as p:
        assert answers(p) == undisturbed[0]
        p.step()
        assert answers(p) == undisturbed[1]


def test_a_pipeline_that_runs_by_itself_goes_on_once_there_is_room(
    spark: SparkSession, disk: Path, runtime: RuntimeName, undisturbed: list[Answers]
) -> None:
    with Pipeline(spark, disk / "p", runtime=runtime, policy=Policy(deadline_s=30)) as p:
        p.sql(SCRIPT)
        feed(p, 0)
        p.step()
        feed(p, 1)
        last = p.pending()[-1].offset
        ballast = fill(disk, 300_000)
        p.start()
        with pytest.raises(TimeoutError, match=NO_ROOM):
            p.wait(offset=last, timeout_s=3)
        assert answers(p) == undisturbed[0]
        ballast.unlink()
        p.wait(offset=last, timeout_s=60)
        p.stop()

        assert answers(p) == undisturbed[1]


def changed(pipeline: Pipeline, since: int) -> Answers:
    found: Answers = {}
    for view in VIEWS:
        changes = pipeline.changes(view, since=since).to_pandas()
        for *values, weight in changes.itertuples(index=False, name=None):
            found.setdefault(view, Counter())[tuple(values)] += weight
    return found


def minus(after: Answers, before: Answers) -> Answers:
    found = {view: Counter(after[view]) for view in after}
    for view, bag in before.items():
        found[view].subtract(bag)
    return {view: Counter({row: n for row, n in bag.items() if n}) for view, bag in found.items()}

"""Late rows are dropped and counted; what can no longer change is forgotten, and answers stay as they are."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Literal

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from property.changing_tables import Row
from property.event_tables import EVENTS
from property.judge import create, rows
from property.spark_oracle import Bag, Oracle, differences
from tidemill import Pipeline
from tidemill.pipeline.engine import Engine, Policy
from tidemill.pipeline.plan.node import Aggregate, Distinct

pytestmark = pytest.mark.long

STEPS = 10
LATE = 4
TIME = 2
LATENESS = timedelta(minutes=20)
CREATE = EVENTS.create.replace("at TIMESTAMP,", "at TIMESTAMP LATENESS INTERVAL '20 minutes',")
VIEWS = {
    "tumbling": "SELECT c, window, count(*) AS n, max(v) AS v FROM e GROUP BY c, window(at, '10 minutes')",
    "hopping": """SELECT c, k, window.end AS b, sum(v) AS v FROM e
        GROUP BY c, k, window(at, '10 minutes', '4 minutes')""",
    "hours": "SELECT date_trunc('HOUR', at) AS h, c, count(v) AS n, min(v) AS v FROM e GROUP BY 1, 2",
    "distinct_times": "SELECT DISTINCT c, at FROM e WHERE v > 2",
    "several": """SELECT c, at + INTERVAL 5 MINUTES AS later, count(*) AS n
        FROM (SELECT c, at FROM e WHERE v > 3 UNION ALL SELECT c, at FROM e WHERE v < 5) GROUP BY 1, 2""",
    "sessions": """SELECT c, k, session_window AS s, count(*) AS n FROM e
        GROUP BY c, k, session_window(at, '3 minutes')""",
    "of_a_view": """SELECT c, w.start AS w, sum(n) AS n
        FROM (SELECT c, window AS w, n FROM tumbling) GROUP BY 1, 2""",
    "by_key": "SELECT c, k, count(*) AS n, max(at) AS at FROM e GROUP BY c, k",
}


@dataclass(slots=True)
class Course:
    """The rows and weights of each step, what is there after it, and how many rows were late."""

    steps: list[pa.Table] = field(default_factory=list)
    bags: list[list[Row]] = field(default_factory=list)
    late: list[int] = field(default_factory=list)


def course(seed: int = 1, many: int = 150) -> Course:
    """Times go on with the steps and lie around them; a part of the rows is deleted again, sometimes late."""
    random, found = Random(seed), Course()
    held: list[Row] = []
    highest: datetime | None = None
    for step in range(STEPS):
        waterline = None if highest is None else highest - LATENESS
        gone = random.sample(held, k=len(held) // 6)
        new = [event(random, step) for _ in range(random.randint(0, many))]
        late = {id(row) for row in (*gone, *new) if waterline and row[TIME] and row[TIME] < waterline}
        taken = {id(row) for row in gone if id(row) not in late}
        held = [row for row in held if id(row) not in taken] + [row for row in new if id(row) not in late]
        times = [row[TIME] for row in new if row[TIME] and id(row) not in late]
        highest = max([*times, *([highest] if highest else [])], default=None)
        found.steps.append(EVENTS.arrow([*new, *gone], [1] * len(new) + [-1] * len(gone)))
        found.bags.append(list(held))
        found.late.append(len(late))
    return found


def event(random: Random, step: int) -> Row:
    row = EVENTS.row(random, random.randrange(8))
    if row[TIME] is None:
        return row
    return (*row[:TIME], row[TIME] + timedelta(minutes=60 * step), *row[TIME + 1 :])


@pytest.fixture(scope="module")
def expected(spark: SparkSession) -> dict[str, list[Bag]]:
    """Spark's answers over the rows that were not late, by view and step."""
    oracle = Oracle(spark, [EVENTS], [{"e": bag} for bag in course().bags])
    oracle.define(VIEWS)
    found = {view: oracle.answers(view) for view in VIEWS}
    oracle.close()
    return found


def walk(spark: SparkSession, folder: Path, way: str) -> Iterator[tuple[int, Pipeline]]:
    policy = Policy(round_rows=40) if way == "rounds" else None
    workers = {"small steps": 1, "rounds": 3}.get(way)
    runtime: Literal["batch", "inline"] = "batch" if way == "batch" else "inline"
    pipeline = Pipeline(spark, folder, runtime=runtime, policy=policy, workers=workers)
    pipeline.sql(CREATE)
    for step, change in enumerate(course().steps):
        if step == (LATE if way == "created late" else 0):
            create(pipeline, VIEWS)
        pipeline.apply({"e": change})
        record = pipeline.step()
        assert record.late.get("e", 0) == course().late[step]
        if pipeline.views:
            yield step, pipeline
        if way == "crashes":
            pipeline._engine.abandon()
            pipeline._folder.close()
            pipeline = Pipeline(spark, folder, runtime=runtime, policy=policy, workers=1 + step % 3)
    pipeline.close()


@pytest.mark.parametrize("way", ["small steps", "rounds", "created late", "crashes", "batch"])
def test_late_rows_are_dropped_and_no_answer_changes_by_what_is_forgotten(
    spark: SparkSession,
    tmp_path: Path,
    expected: dict[str, list[Bag]],
    way: str,
) -> None:
    wrong = {
        (view, step): found[:4]
        for step, pipeline in walk(spark, tmp_path / "p", way)
        for view in VIEWS
        if (found := differences(rows(pipeline, view), expected[view][step]))
    }
    assert not wrong


def test_what_can_no_longer_change_is_forgotten(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = {}
    for forgetful in (True, False):
        if not forgetful:
            monkeypatch.setattr(Engine, "_forget", lambda *_: {})
        for _, pipeline in walk(spark, tmp_path / str(forgetful), "small steps"):
            kept[forgetful] = state_rows(pipeline)

    for view in VIEWS:
        if view == "by_key":
            assert kept[True][view] == kept[False][view]
        else:
            assert kept[True][view] < kept[False][view] / 2, view


def state_rows(pipeline: Pipeline) -> dict[str, int]:
    """The rows that the last aggregation of each view keeps."""
    engine = pipeline._engine
    circuit = engine.plan.circuit
    found = {}
    for position, node in enumerate(circuit.nodes):
        if isinstance(node, Aggregate | Distinct):
            runs = engine.runs.of(circuit.fingerprints[position])
            found[circuit.views_above(position)[0]] = sum(run.rows for run in runs)
    return found

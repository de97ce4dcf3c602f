"""Rows come and go with the clock of each step as Spark would answer at that time."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Literal

import pytest
from pyspark.sql import SparkSession

from property.event_tables import EVENTS, START, events
from property.judge import CASES, create, feed, rows
from property.spark_oracle import Bag, Oracle, differences
from tidemill import Pipeline
from tidemill.pipeline.engine import Policy

pytestmark = pytest.mark.long

ZONE = "spark.sql.session.timeZone"
STEPS = 7
LATE = 3
VIEWS = {
    "recent": "SELECT c, k, v FROM e WHERE at > now() - INTERVAL 30 MINUTES",
    "known": "SELECT c, k, at, count(*) AS n FROM e WHERE at <= current_timestamp() GROUP BY c, k, at",
    "between": """SELECT c, k, sum(v) AS v FROM e
        WHERE at BETWEEN now() - INTERVAL 1 HOUR AND now() - INTERVAL 10 MINUTES AND v > 1 GROUP BY c, k""",
    "both": """SELECT c, at, wall FROM e
        WHERE at >= now() - INTERVAL '1:30' HOUR TO MINUTE AND wall < localtimestamp() AND v < 7""",
    "later": "SELECT c, at, v + 1 AS v FROM e WHERE at + INTERVAL 7 MINUTES > now() AND wall <= now()",
    "last": "SELECT c, k, max(at) AS at FROM e GROUP BY c, k HAVING max(at) < now() - INTERVAL 20 MINUTES",
    "joined": """SELECT a.c, a.k, a.v, b.v AS w FROM e AS a
        JOIN e AS b ON a.c = b.c AND a.k = b.k AND a.at = b.at
        WHERE a.at > now() - INTERVAL 5 MINUTES AND b.wall <= localtimestamp()""",
    "days": """SELECT c, k, at FROM e
        WHERE CAST(at AS DATE) = current_date() AND at < current_date() + INTERVAL 1 DAY
        UNION ALL SELECT c, k, at FROM e
        WHERE DATE(wall) > current_date() - 1 AND DATE(at) < date_add(now(), -0)""",
    "a_day_on": "SELECT c, k, at FROM e WHERE at > now() - INTERVAL 1 DAY AND at <= now() - INTERVAL 23 HOUR",
}

CLOCKS = [START + timedelta(minutes=minutes) for minutes in (-40, -10, -10, 35, 300, 1445, 1480)]


@pytest.fixture(scope="module", params=["UTC", "America/New_York"])
def zoned(request: pytest.FixtureRequest, spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    session.conf.set(ZONE, request.param)
    return session


@pytest.fixture(scope="module")
def expected(zoned: SparkSession) -> list[dict[str, Bag]]:
    """Spark's answers at the clock of each step, by view."""
    zone = zoned.conf.get(ZONE)
    assert zone is not None
    found = []
    for step, bags in enumerate(events(1, cases=CASES, steps=STEPS).bags):
        oracle = Oracle(zoned, [EVENTS], [bags])
        oracle._spark.conf.set(ZONE, zone)
        oracle.define({view: at(query, step) for view, query in VIEWS.items()})
        found.append({view: oracle.answers(view)[0] for view in VIEWS})
        oracle.close()
    return found


def course(spark: SparkSession, folder: Path, way: str) -> Iterator[tuple[int, Pipeline]]:
    """The pipeline after each step whose views are judged."""
    runtime: Literal["batch", "inline"] = "inline" if spark.conf.get(ZONE) == "UTC" else "batch"
    policy = Policy(round_rows=100) if way == "rounds" else None
    late = LATE if way == "created late" else 0
    pipeline = Pipeline(spark, folder, runtime=runtime, policy=policy)
    pipeline.sql(EVENTS.create)
    if late:
        pipeline.sql("CREATE VIEW kept AS SELECT * FROM e")
    for step, appends in enumerate(events(1, cases=CASES, steps=STEPS).steps):
        if step == late:
            create(pipeline, VIEWS)
        feed(pipeline, appends)
        pipeline.step(clock=CLOCKS[step])
        if step >= late:
            yield step, pipeline
        if way == "crashes":
            pipeline._engine.abandon()
            pipeline._folder.close()
            pipeline = Pipeline(spark, folder, runtime=runtime, policy=policy)
    pipeline.close()


@pytest.mark.parametrize("way", ["small steps", "rounds", "created late", "crashes"])
def test_rows_come_and_go_as_spark_would_answer_at_that_time(
    zoned: SparkSession, expected: list[dict[str, Bag]], tmp_path: Path, way: str
) -> None:
    wrong = {
        (view, step): found[:4]
        for step, pipeline in course(zoned, tmp_path / "p", way)
        for view in VIEWS
        if (found := differences(rows(pipeline, view), expected[step][view]))
    }
    assert not wrong


def at(query: str, step: int) -> str:
    """The query with the clock of the step in place of now() and its kin."""
    now = f"timestamp_millis({int(CLOCKS[step].timestamp() * 1000)})"
    for name, value in (
        ("now()", now),
        ("current_timestamp()", now),
        ("current_date()", f"CAST({now} AS DATE)"),
        ("localtimestamp()", f"CAST({now} AS TIMESTAMP_NTZ)"),
    ):
        query = query.replace(name, value)
    return query

"""Nexmark: after every step each of the 24 queries has the rows that Spark answers on the same tables.

All views are kept by one pipeline, and people, auctions and bids not only come: some go again, among them the
highest bids, and some auctions change. TIDEMILL_NEXMARK_EVENTS says how many events there are, and
TIDEMILL_NEXMARK_STEPS in how many steps.
"""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from nexmark.catalog import FUNCTIONS, QUERIES, TABLES
from nexmark.generator import Events, Nexmark, side_input
from property.spark_oracle import differences, rows_of
from tidemill import Pipeline

EVENTS = int(os.environ.get("TIDEMILL_NEXMARK_EVENTS", "3000"))
STEPS = int(os.environ.get("TIDEMILL_NEXMARK_STEPS", "4"))
pytestmark = [pytest.mark.long, pytest.mark.timeout(max(300, EVENTS * STEPS // 100))]

# A day ends while it goes on, so that groups by day are several; ten seconds have a thousand events.
MARKET = Nexmark(rate=100, start=datetime(2026, 3, 31, 23, 59, 48, tzinfo=UTC), out_of_order=100)


class Market:
    """The rows of all tables, and changes to them."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(4)
        self.rows = {**MARKET.events(0, 0), "side_input": side_input()}

    def step(self, first: int, last: int) -> Events:
        """The next change, as frames for `Pipeline.apply`; from now on part of the rows.

        Besides the events of the range, of what was there before the best bids and some others go, some
        people and auctions too, and some auctions get another category and end sooner.
        """
        gone = {
            "person": self._some("person", 20),
            "auction": self._some("auction", 20),
            "bid": np.union1d(self._some("bid", 20), self._best_bids(10)),
        }
        moved = np.setdiff1d(self._some("auction", 10), gone["auction"])
        change = {}
        for table, fresh in MARKET.events(first, last).items():
            taken = self.rows[table].take(pa.array(gone[table]))
            kept = np.setdiff1d(np.arange(self.rows[table].num_rows), gone[table])
            if table == "auction":
                fresh = pa.concat_tables([fresh, self._moved(moved)])
                kept = np.setdiff1d(kept, moved)
            self.rows[table] = pa.concat_tables([self.rows[table].take(pa.array(kept)), fresh])
            change[table] = pa.concat_tables([_weighted(fresh, 1), _weighted(taken, -1)])
        return change

    def _some(self, table: str, one_in: int) -> np.ndarray:
        there = self.rows[table].num_rows
        return np.sort(self.random.choice(there, there // one_in, replace=False))

    def _best_bids(self, count: int) -> np.ndarray:
        prices = self.rows["bid"]["price"].to_numpy()
        return np.argsort(prices)[len(prices) - min(count, len(prices)) :]

    def _moved(self, places: np.ndarray) -> pa.Table:
        rows = self.rows["auction"].take(pa.array(places))
        opened, ends = (rows[name].cast(pa.int64()).to_numpy() for name in ("date_time", "expires"))
        for name, values in (
            ("category", 10 + (rows["category"].to_numpy() + 1) % 5),
            ("expires", opened + (ends - opened) // 2),
        ):
            at = rows.column_names.index(name)
            rows = rows.set_column(at, name, pa.array(values).cast(rows[name].type))
        return rows


def _weighted(rows: pa.Table, weight: int) -> pa.Table:
    return rows.append_column("_weight", pa.array(np.full(rows.num_rows, weight, np.int64)))


@dataclass
class Course:
    """The columns of all views; after each step, their rows, and a session of Spark that has the tables."""

    types: dict[str, list[tuple[str, str]]]
    views: list[dict[str, pa.Table]] = field(default_factory=list)
    sessions: list[SparkSession] = field(default_factory=list)

    def note(self, pipeline: Pipeline, tables: Events) -> None:
        self.views.append({name: pipeline.view(name).to_arrow() for name in QUERIES})
        # A session of its own, so that its names are neither those of the pipeline nor of another step.
        spark = pipeline.spark
        session = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
        for name, rows in tables.items():
            session.createDataFrame(rows).cache().createOrReplaceTempView(name)
        self.sessions.append(session)


@pytest.fixture(scope="module")
def course(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Course]:
    spark.sql(FUNCTIONS)
    market = Market()
    with Pipeline(spark, tmp_path_factory.mktemp("nexmark") / "pipeline") as pipeline:
        views = (f"CREATE VIEW {name} AS {query}" for name, query in QUERIES.items())
        pipeline.sql(";\n".join([*TABLES.values(), *views]))
        found = Course({name: pipeline.table(name).dtypes for name in QUERIES})
        pipeline.insert("side_input", side_input())
        for step in range(STEPS):
            pipeline.apply(market.step(EVENTS * step // STEPS, EVENTS * (step + 1) // STEPS))
            pipeline.step()
            found.note(pipeline, market.rows)
    yield found
    for session in found.sessions:
        session.catalog.clearCache()


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_has_the_rows_of_spark_after_every_step(course: Course, name: str) -> None:
    wrong = {}
    for step, (views, session) in enumerate(zip(course.views, course.sessions, strict=True)):
        answer = session.sql(QUERIES[name])
        if found := differences(Counter(rows_of(views[name])), Counter(rows_of(answer.toArrow()))):
            wrong[step] = found[:3]

    assert wrong == {}
    assert views[name].num_rows > 0
    assert course.types[name] == answer.dtypes


def test_rows_come_and_go(course: Course) -> None:
    """What the views follow has insertions, deletions and updates in it."""
    before, after = (session.table("auction") for session in course.sessions[-2:])

    assert after.join(before, "id", "anti").count() > 0
    assert before.join(after, "id", "anti").count() > 0
    assert before.join(after.select("id"), "id").exceptAll(after).count() > 0

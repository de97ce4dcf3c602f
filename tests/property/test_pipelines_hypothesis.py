"""Whole small pipelines, drawn so that a failure shrinks to the few rows that matter.

An example is some cases, each a short history of tables. Its cases go through a pipeline that stays open,
side by side and under numbers that no case had before, so that what changed since its first step is all that
the views hold of it. After each step DuckDB answers the same queries on the rows that the tables have then.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from property.spark_oracle import rows_of
from tidemill import Pipeline
from tidemill.api.pipeline import RuntimeName

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

TABLES = """
CREATE TABLE t (c INT, k STRING, v BIGINT);
CREATE TABLE u (c INT, k STRING, v BIGINT);
CREATE TABLE p (c INT, id INT, v BIGINT, PRIMARY KEY (c, id));
"""
VIEWS = {
    "filtered": "SELECT c, k, v + 1 AS w FROM t WHERE v > 0 OR k IS NULL",
    "totals": """SELECT c, k, count(*) AS n, count(v) AS some, CAST(sum(v) AS BIGINT) AS s, min(v) AS lo,
        max(v) AS hi, avg(v) AS mean FROM t GROUP BY c, k""",
    "joined": "SELECT t.c, t.k, t.v, u.v AS w FROM t JOIN u ON t.c = u.c AND t.k = u.k",
    "pairs": "SELECT a.c, a.k, a.v, b.v AS w FROM t a JOIN t b ON a.c = b.c AND a.k = b.k AND a.v < b.v",
    "kinds": "SELECT DISTINCT c, k FROM t",
    "together": "SELECT c, k, v FROM t UNION ALL SELECT c, k, v FROM u",
    "held": "SELECT c, v, count(*) AS n, max(id) AS last FROM p GROUP BY c, v",
    "priced": "SELECT p.c, p.id, u.v FROM p JOIN u ON p.c = u.c AND p.v = u.v",
    "busiest": "SELECT c, max(n) AS most, min(lo) AS lo FROM totals GROUP BY c",
}
COLUMNS = {
    "t": pa.schema([("c", pa.int32()), ("k", pa.string()), ("v", pa.int64())]),
    "u": pa.schema([("c", pa.int32()), ("k", pa.string()), ("v", pa.int64())]),
    "p": pa.schema([("c", pa.int32()), ("id", pa.int32()), ("v", pa.int64())]),
}
Row = tuple[Any, ...]
Bag = Counter[Row]


# What is drawn


@dataclass(frozen=True)
class Put:
    """So many more of a row of `t` or `u`."""

    table: str
    k: str | None
    v: int | None
    weight: int


@dataclass(frozen=True)
class Take:
    """One less of one of the rows that the table has, if there are any."""

    table: str
    which: int


@dataclass(frozen=True)
class Upsert:
    """A row of `p`, in the place of the one with its key."""

    id: int
    v: int | None


@dataclass(frozen=True)
class Remove:
    """The row of `p` with this key, if there is one."""

    id: int


values = st.none() | st.integers(-2, 3) | st.sampled_from([2**40, -(2**40)])
bags = st.sampled_from(["t", "u"])
acts = st.one_of(
    st.builds(Put, bags, st.sampled_from(["a", None, "b", ""]), values, st.sampled_from([1, 1, 2, 5])),
    st.builds(Take, bags, st.integers(0, 5)),
    st.builds(Upsert, st.integers(0, 2), values),
    st.builds(Remove, st.integers(0, 2)),
)
cases = st.lists(st.lists(acts, max_size=5), min_size=1, max_size=3)
examples = st.lists(cases, min_size=1, max_size=12)


# What is done with it


@dataclass
class Step:
    """The changes of all cases in one step: rows with weights; by key a new row, or None if it goes."""

    weighted: dict[str, list[tuple[Row, int]]] = field(default_factory=lambda: {"t": [], "u": []})
    keyed: dict[tuple[int, int], Row | None] = field(default_factory=dict)


@dataclass
class Model:
    """The rows that the tables have."""

    bags: dict[str, list[Row]] = field(default_factory=lambda: {"t": [], "u": []})
    held: dict[tuple[int, int], Row] = field(default_factory=dict)

    def act(self, case: int, act: Put | Take | Upsert | Remove, step: Step) -> None:
        match act:
            case Put(table, k, v, weight):
                self.bags[table] += [(case, k, v)] * weight
                step.weighted[table].append(((case, k, v), weight))
            case Take(table, which):
                mine = [row for row in self.bags[table] if row[0] == case]
                if mine:
                    row = mine[which % len(mine)]
                    self.bags[table].remove(row)
                    step.weighted[table].append((row, -1))
            case Upsert(id, v):
                self.held[case, id] = step.keyed[case, id] = (case, id, v)
            case Remove(id):
                if self.held.pop((case, id), None):
                    step.keyed[case, id] = None

    @property
    def tables(self) -> dict[str, pa.Table]:
        rows = {**self.bags, "p": list(self.held.values())}
        return {name: arrow(name, rows[name]) for name in COLUMNS}


def arrow(table: str, rows: Iterable[Row], width: int | None = None) -> pa.Table:
    schema = pa.schema(list(COLUMNS[table])[:width])
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=False)) for row in rows], schema)


def feed(pipeline: Pipeline, step: Step, before: dict[tuple[int, int], Row]) -> None:
    """Append the changes of a step."""
    changes = {
        name: arrow(name, [row for row, _ in rows]).append_column(
            "_weight", pa.array([weight for _, weight in rows], pa.int64())
        )
        for name, rows in step.weighted.items()
        if rows
    }
    if changes:
        pipeline.apply(changes)
    if new := [row for row in step.keyed.values() if row]:
        pipeline.insert("p", arrow("p", new))
    if gone := [key for key, row in step.keyed.items() if not row and key in before]:
        pipeline.delete("p", arrow("p", gone, width=2))


def answers(tables: dict[str, pa.Table]) -> dict[str, Bag]:
    """What DuckDB says of these tables."""
    with duckdb.connect() as database:
        for name, rows in tables.items():
            database.register(name, rows)
        for name, query in VIEWS.items():
            database.execute(f"CREATE VIEW {name} AS {query}")
        return {name: Counter(database.execute(f"FROM {name}").fetchall()) for name in VIEWS}


@dataclass
class Open:
    """A pipeline that is open, and numbers for its cases."""

    pipeline: Pipeline
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def try_out(self, example: list[list[list[Any]]]) -> None:
        """Take the cases through the pipeline; the views are right after each step."""
        try:
            self._try_out(example)
        finally:
            # An example that aborts its step must not stand in the way of the next.
            for waiting in self.pipeline.pending():
                self.pipeline.discard(waiting.offset)

    def _try_out(self, example: list[list[list[Any]]]) -> None:
        numbered = [(next(self.numbers), history) for history in example]
        model, since = Model(), -1
        for at in range(max(len(history) for history in example)):
            step, before = Step(), dict(model.held)
            for number, history in numbered:
                for act in history[at] if at < len(history) else ():
                    model.act(number, act, step)
            feed(self.pipeline, step, before)
            made = self.pipeline.step().number
            since = made - 1 if not at else since
            expected = answers(model.tables)
            for view in VIEWS:
                assert self.changed(view, since) == expected[view], f"{view} in step {at}"
        mine = {number for number, _ in numbered}
        for view in VIEWS:
            rows = rows_of(self.pipeline.view(view).to_arrow())
            assert Counter(row for row in rows if row[0] in mine) == expected[view], f"{view} in the end"

    def changed(self, view: str, since: int) -> Bag:
        found: Bag = Counter()
        for *row, weight in rows_of(self.pipeline.changes(view, since=since).to_arrow()):
            found[tuple(row)] += weight
        return found


@pytest.fixture(scope="module")
def open_pipelines(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[RuntimeName, Open]]:
    runtimes: tuple[RuntimeName, ...] = ("inline", "batch")
    found: dict[RuntimeName, Open] = {}
    for runtime in runtimes:
        pipeline = Pipeline(spark, tmp_path_factory.mktemp(runtime) / "p", runtime=runtime)
        pipeline.sql(TABLES)
        pipeline.sql(";".join(f"CREATE VIEW {name} AS {query}" for name, query in VIEWS.items()))
        found[runtime] = Open(pipeline)
    yield found
    for opened in found.values():
        opened.pipeline.close()


UNHURRIED = settings(deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)


@settings(UNHURRIED, max_examples=60)
@given(example=examples)
def test_views_are_what_duckdb_answers_inline(
    open_pipelines: dict[RuntimeName, Open], example: list[list[list[Any]]]
) -> None:
    open_pipelines["inline"].try_out(example)


@settings(UNHURRIED, max_examples=20)
@given(example=examples)
def test_views_are_what_duckdb_answers_on_spark(
    open_pipelines: dict[RuntimeName, Open], example: list[list[list[Any]]]
) -> None:
    open_pipelines["batch"].try_out(example)

"""Judges views against Spark: whatever way a history goes through a pipeline, they have the rows of Spark.

A family of operators is a module with queries over tables of `changing_tables` (or its own): it makes a
`Judge` of them and asserts, for each of the `WAYS`, that nothing is `wrong`. The environment's
TIDEMILL_CASES says how many cases a history packs together; with TIDEMILL_WAYS=all it goes every way.
"""

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import pytest
from pyspark.sql import SparkSession

from property.changing_tables import CASE, TABLES, Append, Bags, History, Row, Table, history
from property.spark_oracle import Bag, Oracle, differences, rows_of
from tidemill import Pipeline
from tidemill.pipeline.engine import Policy

CASES = int(os.environ.get("TIDEMILL_CASES", "40"))
STEPS = 4
LATE = 2
"""So many steps are done before late views are created."""
EVERY_WAY = ("small steps", "one step", "rounds", "created late", "batch", "batch late")
WAYS = (
    EVERY_WAY
    if os.environ.get("TIDEMILL_WAYS") == "all"
    else ("small steps", "one step", "created late", "batch")
)

PIECES = ("tidemill.pipeline.state.run.PIECE_ROWS", "tidemill.pipeline.state.stream.PIECE_ROWS")

Wrong = dict[tuple[str, int], list[tuple[Row, int]]]
"""By view and step, some rows that we have too many of, or lack."""


@dataclass(frozen=True, slots=True)
class Other:
    """A view by its whole statement, and its rows by those of the tables."""

    statement: str
    answer: Callable[[Bags], Bag]


class Judge:
    """Views of one family, a history of their tables, and what Spark answers.

    Views may read views before them. A query without the column `c` is asked once for each step.
    `oracle` are other queries for Spark, by view, where the two cannot be the same text; `others` are views
    that Spark cannot say at all. Those of which Spark computes a part must be `planned_in` batch.
    """

    def __init__(
        self,
        spark: SparkSession,
        root: Path,
        views: Mapping[str, str],
        *,
        tables: Sequence[Table] = TABLES,
        course: History | None = None,
        oracle: Mapping[str, str] | None = None,
        others: "Mapping[str, Other] | None" = None,
        planned_in: Literal["batch", "inline"] = "inline",
    ) -> None:
        self.spark = spark
        self.root = root
        self.views = dict(views)
        self.tables = tables
        self.history = course or history(len(self.views), cases=CASES, steps=STEPS)
        self.oracle = {**self.views, **(oracle or {})}
        self.others = others or {}
        self.planned_in = planned_in

    def wrong(self, way: str) -> Wrong:
        """Where the views differ from Spark's answers when the history goes this way."""
        return {
            (view, step): found[:4]
            for step, bags in self._course(way)
            for view, bag in bags.items()
            if (found := differences(bag, self.expected[view][step]))
        }

    @cached_property
    def expected(self) -> dict[str, list[Bag]]:
        """Spark's answers, by view and step."""
        found = self._packed() if self.tables[0].columns[0] is CASE else {}
        alone = [view for view in self.views if view not in found]
        for bags in self.history.bags if alone else ():
            one = Oracle(self.spark, self.tables, [bags])
            one.define(self.oracle)
            for view in alone:
                found.setdefault(view, []).extend(one.answers(view))
            one.close()
        for view, other in self.others.items():
            found[view] = [other.answer(bags) for bags in self.history.bags]
        return found

    def _packed(self) -> dict[str, list[Bag]]:
        """Those of the views that keep cases apart, each by one query."""
        every = Oracle(self.spark, self.tables, self.history.bags)
        every.define(self.oracle)
        found = {view: every.answers(view) for view in self.views if every.keeps_cases(view)}
        every.close()
        return found

    def _course(self, way: str) -> Iterator[tuple[int, dict[str, Bag]]]:
        """The rows of all views after some steps."""
        late = "late" in way
        folder = self.root / way.replace(" ", "-")
        shutil.copytree(self._filled if late else self._planned, folder)
        policy = Policy(round_rows=300) if way == "rounds" else None
        runtime: Literal["batch", "inline"] = "batch" if "batch" in way else "inline"
        with (
            pytest.MonkeyPatch.context() as patch,
            Pipeline(self.spark, folder, runtime=runtime, policy=policy) as pipeline,
        ):
            if way == "created late":
                for name in PIECES:
                    patch.setattr(name, 200)
            for step in range(LATE if late else 0, len(self.history.steps)):
                if not (late and step == LATE):
                    feed(pipeline, self.history.steps[step])
                if way == "one step" and step < len(self.history.steps) - 1:
                    continue
                pipeline.step()
                yield step, {view: rows(pipeline, view) for view in (*self.views, *self.others)}

    @cached_property
    def _planned(self) -> Path:
        """A pipeline with all views, before the first append: to copy, so that each view is planned once."""
        with self._tables("planned") as pipeline:
            self._create(pipeline)
        return self.root / "planned"

    @cached_property
    def _filled(self) -> Path:
        """A pipeline whose tables have rows, and the next ones wait; its views are yet to be filled."""
        with self._tables("filled") as pipeline:
            kept = (f"CREATE VIEW kept_{table.name} AS SELECT * FROM {table.name}" for table in self.tables)
            pipeline.sql(";\n".join(kept))
            for appends in self.history.steps[:LATE]:
                feed(pipeline, appends)
                pipeline.step()
            feed(pipeline, self.history.steps[LATE])
            self._create(pipeline)
        return self.root / "filled"

    @contextmanager
    def _tables(self, name: str) -> Iterator[Pipeline]:
        with Pipeline(self.spark, self.root / name, runtime=self.planned_in) as pipeline:
            pipeline.sql(";\n".join(table.create for table in self.tables))
            yield pipeline

    def _create(self, pipeline: Pipeline) -> None:
        create(pipeline, self.views)
        pipeline.sql(";\n".join(other.statement for other in self.others.values()))


def create(pipeline: Pipeline, views: Mapping[str, str]) -> None:
    """Create the views, in that order."""
    pipeline.sql(";\n".join(f"CREATE VIEW {name} AS {query}" for name, query in views.items()))


def feed(pipeline: Pipeline, appends: Iterable[Append]) -> None:
    """Append what one step of a history brings."""
    for append in appends:
        if append.verb == "apply":
            pipeline.apply(append.frames)
        else:
            [(table, frame)] = append.frames.items()
            (pipeline.insert if append.verb == "insert" else pipeline.delete)(table, frame)


def rows(pipeline: Pipeline, view: str) -> Bag:
    """The rows of a view, as they can be compared."""
    return Counter(rows_of(pipeline.view(view).to_arrow()))

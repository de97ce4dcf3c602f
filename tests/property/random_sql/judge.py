"""Takes a case through a pipeline and through Spark, and says where they differ."""

import re
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from property.changing_tables import Row, canonical
from property.judge import PIECES
from property.random_sql.case import Case, View
from property.random_sql.changes import Rows, advance, feed
from property.random_sql.tables import TABLES
from property.spark_oracle import Bag, differences, rows_of
from tidemill import Pipeline
from tidemill.pipeline.engine import Policy
from tidemill.pipeline.errors import Refused, StepAborted
from tidemill.sql.catalyst.session import unlogged

QUICK = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.leafNodeDefaultParallelism": "1",
}
"""What makes Spark answer soonest on few rows; none of it changes an answer."""
TINY = 1e-9
"""Floats below are zero: what is left of a difference depends on the order of rows."""
MISTAKE = "INTERNAL_ERROR"
"""What Spark says when it fails over a query by a mistake of its own."""
PLACE = re.compile(r"^view \w*: |^the query of line \d+: |line \d+, column \d+: |\b[cqgwv]\d+\.?|#\d+|\d+")


@dataclass(frozen=True, slots=True)
class Wrong:
    """A view that is not what Spark answers, after which step, and how."""

    view: str
    step: int
    what: str

    @property
    def kind(self) -> str:
        """What must stay the same for it to be the same fault."""
        return self.what.partition(":")[0]


@dataclass(slots=True)
class Verdict:
    """What became of the views of a case."""

    judged: list[str] = field(default_factory=list)
    answers: int = 0
    """How often a view was compared."""
    rows: int = 0
    """That Spark answered."""
    refused: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    """A query for each reason to refuse one."""
    refused_by_spark: Counter[str] = field(default_factory=Counter)
    aborted: Counter[str] = field(default_factory=Counter)
    """In both, by the reason."""
    skipped: int = 0
    """For they read a view that was dropped or never there."""
    wrong: list[Wrong] = field(default_factory=list)

    def add(self, other: "Verdict") -> None:
        self.judged += other.judged
        self.answers += other.answers
        self.rows += other.rows
        self.refused += other.refused
        self.examples = other.examples | self.examples
        self.refused_by_spark += other.refused_by_spark
        self.aborted += other.aborted
        self.skipped += other.skipped
        self.wrong += other.wrong


def judge(spark: SparkSession, folder: Path, case: Case) -> Verdict:
    """Run the case in an empty folder, which is gone afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        for name in PIECES if case.cut else ():
            patch.setattr(name, case.cut)
        trial = Trial(spark, folder, case)
        try:
            trial.run()
        finally:
            trial.close()
            shutil.rmtree(folder, ignore_errors=True)
    return trial.verdict


class Answers:
    """What Spark says of the views on the tables of this moment, in a session of its own."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
        for name, value in QUICK.items():
            self._spark.conf.set(name, value)

    def load(self, rows: Rows) -> None:
        for name, table in TABLES.items():
            frame = table.arrow([canonical(row) for row in rows[name]])
            columns = ", ".join(f"{column.name} {column.sql}" for column in table.columns)
            # In one partition: Spark knows that nothing has to be shuffled.
            self._spark.createDataFrame(frame, columns).coalesce(1).createOrReplaceTempView(name)

    def define(self, view: View) -> None:
        """Make the view known. Raises what Spark raises when it refuses it."""
        with unlogged():
            self._spark.sql(f"CREATE OR REPLACE TEMP VIEW {view.name} AS {view.text}")

    def forget(self, view: str) -> None:
        self._spark.catalog.dropTempView(view)

    def bag(self, view: str) -> Bag:
        frame = self._spark.table(view)
        with unlogged():
            try:
                found = frame.toArrow()
            except pa.ArrowException:
                # PySpark fails to hand over an answer: a struct that is never NULL, says its type, is NULL.
                nothing = self._spark.createDataFrame([], frame.schema.toNullable())
                found = nothing.union(frame).toArrow()
        return Counter(map(_settled, rows_of(found)))


class Trial:
    """One case under way."""

    def __init__(self, spark: SparkSession, folder: Path, case: Case) -> None:
        self.spark, self.folder, self.case = spark, folder, case
        self.verdict = Verdict()
        self.answers = Answers(spark)
        self.pipeline = self._open(case.workers[0])
        self.live: list[View] = []
        self.held: dict[str, Bag] = {}
        """The rows that a view had after the step before."""

    def _open(self, workers: int) -> Pipeline:
        policy = Policy(round_rows=self.case.cut) if self.case.cut else None
        return Pipeline(self.spark, self.folder, runtime=self.case.runtime, workers=workers, policy=policy)

    def close(self) -> None:
        self.pipeline.close()

    def run(self) -> None:
        rows: Rows = {name: [] for name in TABLES}
        self.pipeline.sql(";\n".join(table.create for table in TABLES.values()))
        for number, step in enumerate(self.case.steps):
            if number == self.case.reopened:
                self.pipeline.close()
                self.pipeline = self._open(self.case.workers[1])
            rows = advance(rows, step)
            self.answers.load(rows)
            self._create([view for view in self.case.views if view.since == number], number)
            feed(self.pipeline, step)
            if not self._step(number):
                return
        self.verdict.judged += [view.name for view in self.live]

    def _create(self, views: Sequence[View], number: int) -> None:
        """All that Spark can answer: by one script, which is soonest, or each alone if one is refused."""
        known: list[View] = []
        for view in views:
            if self._is_known(view, {other.name for other in (*self.live, *known)}):
                known.append(view)
        try:
            self.pipeline.sql(";\n".join(view.create for view in known))
        except Exception:  # Whose fault it is, and what it is, is found out for each alone.
            for view in known:
                self._create_alone(view, number)
        else:
            self.live += known

    def _is_known(self, view: View, names: set[str]) -> bool:
        if not view.reads <= names:
            self.verdict.skipped += 1
            return False
        try:
            self.answers.define(view)
        except PySparkException as error:
            self.verdict.refused_by_spark[reason(error)] += 1
            return False
        return True

    def _create_alone(self, view: View, number: int) -> None:
        if not view.reads <= {other.name for other in self.live}:
            self.verdict.skipped += 1
            self.answers.forget(view.name)
            return
        try:
            self.pipeline.sql(view.create)
        except Refused as error:
            self._refused(view, error)
        except Exception as error:
            self._blame(view.name, number, f"not created: {type(error).__name__}: {error}")
            self.answers.forget(view.name)
        else:
            self.live.append(view)

    def _refused(self, view: View, error: Refused) -> None:
        """By Tidemill; or by Spark, if it cannot answer either."""
        try:
            self.answers.bag(view.name)
            self.verdict.refused[reason(error)] += 1
            self.verdict.examples[reason(error)] = view.text
        except (PySparkException, Py4JJavaError) as also:
            self.verdict.refused_by_spark[reason(also)] += 1
        self.answers.forget(view.name)

    def _step(self, number: int) -> bool:
        """Make the step and compare; False if it cannot be made. Views that raise in Spark must abort it."""
        expected: dict[str, Bag] = {}
        raised: dict[str, str] = {}
        for view in self.live:
            try:
                expected[view.name] = self.answers.bag(view.name)
            except (PySparkException, Py4JJavaError) as error:
                raised[view.name] = reason(error)
        for view in [view for view in self.live if raised.get(view.name) == MISTAKE]:
            self.verdict.refused_by_spark[MISTAKE] += 1
            self._drop(view.name, raised)
        if not self._made(number, raised):
            return False
        for view in self.live:
            self._compare(view.name, number, expected[view.name])
        return True

    def _compare(self, view: str, number: int, theirs: Bag) -> None:
        """The rows with Spark's, and with those before and what the view's feed says has changed."""
        ours = Counter(map(_settled, rows_of(self.pipeline.view(view).to_arrow())))
        self.verdict.answers += 1
        self.verdict.rows += theirs.total()
        if found := differences(ours, theirs):
            self._blame(view, number, f"rows differ: {_shown(found)}")
        fed = self.held.get(view, Bag()).copy()
        for *row, weight in rows_of(
            self.pipeline.changes(view, self.pipeline.view(view).step - 1).to_arrow()
        ):
            fed[_settled(tuple(row))] += weight
        if fed != ours:
            self._blame(view, number, f"feed differs: {_shown(differences(fed, ours))}")
        self.held[view] = ours

    def _made(self, number: int, raised: dict[str, str]) -> bool:
        """Whether the step was made in the end, without the views for which Spark raises."""
        while True:
            try:
                self.pipeline.step()
            except StepAborted as error:
                known = [view for view in error.view.split(", ") if view in raised]
                if not known:
                    self._blame(error.view.partition(",")[0], number, f"aborted: {error}")
                    return False
                self.verdict.aborted[raised[known[0]]] += 1
                self._drop(known[0], raised)
            except Exception as error:
                self._blame("", number, f"not made: {type(error).__name__}: {error}")
                return False
            else:
                break
        for view in [view for view in self.live if view.name in raised]:
            # Of a view over views Spark makes one query, and may test rows that another view leaves out.
            if view.reads:
                self.verdict.skipped += 1
            else:
                self._blame(view.name, number, f"not aborted: Spark says {raised[view.name]}")
            self._drop(view.name, raised)
        return True

    def _drop(self, name: str, raised: dict[str, str]) -> None:
        """Drop a view, after those that read it."""
        for view in [view for view in self.live if name in view.reads]:
            self._drop(view.name, raised)
        if name not in {view.name for view in self.live}:
            return
        self.live = [view for view in self.live if view.name != name]
        self.held.pop(name, None)
        raised.pop(name, None)
        self.pipeline.drop(name)
        self.answers.forget(name)

    def _blame(self, view: str, step: int, what: str) -> None:
        self.verdict.wrong.append(Wrong(view, step, what[:600]))


def reason(error: Exception) -> str:
    """The message without what is of this query alone."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    told = next((line for line in lines if re.search(r"\[[A-Z_.]{8,}\]", line)), lines[0] if lines else "")
    if found := re.search(r"\[([A-Z_.]{8,})\]", told):
        return found[1]
    return PLACE.sub("", told)[:140]


def _settled(row: Row) -> Row:
    return tuple(_zero(value) for value in row)


def _zero(value: Any) -> Any:
    return 0.0 if isinstance(value, float) and abs(value) < TINY else value


def _shown(found: Sequence[tuple[Row, int]]) -> str:
    """Some of the rows that we have too many of, or lack."""
    parts = [f"{'+' if count > 0 else ''}{count} {row}" for row, count in found[:4]]
    return "; ".join(parts)

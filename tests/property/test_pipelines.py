"""Whole pipelines against Spark: many small steps == one big step == Spark SQL on the tables of that moment.

One random history of hundreds of cases goes through one pipeline with all views, in several ways; Spark
answers each view once, for all cases and steps.
"""

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from property.changing_tables import TABLES, history
from property.judge import create, feed, rows
from property.pipeline_views import EVERYWHERE, GLOBAL, IN_SPARK, JOINS, PER_CASE
from property.spark_oracle import Bag, Oracle, differences, rows_of
from tidemill import Pipeline
from tidemill.api.pipeline import RuntimeName
from tidemill.api.rows import Rows
from tidemill.pipeline.engine import Policy

SEED = 2026
CASES = 200
STEPS = 5
LATE = 2
"""So many steps are done before late views are created."""

HISTORY = history(SEED, cases=CASES, steps=STEPS)
SMALL_ROUNDS = Policy(round_rows=1000)
PIECES = ("tidemill.pipeline.state.run.PIECE_ROWS", "tidemill.pipeline.state.stream.PIECE_ROWS")

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


@dataclass(frozen=True, slots=True)
class Course:
    """How a history went through a pipeline: the rows of each view after some steps, and its columns.

    `regained` is what each view is by its rows at an early step and what `changes` says of the time since.
    """

    bags: Mapping[tuple[str, int], Bag]
    columns: Mapping[str, str]
    regained: Mapping[str, Bag]


class Folders:
    """Pipelines to copy, so that each view is planned once."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark = spark
        self.root = root

    def open(self, name: str, runtime: RuntimeName = "inline", policy: Policy | None = None) -> Pipeline:
        return Pipeline(self.spark, self.root / name, runtime=runtime, policy=policy)

    def copy(self, name: str, to: str) -> str:
        shutil.copytree(self.root / name, self.root / to)
        return to


@pytest.fixture(scope="module")
def folders(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return Folders(spark, tmp_path_factory.mktemp("pipelines"))


@pytest.fixture(scope="module")
def early(folders: Folders) -> str:
    """A pipeline with all views, before the first append."""
    with folders.open("early") as pipeline:
        for table in TABLES:
            pipeline.sql(table.create)
        create(pipeline, EVERYWHERE)
    return "early"


@pytest.fixture(scope="module")
def late(folders: Folders) -> str:
    """A pipeline with rows in its tables, and views that are yet to be filled."""
    with folders.open("late") as pipeline:
        for table in TABLES:
            pipeline.sql(table.create)
        create(pipeline, {"counted": EVERYWHERE["counted"]})
        for appends in HISTORY.steps[:LATE]:
            feed(pipeline, appends)
            pipeline.step()
        create(pipeline, {name: query for name, query in EVERYWHERE.items() if name != "counted"})
    return "late"


@pytest.fixture(scope="module")
def oracle(spark: SparkSession) -> Iterator[Oracle]:
    oracle = Oracle(spark, TABLES, HISTORY.bags)
    oracle.define(PER_CASE | IN_SPARK | GLOBAL)
    yield oracle
    oracle.close()


@pytest.fixture(scope="module")
def expected(spark: SparkSession, oracle: Oracle) -> dict[str, list[Bag]]:
    """Spark's answers, by view and step."""
    found = {view: oracle.answers(view) for view in PER_CASE | IN_SPARK}
    found |= {view: [Counter() for _ in HISTORY.bags] for view in GLOBAL}
    for step, bags in enumerate(HISTORY.bags):
        alone = Oracle(spark, TABLES, [bags])
        alone.define({"counted": EVERYWHERE["counted"], **GLOBAL})
        for view in GLOBAL:
            [found[view][step]] = alone.answers(view)
    return found


# The ways


@pytest.fixture(scope="module")
def small_steps(folders: Folders, early: str) -> Course:
    with folders.open(folders.copy(early, "small")) as pipeline:
        return follow(pipeline, EVERYWHERE, range(STEPS))


@pytest.fixture(scope="module")
def small_rounds(folders: Folders, early: str) -> Course:
    with folders.open(folders.copy(early, "rounds"), policy=SMALL_ROUNDS) as pipeline:
        return follow(pipeline, EVERYWHERE, range(STEPS), read=[STEPS - 1])


@pytest.fixture(scope="module")
def one_step(folders: Folders, early: str) -> Course:
    with folders.open(folders.copy(early, "one")) as pipeline:
        for appends in HISTORY.steps[:-1]:
            feed(pipeline, appends)
        return follow(pipeline, EVERYWHERE, [STEPS - 1])


@pytest.fixture(scope="module")
def on_spark(folders: Folders, early: str) -> Course:
    with folders.open(folders.copy(early, "batch"), "batch") as pipeline:
        create(pipeline, IN_SPARK)
        return follow(pipeline, EVERYWHERE | IN_SPARK, range(STEPS), read=[1, STEPS - 1])


@pytest.fixture(scope="module")
def filled_late(folders: Folders, late: str) -> Course:
    with folders.open(folders.copy(late, "filled")) as pipeline:
        return follow(pipeline, EVERYWHERE, range(LATE, STEPS))


@pytest.fixture(scope="module")
def filled_late_in_rounds(folders: Folders, late: str) -> Course:
    with (
        pytest.MonkeyPatch.context() as patch,
        folders.open(folders.copy(late, "filled-rounds"), policy=SMALL_ROUNDS) as pipeline,
    ):
        for name in PIECES:
            patch.setattr(name, 300)
        return follow(pipeline, EVERYWHERE, range(LATE, STEPS), read=[LATE, STEPS - 1])


@pytest.fixture(scope="module")
def filled_late_on_spark(folders: Folders, late: str) -> Course:
    with folders.open(folders.copy(late, "filled-batch"), "batch") as pipeline:
        create(pipeline, IN_SPARK)
        return follow(pipeline, EVERYWHERE | IN_SPARK, range(LATE, STEPS), read=[LATE, STEPS - 1])


def follow(
    pipeline: Pipeline, views: Iterable[str], steps: Iterable[int], *, read: Iterable[int] | None = None
) -> Course:
    """Take the pipeline through these steps of the history, and read the views after some of them."""
    bags: dict[tuple[str, int], Bag] = {}
    numbers: dict[int, int] = {}
    steps = list(steps)
    read = sorted(steps if read is None else read)
    for step in steps:
        feed(pipeline, HISTORY.steps[step])
        numbers[step] = pipeline.step().number
        if step in read:
            bags |= {(view, step): rows(pipeline, view) for view in views}
    random = Random(SEED)
    since = {view: random.choice(read) for view in views}
    regained = {
        view: total(bags[view, step], pipeline.changes(view, since=numbers[step]))
        for view, step in since.items()
    }
    columns = {view: pipeline.view(view).to_spark().schema.simpleString() for view in views}
    return Course(bags, columns, regained)


def total(before: Bag, changes: Rows) -> Bag:
    """The rows after changes that come with weights; a negative number of rows stays visible."""
    found = Counter(before)
    for *row, weight in rows_of(changes.to_arrow()):
        found[tuple(row)] += weight
    return Counter({row: count for row, count in found.items() if count})


@pytest.fixture(
    params=[
        small_steps,
        small_rounds,
        one_step,
        on_spark,
        filled_late,
        filled_late_in_rounds,
        filled_late_on_spark,
    ],
    ids=lambda way: way.name,
)
def course(request: pytest.FixtureRequest) -> Course:
    """Each of the ways."""
    found: Course = request.getfixturevalue(request.param.name)
    return found


def test_views_are_at_each_step_what_spark_answers(course: Course, expected: dict[str, list[Bag]]) -> None:
    wrong = {
        (view, step): found[:4]
        for (view, step), bag in course.bags.items()
        if (found := differences(bag, expected[view][step]))
    }

    assert not wrong


def test_columns_have_the_names_and_types_that_spark_gives(course: Course, oracle: Oracle) -> None:
    assert course.columns == {view: oracle.schema(view) for view in course.columns}


def test_changes_since_a_step_lead_from_its_rows_to_those_of_now(course: Course) -> None:
    wrong = {
        view: found[:4]
        for view, bag in course.regained.items()
        if (found := differences(bag, course.bags[view, STEPS - 1]))
    }

    assert not wrong


def test_many_cases_have_an_answer(expected: dict[str, list[Bag]]) -> None:
    """Otherwise the comparisons would say little."""
    assert {view for view, bags in expected.items() if not bags[-1]} == set()
    assert min(len({row[0] for row in expected[view][-1]}) for view in JOINS) > CASES // 10

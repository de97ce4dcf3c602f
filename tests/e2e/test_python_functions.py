"""Functions that users write in Python: in all places, with other bodies, and after another opening."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.functions import arrow_udf, pandas_udf

from e2e.auctions import rows
from tidemill import Pipeline
from tidemill.pipeline.errors import StepAborted, StepFailed

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call] # no task has it

TABLES = "CREATE TABLE t (k STRING, n BIGINT); CREATE TABLE u (k STRING, m BIGINT)"
Step = dict[str, list[tuple[Any, ...]]]
STEPS: tuple[Step, ...] = (
    {"t": [("a", 1, 1), ("b", 2, 2), (None, 3, 1), ("c", None, 1)], "u": [("A!", 5, 1), ("B!", 6, 1)]},
    {"t": [("b", 2, -1), ("a", 7, 1)], "u": [("A!", 5, -1), ("C!", 8, 2)]},
)
VIEWS = {
    "selected": "SELECT loud(k) AS k, tripled(n) AS n, next_of(n) AS m FROM t",
    "nested": "SELECT loud(loud(k)) AS k, next_of(tripled(n) + n) AS n FROM t",
    "filtered": "SELECT k, n FROM t WHERE tripled(n) > 3 AND k IS NOT NULL",
    "grouped": "SELECT loud(k) AS k, sum(tripled(n)) AS n, max(next_of(n)) AS m FROM t GROUP BY loud(k)",
    "joined": "SELECT t.k, n, m FROM t JOIN u ON loud(t.k) = u.k",
    "ranked": "SELECT k, n, rank() OVER (PARTITION BY loud(k) ORDER BY tripled(n)) AS r FROM t",
    "in_case": "SELECT CASE WHEN n > 1 THEN loud(k) ELSE upper(k) END AS k FROM t",
    "in_subquery": "SELECT k FROM t WHERE loud(k) IN (SELECT k FROM u)",
    "by_name": "SELECT loud(text => k) AS k FROM t",
    "written": "SELECT plus_one(n) AS n FROM t",
}


def loud(text: str | None) -> str | None:
    return None if text is None else f"{text.upper()}!"


def register(spark: SparkSession) -> None:
    """One in plain Python, one over pandas, one over Arrow, and one in SQL."""
    spark.udf.register("loud", loud, "string")
    spark.udf.register("tripled", pandas_udf(lambda n: n * 3, "bigint"))  # type: ignore[call-overload]
    spark.udf.register("next_of", arrow_udf(lambda n: pc.add(n, 1), "bigint"))  # type: ignore[call-overload]
    spark.sql("CREATE OR REPLACE TEMPORARY FUNCTION plus_one(x BIGINT) RETURNS BIGINT RETURN x + 1")


@pytest.fixture
def pipeline(spark: SparkSession, folder: Path) -> Iterator[Pipeline]:
    with Pipeline(spark, folder) as opened:
        opened.sql(TABLES)
        yield opened


def frame(step: Step, table: str) -> pa.Table:
    columns = ("k", "n" if table == "t" else "m", "_weight")
    kinds = (pa.string(), pa.int64(), pa.int64())
    parts = zip(*step[table], strict=True)
    return pa.table(
        {name: pa.array(part, kind) for name, part, kind in zip(columns, parts, kinds, strict=True)}
    )


def of_spark(spark: SparkSession, query: Callable[[], DataFrame], until: int) -> Counter[tuple[Any, ...]]:
    """What Spark answers after so many steps."""
    for table in ("t", "u"):
        held: Counter[tuple[Any, ...]] = Counter()
        for step in STEPS[:until]:
            for *row, weight in step[table]:
                held[tuple(row)] += weight
        columns = "k STRING, n BIGINT" if table == "t" else "k STRING, m BIGINT"
        spark.createDataFrame(list(held.elements()), columns).createOrReplaceTempView(table)
    try:
        return Counter(tuple(row) for row in query().collect())
    finally:
        for table in ("t", "u"):
            spark.catalog.dropTempView(table)


def test_they_may_stand_wherever_a_value_may(spark: SparkSession, pipeline: Pipeline) -> None:
    register(spark)
    shout = F.udf(lambda text: f"{text}?", "string")
    spread = pandas_udf(lambda n: pd.Series([n]).sum() * 0 + n, "bigint")  # type: ignore[call-overload]
    pipeline.sql(";\n".join(f"CREATE VIEW {name} AS {query}" for name, query in VIEWS.items()))
    frames: dict[str, Callable[[Callable[[str], DataFrame]], DataFrame]] = {
        "of_frame": lambda table: table("t").select(shout("k").alias("k"), spread("n").alias("n")),
        "of_frame_where": lambda table: (
            table("t").where(shout("k") == "a?").groupBy(shout("k").alias("k")).count()
        ),
    }
    for name, made in frames.items():
        pipeline.view(name, made(pipeline.table))
    for until, step in enumerate(STEPS, 1):
        pipeline.apply({table: frame(step, table) for table in step})
        pipeline.step()
        for name, query in VIEWS.items():
            assert rows(pipeline, name) == of_spark(spark, partial(spark.sql, query), until), name
        for name, made in frames.items():
            assert rows(pipeline, name) == of_spark(spark, partial(made, spark.table), until), name


def test_two_bodies_under_one_name_are_two_functions(spark: SparkSession, pipeline: Pipeline) -> None:
    spark.udf.register("marked", lambda text: f"{text}1", "string")
    pipeline.sql("CREATE VIEW one AS SELECT marked(k) AS k FROM t")
    spark.udf.register("marked", lambda text: f"{text}2", "string")
    pipeline.sql("CREATE VIEW other AS SELECT marked(k) AS k FROM t")
    pipeline.insert("t", [{"k": "a", "n": 1}])
    pipeline.step()

    assert (rows(pipeline, "one"), rows(pipeline, "other")) == ({("a1",): 1}, {("a2",): 1})


def close_with_view(spark: SparkSession, pipeline: Pipeline) -> None:
    spark.udf.register("marked", lambda text: f"{text}1", "string")
    pipeline.sql("CREATE VIEW v AS SELECT marked(k) AS k FROM t")
    pipeline.insert("t", [{"k": "a", "n": 1}])
    pipeline.step()
    pipeline.close()


def after_another_opening(spark: SparkSession, folder: Path, change: Step) -> Counter[tuple[Any, ...]]:
    """The view once the pipeline was opened again and has made a step with the change."""
    with Pipeline(spark, folder) as again:
        again.apply({table: frame(change, table) for table in change})
        again.step()
        return rows(again, "v")


def test_the_same_code_goes_on_after_another_opening(
    spark: SparkSession, folder: Path, pipeline: Pipeline
) -> None:
    close_with_view(spark, pipeline)
    spark.udf.register("marked", lambda text: f"{text}1", "string")

    found = after_another_opening(spark, folder, {"t": [("b", 1, 1)]})
    assert found == {("a1",): 1, ("b1",): 1}


def test_other_code_is_not_mixed_with_what_was_computed(
    spark: SparkSession, folder: Path, pipeline: Pipeline
) -> None:
    close_with_view(spark, pipeline)
    spark.udf.register("marked", lambda text: f"{text}2", "string")
    with Pipeline(spark, folder) as again:
        again.insert("t", [{"k": "b", "n": 1}])
        with pytest.raises(
            StepFailed, match=r"view v calls the Python function marked, .* has other code: register"
        ):
            again.step()
        assert rows(again, "v") == {("a1",): 1}

        again.drop("v")
        again.sql("CREATE VIEW v AS SELECT marked(k) AS k FROM t")
        again.step()
        assert rows(again, "v") == {("a2",): 1, ("b2",): 1}


def test_the_code_may_come_back_under_another_name(
    spark: SparkSession, folder: Path, pipeline: Pipeline
) -> None:
    close_with_view(spark, pipeline)
    spark.udf.register("marked", lambda text: f"{text}2", "string")
    spark.udf.register("marked_before", lambda text: f"{text}1", "string")

    assert after_another_opening(spark, folder, {"t": [("a", 1, -1)]}) == Counter()


def picky(text: str) -> str:
    if text == "bad":
        raise ValueError("not this one")
    return text


def wrong(texts: pa.Array) -> pa.Array:
    return pa.array([[1]] * len(texts))


@pytest.mark.parametrize("body", [picky, wrong])
def test_one_that_raises_or_returns_something_else_aborts_the_step_with_its_view(
    spark: SparkSession, pipeline: Pipeline, body: Callable[[Any], Any]
) -> None:
    if body is picky:
        spark.udf.register("picky", body, "string")
    else:
        spark.udf.register("picky", arrow_udf(body, "string"))  # type: ignore[call-overload]
    spark.udf.register("plain", lambda text: text, "string")
    pipeline.sql(
        "CREATE VIEW choosy AS SELECT picky(k) AS k FROM t; CREATE VIEW v AS SELECT plain(k) AS k FROM t"
    )
    pipeline.insert("t", [{"k": "bad", "n": 1}])
    with pytest.raises(StepAborted, match="not this one" if body is picky else "list") as aborted:
        pipeline.step()

    assert "choosy" in aborted.value.view.split(", ")
    assert (aborted.value.view == "choosy") == (body is picky)  # the other raises after the function returned
    assert aborted.value.operator.startswith("sparkselect")
    assert rows(pipeline, "v") == Counter()

"""Aggregates that users write in Python, from SQL and frames, through mistakes and another opening."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql.pandas.functions import pandas_udf

import tidemill
from tidemill.pipeline.errors import NameTaken, Refused, StepAborted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemill.api.pipeline import RuntimeName


class Geometric:
    """The geometric mean of what is above zero, by logarithms: kept as a count for each value, so exact."""

    def zero(self) -> dict[float, int]:
        return {}

    def add(self, state: dict[float, int], x: float | None) -> dict[float, int]:
        if x is not None:
            state[x] = state.get(x, 0) + 1
        return state

    def retract(self, state: dict[float, int], x: float | None) -> dict[float, int]:
        if x is not None:
            state[x] -= 1
        return state

    def merge(self, some: dict[float, int], more: dict[float, int]) -> dict[float, int]:
        return {x: some.get(x, 0) + more.get(x, 0) for x in some | more}

    def finish(self, state: dict[float, int]) -> float | None:
        count = sum(state.values())
        total = math.fsum(math.log(x) * times for x, times in sorted(state.items()) if times)
        return math.exp(total / count) if count else None


class Second:
    """The second largest value: it cannot retract. `beyond` stands for a parameter of an object."""

    def __init__(self, beyond: int = 1) -> None:
        self.beyond = beyond

    def zero(self) -> list[int]:
        return []

    def add(self, state: list[int], x: int | None) -> list[int]:
        return sorted([*state, x], reverse=True)[: self.beyond + 1] if x is not None else state

    def finish(self, state: list[int]) -> int | None:
        return state[self.beyond] if len(state) > self.beyond else None


TABLE = "CREATE TABLE t (k STRING, x BIGINT)"
VIEW = "CREATE VIEW v AS SELECT k, geo(x) g, runner_up(x) s, sum(x) total FROM t GROUP BY k"


def frame(*rows: tuple[str, int | None]) -> pa.Table:
    return pa.table({"k": [k for k, _ in rows], "x": pa.array([x for _, x in rows], pa.int64())})


@pytest.fixture
def pipeline(spark: "SparkSession", folder: Path, runtime: "RuntimeName") -> Iterator[tidemill.Pipeline]:
    with tidemill.Pipeline(spark, folder, runtime=runtime) as opened:
        opened.aggregate("geo", Geometric, returns="double", takes="double")
        opened.aggregate("runner_up", Second(), returns="bigint")
        opened.sql(TABLE)
        yield opened


def rows(pipeline: tidemill.Pipeline, view: str = "v") -> list[tuple[Any, ...]]:
    found = pipeline.view(view).to_arrow().to_pylist()
    return sorted((tuple(row.values()) for row in found), key=repr)


def test_they_follow_insertions_and_deletions(pipeline: tidemill.Pipeline) -> None:
    pipeline.sql(VIEW)
    pipeline.insert("t", frame(("a", 2), ("a", 8), ("a", None), ("b", 5), ("b", 7)))
    pipeline.step()

    assert rows(pipeline) == [("a", pytest.approx(4), 2, 10), ("b", pytest.approx(math.sqrt(35)), 5, 12)]

    pipeline.delete("t", frame(("a", 8), ("b", 5), ("b", 7)))
    pipeline.insert("t", frame(("a", 32)))
    pipeline.step()

    assert rows(pipeline) == [("a", pytest.approx(8), 2, 34)]


def test_they_serve_frames_and_plain_spark(pipeline: tidemill.Pipeline, spark: "SparkSession") -> None:
    tenth = pipeline.aggregate("tenth", Second(9), returns="bigint")
    pipeline.view("v", pipeline.table("t").groupBy("k").agg(tenth("x").alias("x")))
    pipeline.insert("t", frame(*(("a", x) for x in range(20))))
    pipeline.step()

    assert rows(pipeline) == [("a", 10)]
    assert spark.sql("SELECT tenth(id) x FROM range(20)").toArrow().to_pylist() == [{"x": 10}]


def test_a_global_one_has_no_row_before_there_are_rows(pipeline: tidemill.Pipeline) -> None:
    """As in Spark, which calls no function for no rows."""
    pipeline.sql("CREATE VIEW v AS SELECT geo(x) g FROM t")
    pipeline.step()
    before = rows(pipeline)
    pipeline.insert("t", frame(("a", 3)))
    pipeline.step()
    then = rows(pipeline)
    pipeline.delete("t", frame(("a", 3)))
    pipeline.step()

    assert (before, then, rows(pipeline)) == ([], [(pytest.approx(3),)], [])


def test_a_view_goes_on_with_its_own_code(
    spark: "SparkSession", folder: Path, runtime: "RuntimeName", pipeline: tidemill.Pipeline
) -> None:
    pipeline.sql(VIEW)
    pipeline.insert("t", frame(("a", 2), ("a", 8)))
    pipeline.step()
    pipeline.aggregate("runner_up", Second(0), returns="bigint")
    pipeline.close()
    with tidemill.Pipeline(spark, folder, runtime=runtime) as again:
        again.insert("t", frame(("a", 4)))
        again.step()
        old = rows(again)
        again.sql("CREATE VIEW w AS SELECT k, runner_up(x) s FROM t GROUP BY k")
        again.step()

        assert old == [("a", pytest.approx(4), 4, 14)]
        assert rows(again, "w") == [("a", 8)]


class Picky(Second):
    def add(self, state: list[int], x: int | None) -> list[int]:
        if x == 13:
            raise ValueError("no 13, please")
        return super().add(state, x)


def test_one_that_raises_aborts_the_step_until_the_append_is_gone(pipeline: tidemill.Pipeline) -> None:
    pipeline.aggregate("picky", Picky, returns="bigint")
    pipeline.sql("CREATE VIEW v AS SELECT k, picky(x) s FROM t GROUP BY k")
    pipeline.insert("t", frame(("a", 2), ("a", 8)))
    pipeline.step()
    bad = pipeline.insert("t", frame(("a", 13)))

    with pytest.raises(
        StepAborted, match=r"aggregate picky, add\(13,\): ValueError: no 13, please"
    ) as aborted:
        pipeline.step()
    assert aborted.value.view == "v"
    assert aborted.value.operator.startswith("aggregate")
    assert rows(pipeline) == [("a", 2)]

    pipeline.discard(bad.offset)
    pipeline.insert("t", frame(("a", 9)))
    pipeline.step()

    assert rows(pipeline) == [("a", 8)]


class Words(Second):
    def finish(self, state: list[int]) -> Any:
        return "many" if len(state) > 1 else len(state)


def test_one_that_returns_another_type_aborts_until_it_is_replaced(pipeline: tidemill.Pipeline) -> None:
    pipeline.aggregate("words", Words, returns="bigint")
    pipeline.sql("CREATE VIEW v AS SELECT k, words(x) s FROM t GROUP BY k")
    pipeline.insert("t", frame(("a", 2)))
    pipeline.step()
    pipeline.insert("t", frame(("a", 3)))

    with pytest.raises(StepAborted, match="aggregate words returned 'many', which is no int64"):
        pipeline.step()
    assert rows(pipeline) == [("a", 1)]

    pipeline.drop("v")
    pipeline.aggregate("words", Second, returns="bigint")
    pipeline.sql("CREATE VIEW v AS SELECT k, words(x) s FROM t GROUP BY k")
    pipeline.step()

    assert rows(pipeline) == [("a", 2)]


def test_functions_over_pandas_that_were_registered_in_spark_work(
    spark: "SparkSession", pipeline: tidemill.Pipeline
) -> None:
    def spread(x: pd.Series, k: pd.Series) -> float:
        return float(x.max() - x.min()) + int(k.nunique())

    spark.udf.register("spread", pandas_udf(spread, "double"))  # type: ignore[call-overload]
    pipeline.sql("CREATE VIEW v AS SELECT k, spread(x, k) s FROM t GROUP BY k")
    pipeline.insert("t", frame(("a", 2), ("a", 8), ("b", None), ("b", 1)))
    pipeline.step()
    pipeline.delete("t", frame(("a", 8)))
    pipeline.step()

    assert rows(pipeline) == [("a", 1.0), ("b", 1.0)]


class Incomplete:
    def zero(self) -> int:
        return 0


class Unkept(Geometric):
    def zero(self) -> Any:
        return object()


@pytest.mark.parametrize("runtime", ["inline"], indirect=True)
def test_what_cannot_be_an_aggregate_is_refused(pipeline: tidemill.Pipeline) -> None:
    with pytest.raises(Refused, match="aggregate a: Incomplete has no add, finish"):
        pipeline.aggregate("a", Incomplete, returns="int")
    with pytest.raises(Refused, match="what is kept of a group: TypeError"):
        pipeline.aggregate("a", Unkept, returns="int")
    with pytest.raises(Refused, match="'nothing' is no type"):
        pipeline.aggregate("a", Second, returns="nothing")
    with pytest.raises(Refused, match="its name must be a plain word"):
        pipeline.aggregate("a b", Second, returns="int")
    with pytest.raises(NameTaken, match="Spark has a function of that name"):
        pipeline.aggregate("sum", Second, returns="int")
    with pytest.raises(Refused, match=r"line 1, column 28: view v: geo takes \(double\): cast t.k, which is"):
        pipeline.sql("CREATE VIEW v AS SELECT k, geo(k) g FROM t GROUP BY k")
    with pytest.raises(Refused, match=r"geo takes \(double\), not 2 arguments"):
        pipeline.sql("CREATE VIEW v AS SELECT k, geo(x, x) g FROM t GROUP BY k")

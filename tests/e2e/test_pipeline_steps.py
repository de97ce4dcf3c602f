"""Appends and steps of `tidemill.Pipeline`: what is refused, what aborts, and how it goes on."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from e2e.auctions import AUCTIONS, BIDS, answers, expected, rows
from tidemill.api.pipeline import Pipeline, RuntimeName
from tidemill.pipeline.errors import BadInput, NoSuchName, SequenceGap, StepAborted

pytestmark = pytest.mark.timeout(180)


# Appends


def test_rows_come_from_spark_pandas_arrow_and_lists_alike(spark: SparkSession, folder: Path) -> None:
    columns = "i INT, s STRING, d DECIMAL(6,2), t TIMESTAMP, a ARRAY<INT>"
    frame = spark.sql(
        """SELECT * FROM VALUES (1, 'a', 1.50BD, TIMESTAMP'2026-01-02 03:04:05Z', array(1, 2)),
        (2, NULL, NULL, NULL, NULL) AS x(i, s, d, t, a)"""
    ).selectExpr("i", "s", "CAST(d AS DECIMAL(6,2)) AS d", "t", "a")
    arrow = frame.toArrow().combine_chunks()
    with Pipeline(spark, folder, runtime="inline") as p:
        for name, rows_in in {
            "of_spark": frame,
            "of_arrow": arrow,
            "of_batch": arrow.to_batches()[0],
            "of_pandas": arrow.to_pandas(),
            "of_list": arrow.to_pylist(),
        }.items():
            p.sql(f"CREATE TABLE {name} ({columns})")
            p.insert(name, rows_in)
        p.step()
        found = {
            name: sorted(p.view(name).to_arrow().to_pylist(), key=lambda row: row["i"]) for name in p.tables
        }
        back = p.view("of_spark").to_spark()

        assert found == dict.fromkeys(found, found["of_list"])
        assert len(found) == 5
        assert found["of_list"] == arrow.to_pylist()
        assert back.schema.simpleString() == frame.schema.simpleString()
        assert sorted(map(repr, back.collect())) == sorted(map(repr, frame.collect()))


def test_a_repeated_append_counts_once(pipeline: Pipeline) -> None:
    first = pipeline.insert("bids", BIDS, producer="feed", sequence=1)
    again = pipeline.insert("bids", BIDS, producer="feed", sequence=1)
    with pytest.raises(SequenceGap):
        pipeline.insert("bids", BIDS, producer="feed", sequence=3)
    record = pipeline.step()
    late = pipeline.insert("bids", BIDS, producer="feed", sequence=1)

    assert (again.offset, again.repeated, late.offset, late.repeated) == (
        first.offset,
        True,
        first.offset,
        True,
    )
    assert record.rows_in == len(BIDS)
    assert pipeline.step().rows_in == 0
    assert rows(pipeline, "best") == expected(BIDS)["best"]


def test_a_repeat_is_known_after_a_reopen(spark: SparkSession, folder: Path, pipeline: Pipeline) -> None:
    first = pipeline.insert("bids", BIDS, producer="feed", sequence=1)
    pipeline.step()
    pipeline.close()
    with Pipeline(spark, folder, runtime="inline") as p:
        again = p.insert("bids", BIDS, producer="feed", sequence=1)
        p.step()

        assert (again.offset, again.repeated) == (first.offset, True)
        assert rows(p, "best") == expected(BIDS)["best"]


@pytest.mark.parametrize(
    ("table", "frame", "reason"),
    [
        ("bids", [{"auction": 1}], "price is missing"),
        ("bids", [{"auction": 1, "price": 2, "colour": 3}], "no column colour"),
        ("bids", [{"auction": 1, "price": "much"}], "price|much"),
        ("bids", pa.table({"auction": [1], "price": ["7"]}), "price is bigint"),
        ("bids", pd.DataFrame({"auction": [1.5], "price": [1]}), "bids"),
        ("auctions", [{"id": None, "category": "x"}], "NULL"),
        ("bids", 7, "not as int"),
    ],
)
def test_rows_that_do_not_fit_are_refused_and_nothing_is_appended(
    pipeline: Pipeline, table: str, frame: Any, reason: str
) -> None:
    with pytest.raises(BadInput, match=reason):
        pipeline.insert(table, frame)
    assert pipeline.pending() == []


def test_rows_of_spark_that_do_not_fit_are_refused(spark: SparkSession, pipeline: Pipeline) -> None:
    with pytest.raises(BadInput, match="price is bigint"):
        pipeline.insert("bids", spark.sql("SELECT 1L AS auction, 'x' AS price"))
    with pytest.raises(BadInput, match="no column colour"):
        pipeline.insert("bids", spark.sql("SELECT 1L AS auction, 2L AS price, 3 AS colour"))
    assert pipeline.pending() == []


def test_an_append_to_several_tables_is_one(pipeline: Pipeline) -> None:
    pipeline.apply(
        {
            "auctions": [{**row, "_weight": 1} for row in AUCTIONS],
            "bids": [{**row, "_weight": 2} for row in BIDS],
        }
    )
    [waiting] = pipeline.pending()
    pipeline.step()

    assert sorted(waiting.entry.tables) == ["auctions", "bids"]
    assert answers(pipeline) == expected(BIDS + BIDS)


# Steps


def test_steps_are_numbered_also_the_empty_ones(
    spark: SparkSession, folder: Path, pipeline: Pipeline
) -> None:
    numbers = [pipeline.step().number, pipeline.step().number]
    pipeline.insert("bids", BIDS)
    full = pipeline.step()
    read_at = pipeline.view("best").step
    pipeline.close()
    with Pipeline(spark, folder, runtime="inline") as p:
        numbers.append(p.step().number)

    assert numbers == [0, 1, 3]
    assert (full.number, full.rows_in, read_at) == (2, len(BIDS), 2)


def test_changes_are_those_after_the_step_and_until_now(pipeline: Pipeline) -> None:
    pipeline.insert("bids", [{"auction": 1, "price": 5}])
    first = pipeline.step().number
    pipeline.insert("bids", [{"auction": 1, "price": 9}])
    pipeline.step()
    pipeline.delete("bids", [{"auction": 1, "price": 9}])
    last = pipeline.step().number

    assert list(pipeline.changes("best", since=first)) == []
    assert list(pipeline.changes("best", since=last)) == []
    assert list(pipeline.changes("best", since=last - 1)) != []
    assert list(pipeline.changes("best", since=first - 1)) == [{"auction": 1, "m": 5, "n": 1, "_weight": 1}]


@pytest.fixture
def ratios(spark: SparkSession, folder: Path, runtime: RuntimeName) -> Iterator[Pipeline]:
    """A pipeline in which a zero aborts the step; its first step is done."""
    with Pipeline(spark, folder, runtime=runtime) as p:
        p.sql("CREATE TABLE x (a INT, b INT); CREATE VIEW ratio AS SELECT a, a / b AS r FROM x")
        p.sql("CREATE VIEW total AS SELECT count(*) AS n, sum(a) AS a FROM x")
        p.insert("x", [{"a": 4, "b": 2}])
        p.step()
        yield p


def test_a_step_that_divides_by_zero_is_aborted_and_the_pipeline_goes_on(ratios: Pipeline) -> None:
    good = ratios.insert("x", [{"a": 6, "b": 3}])
    bad = ratios.insert("x", [{"a": 1, "b": 0}])
    after = ratios.insert("x", [{"a": 8, "b": 2}])
    with pytest.raises(StepAborted, match="DIVIDE_BY_ZERO") as caught:
        ratios.step()
    as_before = rows(ratios, "ratio"), rows(ratios, "total")
    blamed = {item.entry.offset: item.failure for item in ratios.pending()}

    assert caught.value.view == "ratio"
    assert caught.value.step == 1
    assert caught.value.offsets == (good.offset, bad.offset, after.offset)
    assert as_before == (Counter({(4, 2.0): 1}), Counter({(1, 4): 1}))
    assert sorted(blamed) == [good.offset, bad.offset, after.offset]
    assert all(failure and "DIVIDE_BY_ZERO" in failure.message for failure in blamed.values())

    # Now one at a time: the good one passes, the bad one is known.
    assert ratios.step().number == 2
    with pytest.raises(StepAborted) as again:
        ratios.step()
    assert again.value.offsets == (bad.offset,)
    ratios.discard(bad.offset)
    ratios.step()
    assert ratios.pending() == []
    assert rows(ratios, "ratio") == Counter({(4, 2.0): 1, (6, 2.0): 1, (8, 4.0): 1})
    assert rows(ratios, "total") == Counter({(3, 18): 1})


def test_what_was_aborted_is_remembered_by_the_folder(
    spark: SparkSession, folder: Path, ratios: Pipeline
) -> None:
    bad = ratios.insert("x", [{"a": 1, "b": 0}])
    with pytest.raises(StepAborted):
        ratios.step()
    ratios.close()
    with Pipeline(spark, folder, runtime="inline") as p:
        [waiting] = p.pending()
        p.discard(bad.offset)
        p.insert("x", [{"a": 9, "b": 3}])
        p.step()

        assert waiting.failure
        assert waiting.entry.offset == bad.offset
        assert rows(p, "ratio") == Counter({(4, 2.0): 1, (9, 3.0): 1})


def test_the_cause_of_an_abort_can_be_removed(ratios: Pipeline) -> None:
    """Within one step nothing divides by a zero that is taken back."""
    ratios.apply({"x": [{"a": 1, "b": 0, "_weight": 1}, {"a": 1, "b": 0, "_weight": -1}]})
    ratios.step()
    ratios.insert("x", [{"a": 1, "b": 0}])
    with pytest.raises(StepAborted):
        ratios.step()
    ratios.drop("ratio")
    ratios.step()

    assert rows(ratios, "total") == Counter({(2, 5): 1})


def test_a_delete_of_what_is_not_there_aborts(pipeline: Pipeline) -> None:
    pipeline.insert("auctions", AUCTIONS)
    pipeline.insert("bids", BIDS)
    pipeline.step()
    before = answers(pipeline)
    for table, gone in {"bids": {"auction": 77, "price": 1}, "auctions": {"id": 77}}.items():
        receipt = pipeline.delete(table, [gone])
        with pytest.raises(StepAborted, match=rf"ROW_NOT_FOUND.*{table}.*77"):
            pipeline.step()

        assert answers(pipeline) == before
        pipeline.discard(receipt.offset)
    with pytest.raises(NoSuchName, match="not pending"):
        pipeline.discard(0)
    pipeline.delete("auctions", [{"id": 1}])
    pipeline.step()

    assert rows(pipeline, "auctions") == Counter({(2, "books"): 1, (3, "art"): 1})


def test_a_user_function_that_raises_aborts_the_step_with_its_words(
    spark: SparkSession, folder: Path
) -> None:
    def picky(value: int | None) -> int | None:
        if value == 13:
            raise ValueError("thirteen is not served here")
        return value

    with Pipeline(spark, folder) as p:
        p.sql("CREATE TABLE x (a INT); CREATE VIEW n AS SELECT count(*) AS n FROM x")
        spark.udf.register("picky", picky, "int")
        p.sql("CREATE VIEW served AS SELECT picky(a) AS a FROM x")
        p.sql("CREATE VIEW counted AS SELECT a % 2 AS odd, max(md5(string(a))) AS m FROM x GROUP BY a % 2")
        p.insert("x", [{"a": 1}, {"a": 2}])
        p.step()
        bad = p.insert("x", [{"a": 13}])
        with pytest.raises(StepAborted, match="thirteen is not served here"):
            p.step()

        assert rows(p, "served") == Counter({(1,): 1, (2,): 1})
        p.discard(bad.offset)
        p.insert("x", [{"a": 3}])
        p.step()
        assert rows(p, "served") == Counter({(1,): 1, (2,): 1, (3,): 1})
        assert rows(p, "n") == Counter({(3,): 1})


def test_a_user_function_sees_the_rows_of_its_view_only(spark: SparkSession, folder: Path) -> None:
    with Pipeline(spark, folder) as p:
        p.sql("CREATE TABLE x (a INT)")
        spark.udf.register("following", lambda value: value + 1, "int")
        p.sql("CREATE VIEW v AS SELECT following(a) AS a FROM x")
        p.insert("x", [{"a": 1}, {"a": 2}])
        p.step()

        assert rows(p, "v") == Counter({(2,): 1, (3,): 1})


def test_an_append_that_fails_is_found_though_its_view_was_never_filled(
    spark: SparkSession, folder: Path
) -> None:
    with Pipeline(spark, folder, runtime="inline") as p:
        p.sql("CREATE TABLE t (k BIGINT, n BIGINT); CREATE VIEW v AS SELECT 100 / n AS q FROM t")
        for n in (1, 0, 2):
            p.insert("t", [{"k": 1, "n": n}])

        outcomes = [attempt(p) for _ in range(5)]

        assert outcomes == [False, True, False, True, False]  # all, none to fill, all, the first, the second
        assert [one.offset for one in p.pending() if one.failure] == [1, 2]
        p.discard(1)
        assert attempt(p)
        assert rows(p, "v") == {(100.0,): 1, (50.0,): 1}


def attempt(p: Pipeline) -> bool:
    try:
        p.step()
    except StepAborted:
        return False
    return True


def test_what_a_dropped_view_kept_is_gone_when_the_pipeline_is_next_closed(
    spark: SparkSession, folder: Path
) -> None:
    def stored() -> int:
        return sum(file.stat().st_size for file in (folder / "blobs").rglob("*") if file.is_file())

    with Pipeline(spark, folder, runtime="inline") as p:
        p.sql("CREATE TABLE t (k BIGINT); CREATE VIEW v AS SELECT k, k + 1 AS n FROM t")
        p.insert("t", [{"k": k} for k in range(5000)])
        p.step()
        before = stored()
        p.drop("v")
        p.step()
        p.checkpoint()
        p.step()
        p.checkpoint()
    with Pipeline(spark, folder, runtime="inline") as p:
        p.step()

    assert stored() < before - 5000 * 16

"""What people do by mistake: each is told plainly, and nothing is harmed."""

import datetime as dt
from collections import Counter
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from e2e.auctions import rows
from tidemill import Pipeline
from tidemill.api.folder import PipelineFolder
from tidemill.pipeline.errors import (
    BadInput,
    ForeignState,
    NoSuchName,
    Refused,
    StepAborted,
    StepFailed,
    WrongSettings,
)
from tidemill.pipeline.log.head import HEADS
from tidemill.pipeline.log.root import ROOTS
from tidemill.store import Collection


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "pipeline"


def test_settings_changed_on_the_open_session_make_no_view(spark: SparkSession, folder: Path) -> None:
    with Pipeline(spark, folder, runtime="inline") as p:
        p.sql("CREATE TABLE t (a INT)")
        before = spark.conf.get("spark.sql.ansi.enabled")
        spark.conf.set("spark.sql.ansi.enabled", "false" if before == "true" else "true")
        try:
            with pytest.raises(WrongSettings, match=r"spark\.sql\.ansi\.enabled was changed"):
                p.sql("CREATE VIEW v AS SELECT a + 1 AS a FROM t")
        finally:
            spark.conf.set("spark.sql.ansi.enabled", before or "true")
        p.sql("CREATE VIEW v AS SELECT a + 1 AS a FROM t")

        assert p.views == ("v",)


def test_a_view_that_is_made_again_has_none_of_the_changes_of_the_old_one(
    spark: SparkSession, folder: Path
) -> None:
    with Pipeline(spark, folder, runtime="inline") as p:
        p.sql("CREATE TABLE t (a INT); CREATE VIEW v AS SELECT a FROM t")
        p.insert("t", [{"a": 1}])
        p.step()
        p.drop("v")
        p.sql("CREATE VIEW v AS SELECT a * 10 AS b FROM t")
        p.step()

        assert p.changes("v", since=-1).to_arrow().to_pylist() == [{"b": 10, "_weight": 1}]


def test_a_table_has_no_changes_to_read(spark: SparkSession, folder: Path) -> None:
    with Pipeline(spark, folder, runtime="inline") as p:
        p.sql("CREATE TABLE t (a INT)")

        with pytest.raises(NoSuchName, match="t is a table, and changes are kept of views"):
            p.changes("t", since=0)


def test_a_view_is_not_made_of_text(spark: SparkSession, folder: Path) -> None:
    with Pipeline(spark, folder, runtime="inline") as p, pytest.raises(Refused, match=r"goes to sql\(\)"):
        p.view("v", "SELECT 1")  # type: ignore[call-overload]


def test_a_number_without_a_producer_is_refused(spark: SparkSession, folder: Path) -> None:
    with Pipeline(spark, folder, runtime="inline") as p:
        p.sql("CREATE TABLE t (a INT)")

        with pytest.raises(BadInput, match="go together"):
            p.insert("t", [{"a": 1}], sequence=1)


@pytest.mark.parametrize("workers", [0, -1, 65])
def test_a_number_of_pipeline_workers_that_cannot_be_is_refused(
    spark: SparkSession, folder: Path, workers: int
) -> None:
    with pytest.raises(Refused, match="at least 1, at most 64"):
        Pipeline(spark, folder, workers=workers)


def test_an_address_is_not_a_folder(spark: SparkSession) -> None:
    with pytest.raises(ForeignState, match="a path of this machine"):
        Pipeline(spark, "s3://bucket/pipeline")


def test_blobs_of_another_pipeline_are_not_taken(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("one", "other"):
        with Pipeline(spark, tmp_path / name, runtime="inline") as p:
            p.sql("CREATE TABLE t (a INT)")
            p.step()
    (tmp_path / "one/blobs").rename(tmp_path / "away")
    (tmp_path / "other/blobs").rename(tmp_path / "one/blobs")

    with pytest.raises(ForeignState, match="not the files of this pipeline"):
        Pipeline(spark, tmp_path / "one", runtime="inline")


@pytest.mark.parametrize("collection", [HEADS, ROOTS], ids=lambda collection: collection.name)
def test_a_folder_of_another_format_is_refused(
    spark: SparkSession, folder: Path, collection: Collection
) -> None:
    with Pipeline(spark, folder, runtime="inline") as p:
        p.sql("CREATE TABLE t (a INT)")
        p.insert("t", [{"a": 1}])
        p.step()
    opened = PipelineFolder(folder)
    store, key = opened.place.store, opened.place.key
    found = opened.place.run(store.get(collection, key))
    opened.place.run(store.replace(collection, key, {**found.body, "format": 99}, expect=found.revision))
    opened.close()

    with pytest.raises(ForeignState, match="format 99, and this release reads 1"):
        Pipeline(spark, folder, runtime="inline")


def test_nothing_to_insert_is_an_append_of_nothing(spark: SparkSession, folder: Path) -> None:
    with Pipeline(spark, folder, runtime="inline") as p:
        p.sql("CREATE TABLE t (a INT, b STRING); CREATE VIEW v AS SELECT a FROM t")
        p.insert("t", [])
        p.step()

        assert rows(p, "v") == Counter()


def test_an_append_to_a_dropped_table_is_not_the_next_ones_of_its_name(
    spark: SparkSession, folder: Path
) -> None:
    with Pipeline(spark, folder, runtime="inline") as p:
        p.sql("CREATE TABLE t (a INT)")
        p.insert("t", [{"a": 111}])
        p.sql("DROP TABLE t; CREATE TABLE t (b STRING)")
        p.insert("t", [{"b": "new"}])
        p.step()

        assert rows(p, "t") == Counter({("new",): 1})


def test_a_new_view_that_cannot_be_filled_blames_no_append(spark: SparkSession, folder: Path) -> None:
    with Pipeline(spark, folder, runtime="inline") as p:
        p.sql("CREATE TABLE t (id INT PRIMARY KEY, x INT)")
        p.insert("t", [{"id": 1, "x": 0}])
        p.step()
        p.sql("CREATE VIEW v AS SELECT id, 10 div x AS q FROM t")
        p.insert("t", [{"id": 3, "x": 4}])
        with pytest.raises(StepAborted, match=r"view v.*could not be filled"):
            p.step()
        assert [waiting.failure for waiting in p.pending()] == [None]
        p.insert("t", [{"id": 1, "x": 5}])
        p.step()

        assert rows(p, "v") == Counter({(3, 2): 1, (1, 2): 1})


@pytest.mark.parametrize("kind", ["list", "pandas", "arrow", "spark"])
def test_a_time_without_a_zone_is_meant_in_the_sessions(spark: SparkSession, folder: Path, kind: str) -> None:
    moment = dt.datetime(2024, 1, 1, 12)
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        frames = {
            "list": [{"at": moment}],
            "pandas": pd.DataFrame({"at": [pd.Timestamp(moment)]}),
            "arrow": pa.table({"at": [moment]}),
            "spark": spark.createDataFrame(pd.DataFrame({"at": [pd.Timestamp(moment)]})),
        }
        with Pipeline(spark, folder, runtime="inline") as p:
            p.sql("CREATE TABLE t (at TIMESTAMP)")
            p.insert("t", frames[kind])
            p.step()
            [row] = list(p.view("t"))
    finally:
        spark.conf.set("spark.sql.session.timeZone", before or "UTC")

    assert row["at"] == dt.datetime(2024, 1, 1, 3, tzinfo=dt.UTC)


def test_a_function_that_is_not_registered_again_is_named(spark: SparkSession, folder: Path) -> None:
    spark.udf.register("following", lambda value: value + 1, "int")
    with Pipeline(spark, folder) as p:
        p.sql("CREATE TABLE t (a INT); CREATE VIEW v AS SELECT following(a) AS a FROM t")
        p.insert("t", [{"a": 1}])
        p.step()
    spark.sql("DROP TEMPORARY FUNCTION following")
    with Pipeline(spark, folder) as p:
        with pytest.raises(StepFailed, match="following"):
            p.step()
        spark.udf.register("following", lambda value: value + 1, "int")
        p.step()

        assert rows(p, "v") == Counter({(2,): 1})


def test_a_name_may_have_any_characters(spark: SparkSession, folder: Path) -> None:
    with Pipeline(spark, folder, runtime="inline") as p:
        p.sql("CREATE TABLE `a``b` (`größe` INT); CREATE VIEW `select` AS SELECT `größe` FROM `a``b`")
        p.insert("a`b", [{"größe": 3}])
        p.step()

        assert rows(p, "select") == Counter({(3,): 1})
        p.drop("select")
        p.drop("a`b")
        assert (p.tables, p.views) == ((), ())


def test_a_column_of_times_may_be_all_null(spark: SparkSession, folder: Path) -> None:
    with Pipeline(spark, folder, runtime="inline") as p:
        p.sql("CREATE TABLE t (k BIGINT, at TIMESTAMP); CREATE VIEW v AS SELECT * FROM t")
        p.insert("t", [{"k": 1, "at": None}])
        p.step()

        assert rows(p, "v") == {(1, None): 1}


def test_what_spark_calls_an_illegal_argument_is_refused_with_the_view(
    spark: SparkSession, folder: Path
) -> None:
    with Pipeline(spark, folder, runtime="inline") as p:
        p.sql("CREATE TABLE t (at TIMESTAMP)")

        with pytest.raises(Refused, match=r"view v: .*month"):
            p.sql("CREATE VIEW v AS SELECT window(at, '1 month') AS w FROM t")


def test_a_frame_over_tables_is_not_run_as_if_they_were_empty(spark: SparkSession, folder: Path) -> None:
    with Pipeline(spark, folder, runtime="inline") as p:
        p.sql("CREATE TABLE t (k INT, s STRING, n INT)")
        p.insert("t", [{"k": 1, "s": "a", "n": 2}])

        with pytest.raises(PySparkException, match="a pivot must be told its values"):
            p.table("t").groupBy("k").pivot("s")
        p.view("v", p.table("t").groupBy("k").pivot("s", ["a", "b"]).sum("n"))
        p.step()

        assert rows(p, "v") == {(1, 2, None): 1}

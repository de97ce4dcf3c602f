"""Which frames are read without Spark, how the reading is shared out, and what is left to Spark."""

import datetime as dt
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tidemill.api import scans
from tidemill.api.scans import parquet_scan
from tidemill.pipeline.errors import AppendFailed

pytestmark = pytest.mark.timeout(180)

PLAIN = pa.table({"a": [1, 2, None], "b": ["x", None, "z"]})
DAYS = pa.table({"d": [dt.date(2020, 1, 1)]})

Reading = Callable[[SparkSession, str], DataFrame]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    pq.write_table(PLAIN, tmp_path / "plain.parquet")
    return tmp_path / "plain.parquet"


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, before or "")


def read(scan: scans.Scan) -> pa.Table:
    numbers = pa.RecordBatch.from_pydict({"id": list(range(len(scan.tasks)))})
    return pa.Table.from_batches(scan._read([numbers]))


@pytest.mark.parametrize(
    ("reading", "columns"),
    [
        (lambda spark, path: spark.read.parquet(path), ["a", "b"]),
        (lambda spark, path: spark.read.format("parquet").load(path), ["a", "b"]),
        (lambda spark, path: spark.read.parquet(path).select("b", "a"), ["b", "a"]),
        (lambda spark, path: spark.read.parquet(path).select("b"), ["b"]),
        (lambda spark, path: spark.read.parquet(path).alias("q").select("q.*"), ["a", "b"]),
        (lambda spark, path: spark.read.schema("b string").parquet(path), ["b"]),
        (lambda spark, path: spark.read.schema("b string, a bigint").parquet(path), ["b", "a"]),
    ],
)
def test_the_columns_of_files_are_read_as_they_are(
    spark: SparkSession, path: Path, reading: Reading, columns: list[str]
) -> None:
    scan = parquet_scan(reading(spark, str(path)))

    assert scan is not None
    assert read(scan).equals(PLAIN.select(columns))


@pytest.mark.parametrize(
    "reading",
    [
        lambda spark, path: spark.read.parquet(path).where("a > 1"),
        lambda spark, path: spark.read.parquet(path).limit(1),
        lambda spark, path: spark.read.parquet(path).distinct(),
        lambda spark, path: spark.read.parquet(path).union(spark.read.parquet(path)),
        lambda spark, path: spark.read.parquet(path).withColumnRenamed("a", "c"),
        lambda spark, path: spark.read.parquet(path).select(f.col("a") + 1),
        lambda spark, path: spark.read.parquet(path).select("A"),
        lambda spark, path: spark.read.parquet(path).select("a", "a"),
        lambda spark, path: spark.read.parquet(path).select(),
        lambda spark, path: spark.read.parquet(path).select("a", "_metadata.file_name"),
        lambda spark, path: spark.read.schema("a int, b string").parquet(path),
        lambda spark, path: spark.read.schema("a bigint, c string").parquet(path),
        lambda spark, path: spark.read.option("mergeSchema", True).parquet(path),
        lambda spark, path: spark.read.option("datetimeRebaseMode", "LEGACY").parquet(path),
        lambda spark, path: spark.read.text(path),
        lambda spark, path: spark.range(3),
    ],
)
def test_what_computes_or_changes_meaning_is_left_to_spark(
    spark: SparkSession, path: Path, reading: Reading
) -> None:
    assert parquet_scan(reading(spark, str(path))) is None


def test_a_cached_frame_is_left_to_spark(spark: SparkSession, path: Path) -> None:
    frame = spark.read.parquet(str(path))
    assert parquet_scan(frame) is not None
    frame.cache()
    try:
        assert parquet_scan(frame) is None
    finally:
        frame.unpersist()


def test_partitions_are_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    for part in ("1", "2"):
        (tmp_path / f"p={part}").mkdir()
        pq.write_table(PLAIN, tmp_path / f"p={part}" / "x.parquet")

    assert parquet_scan(spark.read.parquet(str(tmp_path))) is None


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1], pa.uint32()),
        pa.array([[1]], pa.list_(pa.int64())),
        pa.array([{"x": 1}], pa.struct([("x", pa.int64())])),
        pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
        pa.array([b"1234"], pa.binary(4)),
        pa.array(["x"]).dictionary_encode(),
        pa.array([5], pa.duration("us")),
    ],
)
def test_types_that_arrow_and_spark_may_see_differently_are_left_to_spark(
    spark: SparkSession, tmp_path: Path, column: pa.Array
) -> None:
    pq.write_table(pa.table({"a": column}), tmp_path / "x.parquet")

    assert parquet_scan(spark.read.parquet(str(tmp_path))) is None


def test_files_that_differ_are_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    for number, other in enumerate(
        (
            pa.table({"a": [1]}),
            pa.table({"a": pa.array([1], pa.int32()), "b": ["x"]}),
            pa.table({"a": [1], "B": ["x"]}),
            pa.table({"a": [1], "b": ["x"], "B": ["x"]}),
            pa.table({"a": [1], "b": pa.array(["x"], pa.large_string())}),
        )
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        pq.write_table(PLAIN, folder / "0.parquet")
        pq.write_table(other, folder / "1.parquet")

        assert parquet_scan(spark.read.schema("a bigint, b string").parquet(str(folder))) is None


def test_timestamps_of_96_bits_are_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    rows = pa.table({"t": pa.array([0], pa.timestamp("us", "UTC"))})
    pq.write_table(rows, tmp_path / "x.parquet", use_deprecated_int96_timestamps=True)

    assert parquet_scan(spark.read.parquet(str(tmp_path))) is None


def test_days_are_read_when_no_calendar_is_in_doubt(spark: SparkSession, tmp_path: Path) -> None:
    rebase = "spark.sql.parquet.datetimeRebaseModeIn"
    pq.write_table(DAYS, tmp_path / "other.parquet")
    frame = spark.sql("SELECT DATE '1500-01-01' AS d").coalesce(1)
    with setting(spark, rebase + "Write", "CORRECTED"):
        frame.write.parquet(str(tmp_path / "new"))
    with setting(spark, rebase + "Write", "LEGACY"):
        frame.write.parquet(str(tmp_path / "old"))
    names = ("other.parquet", "new", "old")

    def found(mode: str) -> list[bool]:
        with setting(spark, rebase + "Read", mode):
            return [parquet_scan(spark.read.parquet(str(tmp_path / name))) is not None for name in names]

    assert found("CORRECTED") == [True, True, False]
    assert found("EXCEPTION") == [False, True, False]
    assert found("LEGACY") == [False, True, False]


@pytest.mark.parametrize(
    "name",
    [
        "spark.sql.files.ignoreCorruptFiles",
        "spark.sql.files.ignoreMissingFiles",
        "spark.sql.parquet.fieldId.read.enabled",
    ],
)
def test_settings_that_change_what_spark_reads_are_heeded(spark: SparkSession, path: Path, name: str) -> None:
    with setting(spark, name, "true"):
        assert parquet_scan(spark.read.parquet(str(path))) is None


def test_row_groups_are_shared_out_evenly(spark: SparkSession, tmp_path: Path) -> None:
    rows = pa.table({"a": list(range(1_000))})
    pq.write_table(rows, tmp_path / "large.parquet", row_group_size=100)
    for number in range(10):
        pq.write_table(rows.slice(0, 30), tmp_path / f"small {number}%.parquet")
    pq.write_table(rows.slice(0, 0), tmp_path / "empty.parquet")
    (tmp_path / "nothing.parquet").touch()

    scan = parquet_scan(spark.read.schema("a bigint").parquet(str(tmp_path)))
    assert scan is not None
    tasks = [
        sum(pq.ParquetFile(part.path).metadata.row_group(at).num_rows for part in task for at in part.groups)
        for task in scan.tasks
    ]

    assert len(tasks) == spark.sparkContext.defaultParallelism
    assert sum(tasks) == 1_300
    assert max(tasks) - min(tasks) <= 100
    assert sorted(read(scan)["a"].to_pylist()) == sorted([*range(1_000), *list(range(30)) * 10])


def test_many_rows_make_many_tasks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scans, "TASK_ROWS", 200)
    pq.write_table(pa.table({"a": list(range(1_000))}), tmp_path / "x.parquet", row_group_size=50)

    scan = parquet_scan(spark.read.parquet(str(tmp_path)))

    assert scan is not None
    assert len(scan.tasks) == 5


def test_files_without_rows_need_no_task(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(PLAIN.slice(0, 0), tmp_path / "x.parquet")

    scan = parquet_scan(spark.read.parquet(str(tmp_path)))

    assert scan is not None
    assert scan.tasks == ()
    assert scan.map(spark, iter, "a bigint, b string").count() == 0


def test_a_file_that_is_not_the_one_planned_is_named(spark: SparkSession, path: Path) -> None:
    scan = parquet_scan(spark.read.parquet(str(path)))
    assert scan is not None

    pq.write_table(pa.table({"a": [7], "b": ["y"]}), path)
    with pytest.raises(AppendFailed, match=r"plain\.parquet changes while it is read"):
        read(scan)
    path.unlink()
    with pytest.raises(AppendFailed, match=r"cannot read .*plain\.parquet"):
        read(scan)

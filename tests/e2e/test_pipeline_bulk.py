"""Frames of Parquet files, appended without rows of Spark in between: the same rows, or refused alike."""

import os
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from e2e.auctions import rows
from tidemill import Pipeline
from tidemill.api import frames
from tidemill.api.scans import Scan, parquet_scan
from tidemill.pipeline.errors import AppendFailed, BadInput

pytestmark = pytest.mark.timeout(180)

KINDS = {
    "yes": "BOOLEAN",
    "tiny": "TINYINT",
    "small": "SMALLINT",
    "whole": "INT",
    "big": "BIGINT",
    "single": "FLOAT",
    "double": "DOUBLE",
    "text": "STRING",
    "bytes": "BINARY",
    "day": "DATE",
    "moment": "TIMESTAMP",
    "clock": "TIMESTAMP_NTZ",
    "cents": "DECIMAL(5,2)",
    "mills": "DECIMAL(15,3)",
    "exact": "DECIMAL(38,4)",
}
COLUMNS = ", ".join(f"{name} {kind}" for name, kind in KINDS.items())
YEAR_US = 31_557_600_000_000


def every_type(count: int = 500) -> pa.Table:
    """Rows of every plain type, a tenth of the values NULL."""
    random = np.random.default_rng(3)
    places = random.integers(-(2**62), 2**62, count)
    specials = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.5])[np.arange(count) % 6]
    times = places % (400 * YEAR_US) - 200 * YEAR_US
    values: dict[str, Any] = {
        "yes": pa.array(places % 2 == 0),
        "tiny": pa.array(places.astype(np.int8)),
        "small": pa.array(places.astype(np.int16)),
        "whole": pa.array(places.astype(np.int32)),
        "big": pa.array(places),
        "single": pa.array(specials.astype(np.float32)),
        "double": pa.array(specials),
        "text": pa.array([f"ü{place}" * (place % 5) for place in places.tolist()]),
        "bytes": pa.array([b"\0\xff" * (place % 5) for place in places.tolist()]),
        "day": pa.array((places % 500_000 - 250_000).astype(np.int32)).cast(pa.date32()),
        "moment": pa.array(times // 1000 * 1000, pa.timestamp("us", "UTC")),
        "clock": pa.array(times // 1000 * 1000, pa.timestamp("us")),
        "cents": pa.array([Decimal(place % 10**5).scaleb(-2) for place in places.tolist()]),
        "mills": pa.array([Decimal(place % 10**15 - 10**14).scaleb(-3) for place in places.tolist()]),
        "exact": pa.array([Decimal(place).scaleb(-4) for place in places.tolist()]),
    }
    types = {"cents": pa.decimal128(5, 2), "mills": pa.decimal128(15, 3), "exact": pa.decimal128(38, 4)}
    columns = {}
    for name, array in values.items():
        kept = pa.array(random.random(count) < 0.9)
        columns[name] = pa.compute.if_else(kept, array.cast(types.get(name, array.type)), None)
    return pa.table(columns)


@pytest.fixture
def pipeline(spark: SparkSession, folder: Path) -> Iterator[Pipeline]:
    with Pipeline(spark, folder, runtime="inline") as opened:
        opened.sql(f"CREATE TABLE one ({COLUMNS}); CREATE TABLE other ({COLUMNS})")
        opened.sql("CREATE TABLE bids (auction BIGINT, price INT)")
        opened.sql("CREATE TABLE auctions (id BIGINT PRIMARY KEY, category STRING)")
        yield opened


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[Scan | None]:
    """How frames are staged: by a scan, or left to Spark."""
    found: list[Scan | None] = []

    def noted(frame: DataFrame) -> Scan | None:
        found.append(parquet_scan(frame))
        return found[-1]

    monkeypatch.setattr(frames, "parquet_scan", noted)
    return found


def printed(pipeline: Pipeline, table: str) -> Counter[str]:
    """The rows as text, where NaN is NaN."""
    return Counter(repr(row) for row in rows(pipeline, table).elements())


@pytest.mark.parametrize(
    "written",
    [
        {},
        {"row_group_size": 64, "use_dictionary": False, "compression": "zstd", "data_page_version": "2.0"},
        {"store_decimal_as_integer": True},
        {"coerce_timestamps": "ms", "store_schema": False},
    ],
)
def test_every_type_is_read_as_spark_reads_it(
    spark: SparkSession, pipeline: Pipeline, tmp_path: Path, scans: list[Scan | None], written: dict[str, Any]
) -> None:
    whole = every_type()
    for number in range(3):
        pq.write_table(whole.slice(number * 200, 200), tmp_path / f"{number}.parquet", **written)
    frame = spark.read.parquet(str(tmp_path / "*.parquet"))

    pipeline.insert("one", frame)
    pipeline.insert("other", frame.limit(10**6))
    pipeline.step()

    assert [scan is not None for scan in scans] == [True, False]
    assert printed(pipeline, "one") == printed(pipeline, "other")
    assert printed(pipeline, "one").total() == whole.num_rows


@pytest.mark.parametrize("legacy", ["false", "true"])
def test_what_spark_wrote_is_read_as_spark_reads_it(
    spark: SparkSession, pipeline: Pipeline, tmp_path: Path, scans: list[Scan | None], legacy: str
) -> None:
    settings = {
        "spark.sql.parquet.writeLegacyFormat": legacy,
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    }
    before = {name: spark.conf.get(name) or "" for name in settings}
    pq.write_table(every_type(), tmp_path / "x.parquet")
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        spark.read.parquet(str(tmp_path / "x.parquet")).write.parquet(str(tmp_path / "spark"))
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
    frame = spark.read.parquet(str(tmp_path / "spark"))

    pipeline.insert("one", frame)
    pipeline.insert("other", frame.limit(10**6))
    pipeline.step()

    assert [scan is not None for scan in scans] == [True, False]
    assert printed(pipeline, "one") == printed(pipeline, "other")
    assert printed(pipeline, "one").total() == 500


def test_columns_may_come_in_any_order_and_in_narrower_types(
    spark: SparkSession, pipeline: Pipeline, tmp_path: Path, scans: list[Scan | None]
) -> None:
    bids = {
        "price": pa.array([5, 6], pa.int16()),
        "note": ["x", "y"],
        "auction": pa.array([1, 2], pa.int32()),
    }
    pq.write_table(pa.table(bids), tmp_path / "x.parquet")
    pipeline.insert("bids", spark.read.parquet(str(tmp_path)).select("price", "auction"))
    pipeline.step()

    assert scans[0] is not None
    assert rows(pipeline, "bids") == Counter([(1, 5), (2, 6)])


def test_rows_with_weights_and_keys_to_delete_come_from_files(
    spark: SparkSession, pipeline: Pipeline, tmp_path: Path, scans: list[Scan | None]
) -> None:
    changes = {"auction": [1, 1, 2], "price": pa.array([5, 5, 6], pa.int32()), "_weight": [2, -1, 3]}
    pq.write_table(pa.table(changes), tmp_path / "changes.parquet")
    pq.write_table(pa.table({"id": [1, 2], "category": ["art", "books"]}), tmp_path / "auctions.parquet")
    pq.write_table(pa.table({"id": [2]}), tmp_path / "keys.parquet")
    pipeline.apply({"bids": spark.read.parquet(str(tmp_path / "changes.parquet"))})
    pipeline.insert("auctions", spark.read.parquet(str(tmp_path / "auctions.parquet")))
    pipeline.delete("auctions", spark.read.parquet(str(tmp_path / "keys.parquet")))
    pipeline.step()

    assert None not in scans
    assert rows(pipeline, "bids") == Counter({(1, 5): 1, (2, 6): 3})
    assert rows(pipeline, "auctions") == Counter([(1, "art")])


@pytest.mark.parametrize(
    "wrong",
    [
        {"auction": [1]},
        {"auction": [1], "price": ["x"]},
        {"auction": [1], "price": [2**40]},
        {"auction": [1], "price": [1], "_weight": [1]},
        {"auction": [1], "price": [1], "x": [1]},
    ],
)
def test_rows_that_do_not_fit_are_refused_in_the_same_words(
    spark: SparkSession, pipeline: Pipeline, tmp_path: Path, wrong: dict[str, Any]
) -> None:
    pq.write_table(pa.table(wrong), tmp_path / "x.parquet")
    frame = spark.read.parquet(str(tmp_path))
    with pytest.raises(BadInput) as by_spark:
        pipeline.insert("bids", frame.limit(10))
    with pytest.raises(BadInput) as by_scan:
        pipeline.insert("bids", frame)

    assert str(by_scan.value) == str(by_spark.value)
    assert pipeline.pending() == []


@pytest.mark.parametrize("harm", ["gone", "damaged", "changed"])
def test_a_file_that_is_harmed_after_planning_is_named_and_nothing_is_appended(
    spark: SparkSession, pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    bids = {"auction": list(range(5_000)), "price": pa.array(range(5_000), pa.int32())}
    whole, victim = tmp_path / "whole.parquet", tmp_path / "victim.parquet"
    for path in (whole, victim):
        pq.write_table(pa.table(bids), path)

    def harmed(frame: DataFrame) -> Scan | None:
        scan = parquet_scan(frame)
        found = victim.stat()
        if harm == "gone":
            victim.unlink()
        elif harm == "changed":
            pq.write_table(pa.table(bids).slice(1), victim)
        else:
            with victim.open("r+b") as file:
                file.write(b"PAR1" + bytes(200))
            os.utime(victim, ns=(found.st_atime_ns, found.st_mtime_ns))
        return scan

    frame = spark.read.parquet(str(whole), str(victim))
    monkeypatch.setattr(frames, "parquet_scan", harmed)
    with pytest.raises(AppendFailed, match=r"victim\.parquet"):
        pipeline.insert("bids", frame)

    assert pipeline.pending() == []


def test_files_without_rows_append_nothing(
    spark: SparkSession, pipeline: Pipeline, tmp_path: Path, scans: list[Scan | None]
) -> None:
    pq.write_table(pa.table({"auction": [1], "price": [1]}).slice(1), tmp_path / "x.parquet")
    (tmp_path / "y.parquet").touch()
    frame = spark.read.schema("auction bigint, price bigint").parquet(str(tmp_path))
    pipeline.insert("bids", frame)
    pipeline.step()

    assert scans[0] is not None
    assert rows(pipeline, "bids") == Counter()

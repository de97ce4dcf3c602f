"""A pipeline whose documents lie in a folder and whose files lie in a bucket."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tidemill.api.pipeline import Pipeline
from tidemill.pipeline.errors import ForeignState

pytestmark = pytest.mark.timeout(180)


SCRIPT = """
CREATE TABLE bids (auction BIGINT, price BIGINT);
CREATE VIEW top AS SELECT auction, max(price) AS price FROM bids GROUP BY auction;
"""


def bids(*rows: tuple[int, int]) -> pa.Table:
    return pa.table({"auction": [row[0] for row in rows], "price": [row[1] for row in rows]})


def top(pipeline: Pipeline) -> dict[int, int]:
    rows = pipeline.view("top").to_arrow().to_pylist()
    return {row["auction"]: row["price"] for row in rows}


def test_a_pipeline_with_its_files_on_s3_goes_on_where_it_was(
    spark: SparkSession, folder: Path, s3_address: str
) -> None:
    with Pipeline(spark, folder, runtime="batch", workers=2, blobs=s3_address) as p:
        p.sql(SCRIPT)
        p.insert("bids", bids((1, 10), (2, 20), (2, 15)))
        p.step()
    with Pipeline(spark, folder, runtime="batch", workers=2, blobs=s3_address) as p:
        before = top(p)
        p.insert("bids", bids((1, 12), (2, 18), (3, 30)))
        p.step()
        after = top(p)

    assert before == {1: 10, 2: 20}
    assert after == {1: 12, 2: 20, 3: 30}
    assert not (folder / "blobs").exists()


def test_a_place_on_s3_is_of_one_pipeline(
    spark: SparkSession, folder: Path, tmp_path: Path, s3_address: str
) -> None:
    Pipeline(spark, folder, runtime="inline", blobs=s3_address).close()

    with pytest.raises(ForeignState, match="another pipeline has its files there"):
        Pipeline(spark, tmp_path / "other", runtime="inline", blobs=s3_address)
    with pytest.raises(ForeignState, match="say where with blobs="):
        Pipeline(spark, folder, runtime="inline")


def test_a_pipeline_with_its_files_in_its_folder_keeps_them_there(
    spark: SparkSession, folder: Path, s3_address: str
) -> None:
    Pipeline(spark, folder, runtime="inline").close()

    with pytest.raises(ForeignState, match="without blobs="):
        Pipeline(spark, folder, runtime="inline", blobs=s3_address)

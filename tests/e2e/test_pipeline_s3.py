"""A pipeline whose documents lie in a folder and whose files lie in a bucket."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from e2e.auctions import AUCTIONS, BIDS, SCRIPT, answers, expected
from tidemill.api.pipeline import Pipeline
from tidemill.pipeline.errors import ForeignState

pytestmark = pytest.mark.timeout(180)


def test_a_pipeline_with_its_files_on_s3_goes_on_where_it_was(
    spark: SparkSession, folder: Path, s3_address: str
) -> None:
    with Pipeline(spark, folder, runtime="batch", workers=2, blobs=s3_address) as p:
        p.sql(SCRIPT)
        p.insert("auctions", AUCTIONS)
        p.insert("bids", BIDS[:10])
        p.step()
    with Pipeline(spark, folder, runtime="batch", workers=2, blobs=s3_address) as p:
        before = answers(p)
        p.insert("bids", BIDS[10:])
        p.step()
        after = answers(p)

    assert before == expected(BIDS[:10])
    assert after == expected(BIDS)
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

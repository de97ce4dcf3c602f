"""Pins of `tidemill.Pipeline`: versions that stay readable while the pipeline goes on."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from e2e.auctions import AUCTIONS, BIDS, SCRIPT, expected, rows
from tidemill.api.pipeline import Pipeline, RuntimeName
from tidemill.api.rows import Rows
from tidemill.pipeline.engine import Policy
from tidemill.pipeline.errors import NameTaken, NoSuchName, NotOpen

pytestmark = pytest.mark.timeout(180)

SWEPT_AT_ONCE = Policy(grace_s=-1.0)


def go_on(pipeline: Pipeline, bids: list[dict[str, int]]) -> None:
    """Make so many versions that no earlier one is kept but for a pin, and sweep."""
    for bid in bids:
        pipeline.insert("bids", [bid])
        pipeline.step()
        pipeline.checkpoint()


def test_a_pinned_version_can_be_read_whatever_comes(
    spark: SparkSession, folder: Path, runtime: RuntimeName
) -> None:
    with Pipeline(spark, folder, runtime=runtime, policy=SWEPT_AT_ONCE) as p:
        p.sql(SCRIPT)
        p.insert("auctions", AUCTIONS)
        p.insert("bids", BIDS[:10])
        number = p.step().number
        assert p.pins.add("ten") == p.pins.add("ten") == number
        go_on(p, BIDS[10:15])
        with pytest.raises(NameTaken, match="ten"):
            p.pins.add("ten")
    with Pipeline(spark, folder, runtime=runtime, policy=SWEPT_AT_ONCE) as p:
        go_on(p, BIDS[15:])
        then, now = p.view("by_category", pin="ten"), p.view("by_category")

        assert dict(p.pins) == {"ten": number}
        assert then.step == number
        assert bag(then) == expected(BIDS[:10])["by_category"]
        assert bag(now) == expected(BIDS)["by_category"]
        assert p.view("bids", pin="ten").to_arrow().num_rows == 10
        assert then.to_spark().count() == len(expected(BIDS[:10])["by_category"])


def test_what_was_pinned_is_swept_once_it_is_not(spark: SparkSession, folder: Path) -> None:
    with Pipeline(spark, folder, runtime="inline", policy=SWEPT_AT_ONCE) as p:
        p.sql(SCRIPT)
        go_on(p, BIDS[:5])
        p.pins.add("five")
        held = files(folder)
        go_on(p, BIDS[5:10])
        kept = held & files(folder)
        p.pins.remove("five")
        go_on(p, BIDS[10:])

        assert len(p.pins) == 0
        assert kept > held & files(folder)
        assert rows(p, "best") == expected(BIDS)["best"]


def test_pins_that_are_not_there_and_views_that_were_not_are_told(pipeline: Pipeline) -> None:
    pipeline.insert("bids", BIDS)
    pipeline.step()
    pipeline.pins.add("early")
    pipeline.sql("CREATE VIEW late AS SELECT * FROM bids")
    pipeline.step()

    with pytest.raises(NoSuchName, match=r"no pin 'latest'; there are: early"):
        pipeline.view("best", pin="latest")
    with pytest.raises(NoSuchName, match=r"no pin 'latest'"):
        pipeline.pins.remove("latest")
    with pytest.raises(NoSuchName, match="late is younger than pin 'early'"):
        pipeline.view("late", pin="early")
    assert "latest" not in pipeline.pins
    pipeline.close()
    with pytest.raises(NotOpen):
        pipeline.pins.add("closed")


def test_a_pipeline_that_runs_by_itself_can_be_pinned(spark: SparkSession, folder: Path) -> None:
    with Pipeline(spark, folder, runtime="inline") as p:
        p.sql(SCRIPT)
        p.start()
        p.wait(offset=p.insert("bids", BIDS[:10]).offset, timeout_s=60)
        p.pins.add("ten")
        p.wait(offset=p.insert("bids", BIDS[10:]).offset, timeout_s=60)
        p.stop()

        assert p.view("bids", pin="ten").to_arrow().num_rows == 10
        assert p.view("bids").to_arrow().num_rows == len(BIDS)


def bag(found: Rows) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in found)


def files(folder: Path) -> set[str]:
    return {str(path) for path in (folder / "blobs").rglob("*") if path.is_file()}

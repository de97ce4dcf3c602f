"""A view that was made of a frame is compared with Spark as one that was written in SQL."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as f
from pyspark.sql.window import Window

import tidemill
from e2e.auctions import AUCTIONS, BIDS, SCRIPT
from tidemill.pipeline.errors import Refused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOW = datetime(2024, 5, 1, 0, 30, tzinfo=UTC)
QUERIES = {
    "scalar": "SELECT auction, (SELECT max(category) FROM {auctions} WHERE id = auction) AS c FROM {bids}",
    "exists": "SELECT * FROM {bids} WHERE EXISTS (SELECT 1 FROM {auctions} WHERE id = auction)",
    "missing": "SELECT count(*) AS n FROM {bids} WHERE auction NOT IN (SELECT id FROM {auctions})",
    "either": "SELECT * FROM {bids} WHERE price > 15 OR auction IN (SELECT id FROM {auctions} WHERE id > 2)",
    "lateral": """SELECT id, total FROM {auctions},
        LATERAL (SELECT sum(price) AS total FROM {bids} WHERE auction = id)""",
    "twice": """WITH big AS (SELECT * FROM {bids} WHERE price > (SELECT min(price) + 3 FROM {bids}))
        SELECT one.price, other.price AS more FROM big AS one JOIN big AS other USING (auction)""",
}
"""Over the tables of a pipeline, in the user's own session."""


def frames(spark: "SparkSession", pipeline: tidemill.Pipeline) -> dict[str, "DataFrame"]:
    auctions, bids, seen = map(pipeline.table, ("auctions", "bids", "seen"))
    is_dear = f.udf(lambda price: price > 9, "boolean")
    rising = Window.partitionBy("auction").orderBy("price")
    return {
        "joined": bids.join(auctions, bids.auction == auctions.id, "left").select("category", "price"),
        "itself": bids.alias("b")
        .join(bids.alias("c"), "auction")
        .where("b.price < c.price")
        .select("b.price"),
        "on_view": pipeline.table("best").where("m > 17").select("auction", (f.col("n") + 1).alias("n")),
        "ranked": bids.withColumn("place", f.row_number().over(rising)),
        "dear": bids.where(is_dear("price")),
        "recent": seen.where(seen.at > f.now() - f.expr("INTERVAL 1 HOUR")),
    } | {name: spark.sql(text, auctions=auctions, bids=bids) for name, text in QUERIES.items()}


def test_frames_are_recomputed_over_the_rows_of_the_last_step(spark: "SparkSession", folder: Path) -> None:
    with tidemill.Pipeline(spark, folder) as pipeline:
        pipeline.sql(SCRIPT + "CREATE TABLE seen (n INT, at TIMESTAMP)")
        made = frames(spark, pipeline)
        for name, frame in made.items():
            pipeline.view(name, frame)
        pipeline.sql("CREATE VIEW on_frames AS SELECT * FROM ranked JOIN recent ON n = place")
        pipeline.insert("auctions", AUCTIONS)
        pipeline.insert("bids", BIDS)
        pipeline.insert("seen", [{"n": n, "at": NOW - timedelta(minutes=25 * n)} for n in range(5)])
        pipeline.step(clock=NOW)
        verdicts = {view: pipeline.verify(view) for view in (*made, "on_frames")}

    assert [str(verdict) for verdict in verdicts.values() if not verdict.equal] == []
    assert [view for view, verdict in verdicts.items() if not verdict.rows] == []
    assert verdicts["itself"].rows == 40
    assert verdicts["recent"].rows == 3


def test_a_view_has_the_frame_it_was_made_of_last(pipeline: tidemill.Pipeline) -> None:
    bids = pipeline.table("bids")
    pipeline.view("cheap", bids.where("price < 3"))
    pipeline.drop("cheap")
    pipeline.view("cheap", bids.where("price < 5"))
    pipeline.insert("bids", BIDS)
    pipeline.step()

    assert pipeline.recompute("cheap").to_arrow().num_rows == 5
    assert pipeline.verify("cheap").equal


def test_a_frame_is_not_known_any_more_when_the_pipeline_is_opened_again(
    pipeline: tidemill.Pipeline, folder: Path, spark: "SparkSession"
) -> None:
    pipeline.view("cheap", pipeline.table("bids").where("price < 3"))
    pipeline.sql("CREATE VIEW cheaper AS SELECT * FROM cheap")
    pipeline.step()
    pipeline.close()

    with tidemill.Pipeline(spark, folder, runtime="inline") as again:
        for view in ("cheap", "cheaper"):
            with pytest.raises(Refused, match=r"view cheap was made of a DataFrame before .*create it again"):
                again.verify(view)

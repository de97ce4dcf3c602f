"""A kept view is compared with what Spark answers from scratch, on the tables as of the last step."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import tidemill
from e2e.auctions import AUCTIONS, BIDS
from tidemill.pipeline.errors import NoSuchName, NotNow, StepAborted, WrongSettings
from tidemill.pipeline.zset import ZSet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemill.api.rows import Rows
    from tidemill.pipeline.live import LiveRuns

NOW = datetime(2024, 5, 1, 0, 30, tzinfo=UTC)
SCRIPT = """
CREATE TABLE t (k BIGINT PRIMARY KEY, g STRING, v DOUBLE, at TIMESTAMP, m MAP<STRING, INT>, d DATE);
CREATE TABLE e (a BIGINT, b BIGINT);
CREATE TABLE seen (n INT, at TIMESTAMP LATENESS INTERVAL 1 MINUTE);
CREATE VIEW sums AS SELECT g, sum(v) AS s, avg(v) AS a, count(*) AS n FROM t GROUP BY g;
CREATE VIEW above AS SELECT g, n FROM sums WHERE n > 3; -- a view on a view
CREATE VIEW recent AS SELECT k FROM t WHERE at > now() - INTERVAL 1 HOUR AND d <= current_date();
CREATE VIEW nested AS SELECT m, struct(v, g) AS s, array(v, NULL) AS l FROM t;
CREATE RECURSIVE VIEW reach (a BIGINT, b BIGINT) AS
  SELECT a, b FROM e UNION SELECT reach.a, e.b FROM reach JOIN e ON reach.b = e.a;
CREATE VIEW widest AS SELECT a, count(*) AS n FROM reach GROUP BY a;
CREATE VIEW pairs AS SELECT one.g, other.g AS h FROM sums AS one JOIN sums AS other USING (n);
CREATE VIEW punctual AS SELECT count(*) AS n FROM seen;
"""


@pytest.fixture
def filled(pipeline: tidemill.Pipeline) -> tidemill.Pipeline:
    """Auctions and bids, in their tables and views."""
    pipeline.insert("auctions", AUCTIONS)
    pipeline.insert("bids", BIDS)
    pipeline.step()
    return pipeline


def test_every_view_is_what_spark_computes_from_scratch(spark: "SparkSession", folder: Path) -> None:
    rows = [
        {
            "k": k,
            "g": "abc"[k % 3] if k % 7 else None,
            "v": 0.1 * 3**k,
            "at": NOW - timedelta(minutes=10 * k),
            "m": {"b": 1, "a": k},
            "d": date(2024, 4, 30) + timedelta(days=k % 3),
        }
        for k in range(20)
    ]
    with tidemill.Pipeline(spark, folder, runtime="inline") as pipeline:
        pipeline.sql(SCRIPT)
        pipeline.insert("t", rows)
        pipeline.insert("e", [{"a": a, "b": (a + 1) % 4} for a in range(4)] + [{"a": 7, "b": 8}])
        pipeline.insert("seen", [{"n": 1, "at": NOW}])
        pipeline.step(clock=NOW)
        pipeline.delete("e", [{"a": 3, "b": 0}])
        pipeline.delete("t", [{"k": 3}])
        pipeline.insert("seen", [{"n": 2, "at": NOW - timedelta(hours=1)}])
        record = pipeline.step(clock=NOW + timedelta(minutes=25))
        verdicts = {view: pipeline.verify(view) for view in pipeline.views}

    assert record.late == {"seen": 1}
    assert [view for view, verdict in verdicts.items() if not verdict.equal] == []
    assert {view: verdict.rows for view, verdict in verdicts.items()} == {
        "sums": 4,
        "above": 3,
        "recent": 2,
        "nested": 19,
        "reach": 7,
        "widest": 4,
        "pairs": 6,
        "punctual": 1,
    }
    assert {verdict.step for verdict in verdicts.values()} == {record.number}
    assert {verdict.step_s for verdict in verdicts.values()} == {record.seconds}
    assert min(verdict.recompute_s for verdict in verdicts.values()) > 0


def test_an_answer_comes_in_all_forms(filled: tidemill.Pipeline) -> None:
    answer = filled.recompute("BEST")

    expected = [{"auction": auction, "m": 16 + auction, "n": 5} for auction in range(4)]
    assert (answer.step, answer.schema) == (0, filled.view("best").schema)
    assert answer.to_arrow().sort_by("auction").to_pylist() == expected
    assert answer.to_pandas().sort_values("auction").to_dict("records") == expected
    assert answer.to_spark().count() == 4


def test_a_view_that_is_wrong_is_told_with_its_rows(
    filled: tidemill.Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = tidemill.Pipeline._read

    def wrongly(pipeline: tidemill.Pipeline, name: str, runs: "LiveRuns") -> "Rows":
        """Without the row of auction 3, and with another one of auction 1."""
        rows = read(pipeline, name, runs)

        def pieces() -> Iterator[ZSet]:
            for piece in rows.pieces():
                keys = np.asarray(piece.rows.column(0))
                yield ZSet(piece.rows, piece.weights + (keys == 1)).filter(keys != 3)

        return replace(rows, pieces=pieces) if name == "best" else rows

    monkeypatch.setattr(tidemill.Pipeline, "_read", wrongly)
    verdict = filled.verify("best")

    assert not verdict.equal
    assert verdict.rows == 4
    assert verdict.missing.to_pylist() == [{"auction": 3, "m": 19, "n": 5}]
    assert verdict.extra.to_pylist() == [{"auction": 1, "m": 17, "n": 5}]
    assert "view best at step 0: 4 rows, 1 missing, 1 too many; the step took" in str(verdict)


def test_it_may_be_asked_while_the_pipeline_runs(filled: tidemill.Pipeline) -> None:
    filled.start()
    receipt = filled.insert("bids", [{"auction": 9, "price": 1}])
    record = filled.wait(offset=receipt.offset)
    verdict = filled.verify("best")
    filled.stop()

    assert verdict.equal
    assert (verdict.rows, verdict.step) == (5, record.number)


def test_a_step_that_was_aborted_has_changed_nothing(filled: tidemill.Pipeline) -> None:
    filled.delete("bids", [{"auction": 77, "price": 77}])
    with pytest.raises(StepAborted):
        filled.step()

    assert filled.verify("best").equal


def test_a_pipeline_that_is_opened_again_still_knows_its_queries(
    filled: tidemill.Pipeline, folder: Path, spark: "SparkSession"
) -> None:
    filled.close()
    with tidemill.Pipeline(spark, folder, runtime="inline") as again:
        assert again.verify("by_category").equal


def test_what_cannot_be_recomputed_is_said_by_name(filled: tidemill.Pipeline) -> None:
    filled.sql("CREATE VIEW cheap AS SELECT * FROM bids WHERE price < 3")
    with pytest.raises(NotNow, match="view cheap is new, and filled by the next step"):
        filled.verify("cheap")
    with pytest.raises(NoSuchName, match="bids is a table; there are the views: best, "):
        filled.recompute("bids")


def test_the_session_must_still_have_the_settings_of_the_pipeline(
    filled: tidemill.Pipeline, spark: "SparkSession"
) -> None:
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        with pytest.raises(WrongSettings, match=r"spark\.sql\.session\.timeZone"):
            filled.recompute("best")
    finally:
        spark.conf.unset("spark.sql.session.timeZone")

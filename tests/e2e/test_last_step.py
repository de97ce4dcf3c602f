"""What the last step left is told together: several views as of one step, and what it took for each."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from e2e.auctions import AUCTIONS, BIDS, expected
from tidemill import Pipeline
from tidemill.pipeline.errors import NoSuchName, NotOpen

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemill.api.pipeline import RuntimeName
    from tidemill.api.rows import Rows
    from tidemill.pipeline.live import LiveRuns


def test_views_are_of_one_step_though_another_is_done_while_they_are_read(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.insert("auctions", AUCTIONS)
    pipeline.insert("bids", BIDS[:10])
    record = pipeline.step()
    read = Pipeline._read

    def slowly(self: Pipeline, name: str, runs: "LiveRuns") -> "Rows":
        self.insert("bids", BIDS[10:])
        self.step()
        return read(self, name, runs)

    monkeypatch.setattr(Pipeline, "_read", slowly)
    found = pipeline.read("best", "by_category")

    assert {rows.step for rows in found.values()} == {record.number}
    answers = expected(BIDS[:10])
    assert {name: {tuple(row.values()) for row in rows} for name, rows in found.items()} == {
        name: set(rows) for name, rows in answers.items()
    }


def test_by_default_all_views_are_read_and_tables_if_they_are_named(pipeline: Pipeline) -> None:
    pipeline.insert("auctions", AUCTIONS)
    pipeline.step()

    assert list(pipeline.read()) == ["best", "by_category"]
    assert {row["id"] for row in pipeline.read("AUCTIONS")["AUCTIONS"]} == {1, 2, 3}
    with pytest.raises(NoSuchName, match="there is no table or view worst"):
        pipeline.read("best", "worst")


def test_a_table_to_which_nothing_was_appended_has_its_columns_and_no_rows(pipeline: Pipeline) -> None:
    pipeline.sql("CREATE TABLE nobody (id BIGINT, name STRING)")
    rows = pipeline.read("nobody")["nobody"]

    assert rows.to_arrow().to_pydict() == {"id": [], "name": []}
    assert list(rows.to_pandas().columns) == ["id", "name"]
    assert (rows.to_spark().columns, rows.to_spark().count()) == (["id", "name"], 0)


def test_a_view_has_its_part_of_the_time_of_a_step(
    spark: "SparkSession", folder: Path, runtime: "RuntimeName"
) -> None:
    with Pipeline(spark, folder, runtime=runtime) as pipeline:
        pipeline.sql("CREATE TABLE t (k BIGINT, v BIGINT)")
        pipeline.sql("CREATE VIEW whole AS SELECT k, sum(v) AS s FROM t GROUP BY k")
        pipeline.sql("CREATE VIEW other AS SELECT v, count(*) AS n FROM t GROUP BY v")
        before = pipeline.timings()
        pipeline.insert("t", [{"k": n % 5, "v": n} for n in range(100)])
        record = pipeline.step()
        both = pipeline.timings()
        pipeline.drop("other")
        pipeline.insert("t", [{"k": 1, "v": 1}])
        last = pipeline.step()
        alone = pipeline.timings()

    assert before == {}
    assert both.keys() == {"whole", "other"}
    assert all(0 < seconds < record.seconds for seconds in both.values())
    assert alone == {"whole": last.seconds}
    with pytest.raises(NotOpen):
        pipeline.timings()

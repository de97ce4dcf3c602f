"""Every construct of Spark SQL that has one answer is at each step what Spark answers, also as a frame.

The queries lie in the scripts of `fixtures/coverage`, each of which is one pipeline. By default every sixth
of them is judged; with TIDEMILL_COVERAGE=all every one, in batch too.
"""

import os
from pathlib import Path
from typing import Literal

import pytest
from pyspark.sql import SparkSession

from property.coverage_frames import IN_SPARK, QUERIES, Query
from property.coverage_tables import TABLES, coverage_history
from property.judge import Judge, feed, rows
from property.spark_oracle import Oracle, differences
from tidemill import Pipeline
from tidemill.sql.statements import CreateView, parse

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

SCRIPTS = Path(__file__).parents[1] / "fixtures" / "coverage"
EVERY = os.environ.get("TIDEMILL_COVERAGE") == "all"
STRIDE = 1 if EVERY else 6
ONLY_IN_SPARK = "functions"
HISTORY = coverage_history(1)


def views(script: str) -> dict[str, str]:
    """The queries of a script, by the name of their view."""
    found = {
        one.name: one.query
        for one in parse((SCRIPTS / f"{script}.sql").read_text())
        if isinstance(one, CreateView)
    }
    return dict(list(found.items())[::STRIDE])


def wrong(spark: SparkSession, root: Path, script: str, way: str) -> object:
    planned_in: Literal["batch", "inline"] = "batch" if script == ONLY_IN_SPARK else "inline"
    judge = Judge(spark, root, views(script), tables=TABLES, course=HISTORY, planned_in=planned_in)
    return judge.wrong(way)


@pytest.mark.parametrize("script", sorted(path.stem for path in SCRIPTS.glob("*.sql")))
def test_a_view_is_at_each_step_what_spark_answers(spark: SparkSession, tmp_path: Path, script: str) -> None:
    assert not wrong(spark, tmp_path, script, "batch" if script == ONLY_IN_SPARK else "small steps")


@pytest.mark.skipif(not EVERY, reason="takes minutes: TIDEMILL_COVERAGE=all")
@pytest.mark.parametrize("way", ["batch", "created late"])
@pytest.mark.parametrize("script", sorted(path.stem for path in SCRIPTS.glob("*.sql")))
def test_so_it_is_in_batch_and_when_created_late(
    spark: SparkSession, tmp_path: Path, script: str, way: str
) -> None:
    assert not wrong(spark, tmp_path, script, "batch late" if script == ONLY_IN_SPARK else way)


@pytest.mark.parametrize(("queries", "runtime"), [(QUERIES, "inline"), (IN_SPARK, "batch")])
def test_frames_are_at_each_step_what_spark_answers(
    spark: SparkSession, tmp_path: Path, queries: dict[str, Query], runtime: Literal["batch", "inline"]
) -> None:
    chosen = dict(list(queries.items())[::STRIDE])
    wrong = {}
    with Pipeline(spark, tmp_path / "pipeline", runtime=runtime) as pipeline:
        pipeline.sql(";\n".join(table.create for table in TABLES))
        for name, query in chosen.items():
            pipeline.view(name, query(pipeline.table))
        for step, appends in enumerate(HISTORY.steps):
            feed(pipeline, appends)
            pipeline.step()
            oracle = Oracle(spark, TABLES, [HISTORY.bags[step]])
            for name, query in chosen.items():
                oracle.define_frame(name, query)
                if found := differences(rows(pipeline, name), oracle.answers(name)[0]):
                    wrong[name, step] = found[:4]
            oracle.close()
    assert not wrong

"""TPC-H: all 22 queries in one pipeline are what Spark answers, after the load and after every refresh.

The environment's TIDEMILL_TPCH_SF says how much data there is, in scale factors.
"""

import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from property.judge import create, rows
from property.spark_oracle import Bag, differences, rows_of
from tidemill import Pipeline
from tidemill.api.pipeline import RuntimeName
from tpch.data import generate, read
from tpch.refresh import Change, Count, Warehouse, counts
from tpch.views import queries, tables

pytestmark = pytest.mark.long

SCALE = float(os.environ.get("TIDEMILL_TPCH_SF", "0.01"))
REFRESHES = 2
SIZES = {**counts(SCALE, share=0.05), "nation": Count(1, 1, 2), "region": Count(0, 0, 1)}
VIEWS = queries(
    SCALE,  # with little data, some parameters of the specification find nothing or next to nothing
    q02={"type": "L"},
    q07={"nation": "CHINA", "other": "UNITED STATES"},
    q08={"nation": "UNITED STATES"},
    q11={"nation": "CHINA", "fraction": 0.003},
    q17={"brand": "Brand#44", "container": "WRAP CAN"},
    q18={"quantity": 250},
    q19={"brand1": "Brand#24", "brand2": "Brand#41", "brand3": "Brand#32"},
    q20={"color": "f", "nation": "UNITED STATES"},
    q21={"nation": "CHINA"},
)


@dataclass(frozen=True, slots=True)
class History:
    """Rows to load and changes to make, and the answers of Spark after the one and each of the others."""

    loaded: Mapping[str, pa.Table]
    changes: list[Change]
    answers: list[Mapping[str, Bag]]


@pytest.fixture(scope="module")
def history(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> History:
    folder = tmp_path_factory.mktemp("tables")
    loaded = {name: read(path) for name, path in generate(SCALE, folder).items()}
    warehouse = Warehouse(loaded, seed=12)
    found = History(loaded, [], [ask(spark, folder, warehouse)])
    for _ in range(REFRESHES):
        found.changes.append(warehouse.refresh(SIZES))
        found.answers.append(ask(spark, folder, warehouse))
    return found


def ask(spark: SparkSession, folder: Path, warehouse: Warehouse) -> dict[str, Bag]:
    """What Spark answers now to every query."""
    asked = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
    asked.conf.set("spark.sql.codegen.wholeStage", "false")  # compiling takes longer than so few rows
    for name, table in warehouse.now.items():
        pq.write_table(table, folder / f"{name}.parquet")
        asked.read.parquet(str(folder / f"{name}.parquet")).createOrReplaceTempView(name)
    return {name: Counter(rows_of(asked.sql(query).toArrow())) for name, query in VIEWS.items()}


@pytest.fixture(scope="module")
def planned(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pipeline with all views, before the first append: to copy, so that each view is planned once."""
    folder = tmp_path_factory.mktemp("planned") / "pipeline"
    with Pipeline(spark, folder, runtime="inline") as pipeline:
        pipeline.sql(";".join(tables().values()))
        create(pipeline, VIEWS)
    return folder


def course(pipeline: Pipeline, history: History) -> Iterator[dict[str, Bag]]:
    """The rows of all views after the load and after each refresh."""
    for name, table in history.loaded.items():
        pipeline.insert(name, table)
    for change in ({}, *history.changes):
        if change:
            pipeline.apply(change)
        pipeline.step()
        yield {view: rows(pipeline, view) for view in VIEWS}


def test_every_query_finds_something_and_then_something_else(history: History) -> None:
    for view in VIEWS:
        told = [{row for row in answers[view] if row != (None,)} for answers in history.answers]

        assert told[0], view
        assert any(bag and bag != told[0] for bag in told[1:]), view


def test_every_query_is_exact_after_every_refresh(
    spark: SparkSession, folder: Path, runtime: RuntimeName, planned: Path, history: History
) -> None:
    shutil.copytree(planned, folder)
    wrong = {}
    with Pipeline(spark, folder, runtime=runtime) as pipeline:
        for step, bags in enumerate(course(pipeline, history)):
            for view, bag in bags.items():
                if found := differences(bag, history.answers[step][view]):
                    wrong[view, step] = found[:4]

    assert wrong == {}

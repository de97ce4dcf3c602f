"""Filters, projections and unions, and an aggregate: the judge itself is tried on what is long known."""

import pytest
from pyspark.sql import SparkSession

from property.judge import WAYS, Judge

VIEWS = {
    "kept": "SELECT c, k, i FROM t WHERE i > 3",
    "united": "SELECT c, k, i FROM t UNION ALL SELECT c, k, l FROM u",
    "summed": "SELECT c, k, count(*) AS n, sum(l) AS l FROM u GROUP BY c, k",
    "over_all": "SELECT count(*) AS n, max(v) AS v FROM p",
}


@pytest.fixture(scope="module")
def judge(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Judge:
    return Judge(spark, tmp_path_factory.mktemp("linear"), VIEWS)


@pytest.mark.parametrize("way", WAYS)
def test_linear_views_are_at_each_step_what_spark_answers(judge: Judge, way: str) -> None:
    assert not judge.wrong(way)

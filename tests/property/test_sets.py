"""DISTINCT, UNION, EXCEPT and INTERSECT, with and without ALL."""

import pytest
from pyspark.sql import SparkSession

from property.judge import WAYS, Judge

VIEWS = {
    "different": "SELECT DISTINCT c, k, f FROM t",
    "different_nested": "SELECT DISTINCT c, a, st FROM t",
    "united": "SELECT c, k, f FROM t UNION SELECT c, k, f FROM u",
    "united_all": "SELECT c, k, f FROM t UNION ALL SELECT c, k, f FROM u UNION ALL SELECT c, k, f FROM p",
    "united_wider": "SELECT c, i FROM t UNION SELECT c, l FROM u",
    "less": "SELECT c, k, f FROM t EXCEPT SELECT c, k, f FROM u",
    "less_by_itself": "SELECT c, k, i FROM t EXCEPT SELECT c, k, i FROM t WHERE i > 3",
    "less_nested": "SELECT c, a, i FROM t EXCEPT SELECT c, array(i), i FROM u",
    "less_all": "SELECT c, k, f FROM t EXCEPT ALL SELECT c, k, f FROM u",
    "less_all_nested": """SELECT c, k, st FROM t
        EXCEPT ALL SELECT c, k, named_struct('x', i, 'y', s, 'z', f) FROM u""",
    "common": "SELECT c, k, i FROM t INTERSECT SELECT c, k, i FROM u",
    "common_all": "SELECT c, k, i FROM t INTERSECT ALL SELECT c, k, i FROM u",
    "common_hot": "SELECT c, k FROM t INTERSECT ALL SELECT c, k FROM u",
    "less_hot": "SELECT c, k FROM u EXCEPT ALL SELECT c, k FROM p",
    "common_with_itself": "SELECT c, k FROM t INTERSECT ALL SELECT c, k FROM t WHERE b",
    "common_of_less": "(SELECT c, k FROM t EXCEPT ALL SELECT c, k FROM p) INTERSECT SELECT c, k FROM u",
    "less_of_constants": "SELECT c AS n, i FROM t EXCEPT ALL SELECT * FROM VALUES (0, 1), (0, 1), (1, NULL)",
    "constants_less": "SELECT * FROM VALUES (0, 1), (0, 1), (1, NULL) AS v(n, i) EXCEPT SELECT c, i FROM t",
    "grouped": """SELECT c, count(*) AS n, sum(i) AS i
        FROM (SELECT c, k, i FROM t EXCEPT ALL SELECT c, k, i FROM u) GROUP BY c""",
    "over_all": "SELECT k FROM t EXCEPT ALL SELECT k FROM p",
    "divided": """SELECT c, 100 div i AS q FROM (SELECT c, i FROM t INTERSECT ALL SELECT c, i FROM u)
        WHERE i <> 0""",
}


@pytest.fixture(scope="module")
def judge(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Judge:
    return Judge(spark, tmp_path_factory.mktemp("sets"), VIEWS)


@pytest.mark.parametrize("way", WAYS)
def test_sets_are_at_each_step_what_spark_answers(judge: Judge, way: str) -> None:
    assert not judge.wrong(way)

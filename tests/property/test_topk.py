"""ORDER BY with LIMIT and OFFSET, and the first rows of each group."""

import pytest
from pyspark.sql import SparkSession

from property.judge import WAYS, Judge

# Spark's own choice among equals depends on how rows lie: orders are of all columns, or ranks. Where all
# cases are ordered together, their number has another name, so that Spark is asked for each step by itself.
VIEWS = {
    "first_of_all": "SELECT c AS n, k, i, l FROM u ORDER BY i, l, k, c LIMIT 7",
    "last_of_all": """SELECT c AS n, k, i, l, f FROM u
        ORDER BY f DESC, l NULLS LAST, k DESC NULLS FIRST, i, c LIMIT 20""",
    "a_page": "SELECT c AS n, id, v FROM p ORDER BY v DESC NULLS LAST, c, id LIMIT 10 OFFSET 5",
    "by_text": """SELECT c AS n, s FROM (SELECT c, s, k FROM u WHERE i IS NOT NULL)
        ORDER BY k, s DESC, c LIMIT 30""",
    "by_what_is_not_shown": "SELECT c AS n FROM u ORDER BY l * 2 DESC, c LIMIT 5",
    "by_nested": "SELECT c AS n, a, st FROM t ORDER BY st DESC, a NULLS LAST, c LIMIT 15",
    "of_each": """SELECT c, k, i, l FROM (
        SELECT *, row_number() OVER (PARTITION BY c ORDER BY i DESC, l, k, f, s) AS n FROM u) WHERE n <= 2""",
    "one_of_each": """SELECT c, k, l, f FROM u
        QUALIFY row_number() OVER (PARTITION BY c, k ORDER BY f DESC NULLS FIRST, l, i, s) = 1""",
    "ranked": """SELECT * FROM (SELECT c, k, i, rank() OVER (PARTITION BY c ORDER BY i) AS n FROM u)
        WHERE n < 4""",
    "densely": """SELECT * FROM (
        SELECT c, d, b, dense_rank() OVER (PARTITION BY c, b ORDER BY d DESC) AS n FROM t) WHERE n <= 2""",
    "ranked_of_all": """SELECT * FROM (SELECT c AS m, v, rank() OVER (ORDER BY v DESC) AS n FROM p)
        WHERE n <= 3""",
    "densely_of_all": """SELECT * FROM (SELECT c AS m, f, dense_rank() OVER (ORDER BY f) AS n FROM u)
        WHERE n = 2""",
    "of_groups": """SELECT c, k, n FROM (SELECT c, k, count(*) AS n FROM t GROUP BY c, k)
        QUALIFY rank() OVER (PARTITION BY c ORDER BY n DESC) <= 1""",
    "of_the_first": "SELECT max(i) AS i, count(*) AS n FROM (SELECT i, l FROM u ORDER BY l DESC, i LIMIT 9)",
}


@pytest.fixture(scope="module")
def judge(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Judge:
    return Judge(spark, tmp_path_factory.mktemp("topk"), VIEWS)


@pytest.mark.parametrize("way", WAYS)
def test_the_first_rows_are_at_each_step_those_of_spark(judge: Judge, way: str) -> None:
    assert not judge.wrong(way)

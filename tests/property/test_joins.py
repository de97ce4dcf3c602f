"""Joins of every kind, and the subqueries that Spark makes joins of."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from property.judge import WAYS, Judge

pytestmark = pytest.mark.long

OUTER = {
    "left_outer": "SELECT t.c, t.k, t.i, u.l, u.s FROM t LEFT JOIN u ON t.c = u.c AND t.k = u.k",
    "right_outer": "SELECT u.c, t.i, t.st, u.l FROM t RIGHT JOIN u ON t.c = u.c AND t.k = u.k",
    "full_outer": """SELECT coalesce(t.c, u.c) AS c, t.k AS a, u.k AS b, t.m, u.f
        FROM t FULL JOIN u ON t.c = u.c AND t.k = u.k""",
    "outer_if": """SELECT t.c, t.k, t.i, u.i AS j FROM t LEFT JOIN u
        ON t.c = u.c AND t.k = u.k AND t.i < u.i""",
    "right_outer_if": """SELECT u.c, u.k, t.i, u.i AS j FROM t RIGHT JOIN u
        ON t.c = u.c AND t.k = u.k AND t.l <> u.l AND u.i > 2""",
    "full_outer_if": """SELECT coalesce(t.c, u.c) AS c, t.i AS a, u.i AS b FROM t FULL JOIN u
        ON t.c = u.c AND t.s = u.s AND t.i > 2 AND u.l < 5 AND t.i + 1L <> u.l""",
    "full_one_sided": """SELECT coalesce(t.c, u.c) AS c, t.i AS a, u.i AS b FROM t FULL JOIN u
        ON t.c = u.c AND t.s = u.s AND (t.i > 2 OR t.i IS NULL) AND u.l IN (1, 2, 3)""",
    "outer_null_safe": "SELECT t.c, t.k, u.i FROM t LEFT JOIN u ON t.c = u.c AND t.k <=> u.k",
    "full_null_safe": """SELECT coalesce(t.c, u.c) AS c, t.k AS a, u.k AS b FROM t FULL JOIN u
        ON t.c = u.c AND t.i <=> u.i AND t.f <=> u.f""",
    "outer_by_float": "SELECT t.c, t.f, u.f AS g FROM t LEFT JOIN u ON t.c = u.c AND t.f = u.f",
    "outer_computed": """SELECT t.c, t.i, u.s FROM t LEFT JOIN u
        ON t.c = u.c AND t.i + 1L = u.l AND length(t.s) = length(u.s)""",
    "outer_itself": """SELECT x.c, x.i AS a, y.i AS b FROM u x LEFT JOIN u y
        ON x.c = y.c AND x.i = y.l AND x.k <> y.k""",
    "outer_by_key": "SELECT p.c, p.id, p.v, u.l FROM p LEFT JOIN u ON p.c = u.c AND p.id = u.k",
    "onto_key": "SELECT u.c, u.k, p.id, p.v FROM u LEFT JOIN p ON p.c = u.c AND p.id = u.k",
    "three_outer": """SELECT coalesce(t.c, u.c, p.c) AS c, t.i, u.l, p.v FROM t
        FULL JOIN u ON t.c = u.c AND t.k = u.k FULL JOIN p ON p.c = u.c AND p.id = u.k""",
    "outer_of_outer": """SELECT t.c, t.k, u.i, p.v FROM t LEFT JOIN u ON t.c = u.c AND t.k = u.k
        LEFT JOIN p ON p.c = t.c AND p.v = u.i""",
    "outer_grouped": """SELECT t.c, t.k, count(u.i) AS n, sum(u.l) AS l, max(u.s) AS s FROM t
        LEFT JOIN u ON t.c = u.c AND t.k = u.k GROUP BY t.c, t.k""",
    "never_matched": """SELECT t.c, t.k, t.i FROM t LEFT JOIN u ON t.c = u.c AND t.k = u.k
        WHERE u.c IS NULL""",
    "of_views": """SELECT a.c, a.k, b.n, b.l FROM left_outer a
        LEFT JOIN outer_grouped b ON a.c = b.c AND a.k = b.k""",
    "of_groups": """SELECT coalesce(x.c, y.c) AS c, x.n, y.top
        FROM (SELECT c, count(*) AS n FROM t GROUP BY c) x
        FULL JOIN (SELECT c, max(v) AS top FROM p WHERE v > 3 GROUP BY c) y ON x.c = y.c""",
}
HALVES = {
    "semi": "SELECT c, k, i FROM t LEFT SEMI JOIN u ON t.c = u.c AND t.k = u.k",
    "anti": "SELECT c, k, i FROM t LEFT ANTI JOIN u ON t.c = u.c AND t.k = u.k",
    "semi_if": "SELECT c, k, i FROM t LEFT SEMI JOIN u ON t.c = u.c AND t.k = u.k AND t.i < u.i",
    "anti_if": "SELECT c, k, i FROM t LEFT ANTI JOIN u ON t.c = u.c AND t.k = u.k AND t.i < u.i AND t.l > 1",
    "semi_null_safe": "SELECT c, k, i FROM t LEFT SEMI JOIN u ON t.c = u.c AND t.k <=> u.k AND t.i <=> u.i",
    "anti_null_safe": "SELECT c, k, i FROM t LEFT ANTI JOIN u ON t.c = u.c AND t.k <=> u.k",
    "anti_itself": "SELECT c, k, i FROM u x LEFT ANTI JOIN u y ON x.c = y.c AND x.k = y.k AND x.i < y.i",
    "anti_by_struct": "SELECT x.c, x.st FROM t x LEFT ANTI JOIN t y ON x.c = y.c AND x.st = y.st AND y.b",
    "exists": "SELECT c, k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.c = t.c AND u.i > t.i)",
    "not_exists": "SELECT c, k FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.c = t.c AND u.s = t.s)",
    "in_rows": "SELECT c, k, l FROM t WHERE (k, i) IN (SELECT k, i FROM u WHERE u.c = t.c)",
    "not_in": "SELECT c, k, i FROM t WHERE k NOT IN (SELECT k FROM u WHERE u.c = t.c)",
    "not_in_if": "SELECT c, k, i FROM t WHERE k NOT IN (SELECT s FROM u WHERE u.c = t.c AND u.l < t.l)",
    "not_in_some": "SELECT c, i FROM t WHERE i NOT IN (SELECT i FROM u WHERE u.c = t.c AND u.i > 3)",
    "not_in_present": "SELECT c, k, i FROM t WHERE k NOT IN (SELECT id FROM p WHERE p.c = t.c)",
    "not_in_rows": "SELECT c, k, i FROM t WHERE (k, i) NOT IN (SELECT k, i FROM u WHERE u.c = t.c)",
    "not_in_three": "SELECT c, k, i FROM t WHERE (k, i, s) NOT IN (SELECT k, i, s FROM u WHERE u.c = t.c)",
    "beside": """SELECT c, k, i FROM t
        WHERE i > 3 OR EXISTS (SELECT 1 FROM u WHERE u.c = t.c AND u.k = t.k)""",
    "beside_not_in": "SELECT c, k, i FROM t WHERE b OR k NOT IN (SELECT k FROM u WHERE u.c = t.c)",
    "two_beside": """SELECT c, k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.c = t.c AND u.k = t.k)
        OR EXISTS (SELECT 1 FROM p WHERE p.c = t.c AND p.v > t.l)""",
    "as_column": "SELECT c, k, k IN (SELECT id FROM p WHERE p.c = t.c) AS there FROM t",
    "semi_of_anti": """SELECT c, k FROM anti WHERE EXISTS (SELECT 1 FROM semi WHERE semi.c = anti.c)""",
    "anti_grouped": """SELECT c, count(*) AS n, sum(i) AS i FROM t
        WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.c = t.c AND u.k = t.k) GROUP BY c""",
    "correlated_count": "SELECT c, k, (SELECT count(*) FROM u WHERE u.c = t.c AND u.k = t.k) AS n FROM t",
    "correlated_max": "SELECT c, i FROM t WHERE i >= (SELECT max(i) FROM u WHERE u.c = t.c)",
}
UNEQUAL = {
    "crossed": "SELECT t.c AS a, p.c AS b, p.id FROM t CROSS JOIN p WHERE t.c = 1 AND p.c < 3",
    "less": "SELECT t.c AS a, u.c AS b, t.i, u.l FROM t JOIN u ON t.i < u.l WHERE t.c < 3 AND u.c < 3",
    "between": """SELECT t.c AS a, u.c AS b, t.l FROM t JOIN u ON t.l BETWEEN u.i AND u.l
        WHERE t.c < 3 AND u.c < 3""",
    "near": """SELECT x.c AS a, x.l, y.l AS m, y.s FROM u x JOIN u y ON x.l BETWEEN y.l - 2 AND y.l + 1
        WHERE x.c < 4 AND y.c < 4""",
    "far": """SELECT t.c AS a, t.i, u.i AS j FROM t JOIN u ON u.i + 2147483647L < CAST(t.i AS BIGINT) - 3
        WHERE t.c < 4 AND u.c < 4""",
    "soon": """SELECT x.c AS a, x.ts, y.ts AS tt FROM t x JOIN t y
        ON y.ts > x.ts AND y.ts <= x.ts + INTERVAL 4000 HOURS WHERE x.c < 6 AND y.c < 6""",
    "within": """SELECT t.c, t.k, t.l, u.i FROM t JOIN u
        ON t.c = u.c AND t.l >= u.i AND t.l < u.l AND t.f > u.f""",
    "within_itself": "SELECT x.c, x.l, y.f FROM u x LEFT JOIN u y ON x.c = y.c AND x.k = y.k AND x.l < y.l",
    "by_text": "SELECT t.c, t.s, u.k FROM t JOIN u ON t.c = u.c AND t.s > u.k AND t.k <= u.s",
    "less_outer": """SELECT x.c AS a, y.c AS b, x.i, y.l FROM (SELECT * FROM t WHERE c < 3) x
        LEFT JOIN (SELECT * FROM u WHERE c < 3) y ON x.i > y.l""",
    "full_unequal": """SELECT x.c AS a, y.c AS b, x.i, y.v FROM (SELECT * FROM t WHERE c < 2) x
        FULL JOIN (SELECT * FROM p WHERE c < 3) y ON x.i > y.v""",
    "anti_unequal": """SELECT x.c AS a, x.i FROM (SELECT * FROM t WHERE c < 4) x
        LEFT ANTI JOIN (SELECT * FROM u WHERE c < 3 AND l > 3) y ON x.i < y.l AND x.f > y.f""",
    "on_true": """SELECT x.c AS a, y.n FROM (SELECT * FROM t WHERE c < 3) x
        LEFT JOIN (SELECT c AS n FROM p WHERE c = 3 AND v > 4) y ON true""",
    "with_scalar": "SELECT t.c AS a, t.i, top FROM t CROSS JOIN (SELECT max(v) AS top FROM p)",
    "scalar_first": "SELECT t.c AS a, t.i, top FROM (SELECT avg(v) AS top FROM p) x JOIN t ON t.i > top",
    "outer_scalar": "SELECT t.c AS a, t.i, top FROM t LEFT JOIN (SELECT max(i) AS top FROM u) x ON t.i > top",
    "not_in_all": "SELECT t.c AS a, t.k, t.i FROM t WHERE k NOT IN (SELECT id FROM p)",
    "not_in_any": "SELECT t.c AS a, t.k, t.i FROM t WHERE i NOT IN (SELECT i FROM u WHERE c = 2 AND l > 4)",
    "in_all": "SELECT t.c AS a, t.k, t.i FROM t WHERE k IN (SELECT k FROM u WHERE c < 5 AND i > 6)",
}
VALUES = {
    "above": "SELECT t.c AS a, t.i FROM t WHERE i > (SELECT avg(v) FROM p) AND b",
    "of_two": "SELECT t.c AS a, i + (SELECT max(v) FROM p) - (SELECT min(v) FROM p) AS x FROM t WHERE i < 9",
    "maybe_none": "SELECT t.c AS a, k, (SELECT v FROM p WHERE c = 3 AND id = 'a') AS v FROM t WHERE c < 9",
    "as_maybe_none": "SELECT t.c AS a, i FROM t WHERE i >= (SELECT v FROM p WHERE c = 2 AND id = 'b')",
    "if_any": "SELECT t.c AS a, i FROM t WHERE EXISTS (SELECT 1 FROM p WHERE c = 1 AND v = 4) AND i > 2",
    "if_none": "SELECT t.c AS a, i FROM t WHERE NOT EXISTS (SELECT 1 FROM p WHERE c = 1 AND v = 4) OR i > 5",
    "in_values": """SELECT u.c AS a, u.l FROM u
        WHERE l BETWEEN (SELECT min(v) FROM p) AND (SELECT max(i) FROM t)""",
}
IN_SPARK = {
    "outer_spark_key": "SELECT t.c, t.k, u.i FROM t LEFT JOIN u ON t.c = u.c AND md5(t.k) = md5(u.s)",
    "outer_spark_if": """SELECT t.c, t.k, u.i FROM t LEFT JOIN u
        ON t.c = u.c AND t.k = u.k AND soundex(concat(t.s, u.s)) <> 'A000'""",
    "anti_spark_if": """SELECT c, k, i FROM t LEFT ANTI JOIN u
        ON t.c = u.c AND soundex(t.s) = soundex(concat(u.s, t.s))""",
}


@pytest.fixture(scope="module")
def judge(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Judge:
    return Judge(spark, tmp_path_factory.mktemp("joins"), {**OUTER, **HALVES, **UNEQUAL})


@pytest.mark.parametrize("way", WAYS)
def test_joins_are_at_each_step_what_spark_answers(judge: Judge, way: str) -> None:
    assert not judge.wrong(way)


@pytest.mark.parametrize("way", [way for way in WAYS if "batch" in way])
def test_so_are_those_that_spark_must_compute_a_part_of(
    spark: SparkSession, tmp_path: Path, way: str
) -> None:
    assert not Judge(spark, tmp_path, IN_SPARK, planned_in="batch").wrong(way)


@pytest.fixture(scope="module")
def values(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Judge:
    return Judge(spark, tmp_path_factory.mktemp("values"), VALUES)


@pytest.mark.parametrize("way", WAYS)
def test_so_are_values_of_subqueries(values: Judge, way: str) -> None:
    assert not values.wrong(way)

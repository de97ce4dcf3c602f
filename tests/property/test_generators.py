"""Functions that make rows, of arrays, maps and structs with NULLs and without elements; and constants."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from property.judge import WAYS, Judge

pytestmark = pytest.mark.long

VIEWS = {
    "exploded": "SELECT c, k, explode(a) AS x FROM t",
    "exploded_outer": "SELECT c, k, explode_outer(a) AS x FROM t",
    "with_place": "SELECT c, posexplode(af) AS (p, x) FROM t",
    "with_place_outer": "SELECT c, posexplode_outer(af) AS (p, x), i FROM t",
    "kept_too": "SELECT c, a, explode(a) AS x FROM t",
    "entries": "SELECT c, explode(m) AS (name, v) FROM t",
    "entries_outer": "SELECT c, s, posexplode_outer(m) AS (p, name, v) FROM t",
    "of_maps": "SELECT c, explode(array(m, NULL)) AS x FROM t",
    "inlined": "SELECT c, inline(array(st, named_struct('x', i, 'y', s, 'z', f))) FROM t",
    "inlined_outer": "SELECT c, inline_outer(if(b, array(st), NULL)) FROM t",
    "structs": "SELECT c, x.y, x FROM t LATERAL VIEW explode(array(st, st)) q AS x",
    "nested": """SELECT c, x, e FROM t LATERAL VIEW OUTER explode(array(a, array(7), NULL)) q AS x
        LATERAL VIEW OUTER explode(x) o AS e""",
    "pairs": "SELECT c, x, e FROM t LATERAL VIEW explode(a) q AS x LATERAL VIEW posexplode(af) o AS p, e",
    "of_columns": "SELECT c, explode(array(i, l, 3)) AS x FROM t",
    "words": "SELECT c, p, x FROM t LATERAL VIEW OUTER posexplode(split(s, 'a')) q AS p, x",
    "entry_structs": "SELECT c, e.key, e FROM t LATERAL VIEW explode(map_entries(m)) q AS e",
    "names": "SELECT c, explode_outer(map_keys(m)) AS name, element_at(a, 1) AS x FROM t WHERE size(a) > 0",
    "stacked": "SELECT c, stack(3, 'i', i, 'y', cast(y AS INT), 'h') AS (name, v) FROM t",
    "counted": "SELECT c, x, count(*) AS n, sum(l) AS l FROM t LATERAL VIEW explode(a) q AS x GROUP BY c, x",
    "different": "SELECT DISTINCT c, k, x FROM t LATERAL VIEW explode(af) q AS x",
    "joined": "SELECT u.c, x, u.l FROM (SELECT c, explode(a) AS x FROM t) q JOIN u ON q.c = u.c AND x = u.i",
    "lateral": "SELECT c, x FROM t, LATERAL explode(a) AS q(x)",
    "pivoted": "SELECT * FROM (SELECT c, i, l FROM t) PIVOT (sum(l) FOR i IN (1, 2, NULL))",
    "unpivoted": "SELECT c, n, v FROM t UNPIVOT (v FOR n IN (i, l))",
    "unpivoted_pairs": """SELECT * FROM (SELECT c, i, f, l, cast(r AS DOUBLE) AS r FROM t)
        UNPIVOT INCLUDE NULLS ((v, w) FOR n IN ((i, f) AS a, (l, r) AS b))""",
}
IN_SPARK = {
    "in_spark": "SELECT c, x FROM t LATERAL VIEW explode(filter(a, z -> z > 1)) q AS x WHERE x < 3",
    "letters": "SELECT c, x FROM t LATERAL VIEW explode(split(s, '')) q AS x",
    "made_maps": "SELECT c, name, v FROM t LATERAL VIEW explode(map('i', i, 'l', l)) q AS name, v",
}
CONSTANTS = {
    "stated": "SELECT * FROM VALUES (1, 'a', map('b', 1, 'a', 2)), (2, NULL, map()) AS v(x, y, m)",
    "one_row": "SELECT 1 AS x, array(1.5D, -0.0D, NULL) AS a, named_struct('p', DATE '2020-01-01') AS s",
    "numbers": "SELECT id FROM range(3, 300, 7)",
    "from_one_row": "SELECT explode(sequence(1, 5)) AS x",
    "united": """SELECT c AS n, k FROM t UNION ALL SELECT 1, 'x'
        UNION ALL SELECT * FROM VALUES (2, NULL), (2, NULL)""",
    "united_once": "SELECT c AS n, i FROM t UNION SELECT * FROM VALUES (1, 2), (3, 4), (3, 4)",
    "never": "SELECT c, k FROM t WHERE 1 = 2",
    "never_counted": "SELECT count(*) AS n, max(i) AS i FROM t WHERE false",
    "beside_none": "SELECT c, k FROM t UNION ALL SELECT c, k FROM u WHERE false",
    "looked_up": "SELECT c, i, e FROM t JOIN VALUES (1, 'a'), (2, 'b'), (2, 'c') AS v(x, e) ON i = x",
    "counted_constants": """SELECT e, count(*) AS n FROM t JOIN VALUES (1, 'a'), (2, 'b') AS v(x, e) ON i = x
        GROUP BY e""",
    "both_constant": "SELECT count(*) AS n, sum(x) AS x FROM VALUES (1), (2), (2) AS v(x)",
    "numbered": "SELECT c, id FROM t JOIN range(5) ON i = id",
}
SORTED = "map_from_entries(array_sort(map_entries(m)))"
ORACLE = {"entries_outer": f"SELECT c, s, posexplode_outer({SORTED}) AS (p, name, v) FROM t"}
"""A table keeps its maps in the order of their keys."""


@pytest.fixture(scope="module")
def judge(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Judge:
    return Judge(spark, tmp_path_factory.mktemp("generators"), {**VIEWS, **CONSTANTS}, oracle=ORACLE)


@pytest.mark.parametrize("way", WAYS)
def test_made_and_constant_rows_are_at_each_step_what_spark_answers(judge: Judge, way: str) -> None:
    assert not judge.wrong(way)


@pytest.mark.parametrize("way", ["batch", "batch late"])
def test_collections_may_be_computed_in_spark(spark: SparkSession, tmp_path: Path, way: str) -> None:
    assert not Judge(spark, tmp_path, IN_SPARK, planned_in="batch").wrong(way)

"""Aggregates of all kinds: distinct values, grouping sets, extremes by another column, statistics, bits."""

import pytest
from pyspark.sql import SparkSession

from property.judge import WAYS, Judge

pytestmark = pytest.mark.long

DISTINCT = {
    "distinct": "SELECT c, k, count(DISTINCT i) AS n FROM t GROUP BY c, k",
    "distinct_sums": """SELECT c, k, sum(DISTINCT l) AS s, avg(DISTINCT l) AS a,
        count(DISTINCT l) AS n FROM u GROUP BY c, k""",
    "distinct_floats": "SELECT c, count(DISTINCT f) AS n, count(DISTINCT r, f) AS m FROM t GROUP BY c",
    "distinct_nested": """SELECT c, count(DISTINCT st) AS n, count(DISTINCT af) AS m,
        count(DISTINCT bin) AS b FROM t GROUP BY c""",
    "distinct_pairs": "SELECT c, count(DISTINCT i, s) AS n, count(DISTINCT s, i) AS m FROM t GROUP BY c",
    "distinct_beside": """SELECT c, k, count(DISTINCT s) AS n, count(*) AS m, sum(l) AS l,
        max(dt) AS d FROM t GROUP BY c, k""",
    "distinct_where": """SELECT c, count(DISTINCT i) FILTER (WHERE l > 0) AS n,
        count(DISTINCT i) AS m FROM t GROUP BY c""",
    "distinct_several": """SELECT c, k, count(DISTINCT i) AS a, count(DISTINCT s) FILTER (WHERE b) AS e,
        sum(DISTINCT d) AS d, avg(l) AS g, count(*) FILTER (WHERE b) AS h,
        max(s) AS m FROM t GROUP BY c, k""",
    "distinct_all": "SELECT count(DISTINCT i) AS n, count(DISTINCT s) AS s FROM t WHERE c = 1",
    "distinct_none": """SELECT count(DISTINCT i) AS n, sum(DISTINCT i) AS s, count(*) AS m
        FROM t WHERE i = 12345""",
    "distinct_guarded": """SELECT c, count(DISTINCT k) AS n,
        sum(100 / v) FILTER (WHERE v <> 0) AS s FROM p GROUP BY c""",
    "distinct_had": "SELECT c, count(*) AS n FROM t GROUP BY c HAVING count(DISTINCT k) > 2",
}
SETS = {
    "rolled": """SELECT c, k, b, grouping(k) AS g, grouping_id() AS h, sum(l) AS s, count(*) AS n
        FROM t GROUP BY c, ROLLUP (k, b)""",
    "cubed": "SELECT c, k, y, count(i) AS n, max(s) AS m FROM t GROUP BY c, CUBE (k, y)",
    "sets": "SELECT c, k, i, min(f) AS m FROM u GROUP BY GROUPING SETS ((c, k), (c, i), (c), (c, k))",
    "sets_distinct": "SELECT c, k, count(DISTINCT i) AS n, count(*) AS m FROM t GROUP BY c, ROLLUP (k)",
    "sets_all": "SELECT k, count(*) AS n FROM p WHERE c = 2 GROUP BY ROLLUP (k)",
    "sets_computed": """SELECT c, upper(k) AS u, length(s) AS h, sum(l) AS l FROM t GROUP BY c,
        CUBE (upper(k), length(s))""",
}
EXTREMES = {
    "outermost": """SELECT c, k, min_by(l, struct(i, l)) AS a, max_by(l, struct(i, l)) AS b
        FROM t GROUP BY c, k""",
    "outermost_id": "SELECT c, min_by(id, struct(v, id)) AS a, max_by(v, id) AS b FROM p GROUP BY c",
    "outermost_where": """SELECT c, max_by(s, struct(f, s)) FILTER (WHERE b) AS a,
        min_by(f, struct(f, i)) AS e FROM t GROUP BY c""",
    "outermost_all": "SELECT max_by(id, struct(v, c, id)) AS m, min_by(v, id) AS n FROM p WHERE v > 100",
}

# Added to what may come close to zero, where Spark has nothing but rounding errors.
FAR = "+ 1e4"
# Whether an infinity makes a covariance infinite or NaN, Spark leaves to the order of rows.
FINITE = "f <> double('inf') AND f <> double('-inf')"
STATISTICS = {
    "spreads": """SELECT c, k, var_pop(f) AS a, var_samp(f) AS b, stddev_pop(f) AS d, stddev(f) AS e
        FROM {u} GROUP BY c, k""",
    "spreads_of_wholes": """SELECT c, variance(l) AS a, stddev(i) FILTER (WHERE l > 0) AS b,
        var_pop(y) AS d FROM {t} GROUP BY c""",
    "spreads_of_decimals": "SELECT c, k, stddev(d) AS a, std(d) AS b FROM {t} GROUP BY c, k",
    "shapes": f"""SELECT c, k, skewness(f) {FAR} AS a, kurtosis(f) {FAR} AS b,
        skewness(l) {FAR} AS d FROM {{u}} GROUP BY c, k""",
    "pairs": f"""SELECT c, k, covar_pop(f, y) {FAR} AS a, covar_samp(f, y) {FAR} AS b, corr(f, y) {FAR} AS d,
        regr_count(f, y) AS n FROM {{t}} WHERE {FINITE} GROUP BY c, k""",
    "lines": f"""SELECT c, regr_slope(f, h) {FAR} AS a, regr_intercept(f, h) {FAR} AS b,
        regr_r2(f, h) {FAR} AS d, regr_sxx(f, h) AS e, regr_syy(f, h) AS g,
        regr_sxy(f, h) + 1e9 AS m, regr_avgx(f, h) {FAR} AS o FROM {{t}} WHERE {FINITE}
        GROUP BY c""",
    "spreads_none": """SELECT stddev(f) AS a, var_pop(l) AS b, corr(f, l) AS d, kurtosis(f) AS e,
        regr_r2(f, l) AS g, covar_samp(l, f) AS h FROM {t} WHERE i = 12345""",
    "spreads_distinct": "SELECT c, stddev(DISTINCT i) AS a, count(DISTINCT s) AS n FROM {t} GROUP BY c",
}
OTHERS = {
    "truths": """SELECT c, k, bool_and(b) AS a, bool_or(b) AS e, every(b) FILTER (WHERE i > 0) AS g,
        count_if(l > 2) AS h, any(i > 3) AS m FROM t GROUP BY c, k""",
    "bits": """SELECT c, k, bit_and(i) AS a, bit_or(l) AS b, bit_xor(y) AS d,
        bit_xor(h) FILTER (WHERE b) AS e FROM t GROUP BY c, k""",
    "decimals": """SELECT c, k, sum(d) AS a, avg(d) AS b, sum(w) AS e, avg(w) AS g,
        avg(CAST(d AS DECIMAL(6, 2))) AS h, sum(CAST(d AS DECIMAL(6, 2))) AS m,
        avg(DISTINCT CAST(d AS DECIMAL(8, 3))) AS o FROM t GROUP BY c, k""",
    "tried": """SELECT c, try_sum(CAST(i AS BIGINT) * 4294967296) AS a, try_avg(l) AS b, try_sum(d) AS d,
        try_avg(CAST(d AS DECIMAL(6, 2))) AS e FROM t WHERE i >= 0 GROUP BY c""",
    "none": """SELECT bit_and(i) AS a, bool_or(b) AS b, count_if(b) AS d, try_sum(l) AS e,
        avg(CAST(d AS DECIMAL(6, 2))) AS g,
        min_by(s, i) AS h, sum(DISTINCT l) AS m FROM t WHERE i = 12345""",
}
VIEWS = DISTINCT | SETS | EXTREMES | OTHERS


def over(queries: dict[str, str], t: str, u: str) -> dict[str, str]:
    return {name: query.format(t=t, u=u) for name, query in queries.items()}


# Squares of what is left out have no double; one partition, as Spark does not find a constant to be one else.
FINE = "(SELECT {hint} * FROM {table} WHERE f <> 1e300)"


@pytest.fixture(scope="module")
def judge(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Judge:
    ours, theirs = (
        over(STATISTICS, *(FINE.format(hint=hint, table=table) for table in "tu"))
        for hint in ("", "/*+ COALESCE(1) */")
    )
    return Judge(spark, tmp_path_factory.mktemp("aggregates"), VIEWS | ours, oracle=theirs)


@pytest.mark.parametrize("way", WAYS)
def test_aggregates_are_at_each_step_what_spark_answers(judge: Judge, way: str) -> None:
    assert not judge.wrong(way)

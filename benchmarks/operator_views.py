"""A view for each operator, over facts and dims, with the cost that it claims.

`k` is a key of ten facts, whatever their number; `g` is one of a thousand groups, which grow. `at` grows with
the rows, ten facts a second.
"""

from dataclasses import dataclass

TABLES = """
CREATE TABLE facts (k BIGINT, g INT, v BIGINT, x DOUBLE, at TIMESTAMP, s STRING);
CREATE TABLE dims (id BIGINT PRIMARY KEY, y BIGINT);
"""
FACTS_PER_KEY = 10
GROUPS = 1000

CHANGE = "O(change)"
LOG = "O(change · log state)"
TOUCHED = "O(rows of the touched groups)"


@dataclass(frozen=True, slots=True)
class Case:
    """`flat` says that a change of so many rows should cost the same whatever the size of the state: of the
    groups that it touches, too, the size stays."""

    query: str
    cost: str
    flat: bool = True
    recursive: bool = False
    spark: str | None = None
    """Another query for Spark, where it cannot say the same; empty if it can say nothing."""

    @property
    def asked(self) -> str:
        return self.query if self.spark is None else self.spark


def aggregated(functions: str, key: str = "k") -> str:
    return f"SELECT {key}, {functions} FROM facts GROUP BY {key}"


def windowed(functions: str, over: str) -> str:
    return f"SELECT k, v, {functions} OVER ({over}) AS w FROM facts"


LINEAR = {
    "filter and project": Case("SELECT k, v + 1 AS v FROM facts WHERE v % 3 = 0", CHANGE),
    "union all": Case("SELECT k, v FROM facts UNION ALL SELECT id, y FROM dims", CHANGE),
    "explode": Case("SELECT k, explode(array(v, v + 1)) AS e FROM facts", CHANGE),
}
JOINS = {
    "inner join": Case("SELECT k, v, y FROM facts JOIN dims ON k = id", LOG),
    "left join": Case("SELECT k, v, y FROM facts LEFT JOIN dims ON k = id AND y > 0", LOG),
    "full join": Case("SELECT k, id, v, y FROM facts FULL JOIN dims ON k = id", LOG),
    "semi join": Case("SELECT k, v FROM facts WHERE k IN (SELECT id FROM dims WHERE y > 500)", LOG),
    "anti join": Case(
        "SELECT k, v FROM facts WHERE NOT EXISTS (SELECT 1 FROM dims WHERE id = k AND y > 500)", LOG
    ),
    "not in": Case("SELECT k, v FROM facts WHERE k NOT IN (SELECT id FROM dims WHERE y > 500)", LOG),
    "range join": Case(
        "SELECT k, id FROM dims JOIN (SELECT k, v FROM facts WHERE v % 50 = 0) ON v BETWEEN id AND id + 2",
        LOG,
    ),
    "cross join with a scalar": Case(
        "SELECT k, v FROM facts CROSS JOIN (SELECT max(id) - 1000 AS m FROM dims) WHERE k > m", LOG
    ),
}
AGGREGATES = {
    "count and sum": Case(aggregated("count(*) AS n, sum(v) AS s, avg(v) AS a", "g"), CHANGE),
    "sum of floats": Case(aggregated("sum(x) AS s", "g"), CHANGE),
    "variance and corr": Case(aggregated("var_samp(x) AS s, corr(x, v) AS c"), CHANGE),
    "min and max": Case(aggregated("min(v) AS a, max(v) AS b", "g"), LOG),
    "max_by": Case(aggregated("max_by(x, v) AS a", "g"), LOG),
    "count distinct": Case(aggregated("count(DISTINCT s) AS a, count(DISTINCT v) AS b", "g"), LOG),
    "rollup": Case("SELECT g, s, sum(v) AS v FROM facts GROUP BY ROLLUP (g, s)", CHANGE),
    "collect_list": Case(
        aggregated("collect_list(v) AS a"), TOUCHED, spark=aggregated("sort_array(collect_list(v)) AS a")
    ),
    "median": Case(aggregated("median(v) AS m"), TOUCHED),
    "pivot": Case(
        "SELECT * FROM (SELECT g, s, v FROM facts) PIVOT (sum(v) FOR s IN ('a' AS a, 'b' AS b))", CHANGE
    ),
}
SETS = {
    "distinct": Case("SELECT DISTINCT k, s FROM facts", LOG),
    "except": Case("SELECT k FROM facts EXCEPT SELECT id FROM dims WHERE y > 500", LOG),
    "intersect all": Case("SELECT k FROM facts INTERSECT ALL SELECT id FROM dims", LOG),
}
WINDOWS = {
    "top 3": Case(
        "SELECT g, v FROM facts QUALIFY row_number() OVER (PARTITION BY g ORDER BY v DESC, k) <= 3",
        LOG,
    ),
    "order by limit": Case("SELECT k, v FROM facts ORDER BY v DESC, k LIMIT 100", LOG),
    "row_number": Case(windowed("row_number()", "PARTITION BY k ORDER BY v, x"), TOUCHED),
    "lag": Case(windowed("lag(v)", "PARTITION BY k ORDER BY v, x"), TOUCHED),
    "running sum": Case(windowed("sum(v)", "PARTITION BY k ORDER BY v, x"), TOUCHED),
    "range frame": Case(
        windowed("sum(v)", "PARTITION BY g ORDER BY at RANGE INTERVAL 5 SECONDS PRECEDING"), LOG
    ),
}
TIME = {
    "tumbling": Case("SELECT window(at, '10 seconds') AS w, sum(v) AS v FROM facts GROUP BY 1", CHANGE),
    "hopping": Case(
        "SELECT window(at, '10 seconds', '5 seconds') AS w, sum(v) AS v FROM facts GROUP BY 1", CHANGE
    ),
    "session": Case(
        "SELECT g, session_window(at, '30 seconds') AS w, sum(v) AS v FROM facts GROUP BY 1, 2", LOG
    ),
}
RECURSION = {
    "recursive query": Case(
        "WITH RECURSIVE r(k, n) AS (SELECT id, 0 FROM dims WHERE y = 0 UNION ALL "
        "SELECT dims.y + 1, n + 1 FROM r JOIN dims ON dims.id = r.k AND dims.y + 1 < dims.id) "
        "SELECT k, count(*) AS n FROM r GROUP BY k",
        "O(changed derivations · log state)",
    ),
}
CASES = LINEAR | JOINS | AGGREGATES | SETS | WINDOWS | TIME | RECURSION

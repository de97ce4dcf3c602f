"""The queries that whole pipelines are proved by, each over tables of `changing_tables`.

All but the `GLOBAL` ones keep the column `c` apart, and show it.
"""

SELECTS = {
    "everything": "SELECT * FROM t",
    "computed": """SELECT c, CAST(i AS BIGINT) + l AS il, -l AS minus, l * 3 AS l3, l % 7 AS rest,
        f * 2 AS f2, d + d AS dd, d * 2 AS d2, f / 3 AS third, coalesce(i, -1) AS filled,
        abs(l) AS size FROM t""",
    "texts": """SELECT c, length(s) AS n, substring(s, 1, 2) AS head, concat(s, '-', k) AS both_,
        CASE WHEN b THEN s WHEN i IS NULL THEN 'none' ELSE k END AS chosen FROM t""",
    "moments": """SELECT c, date_add(dt, 1) AS after, datediff(dt, DATE'2000-01-01') AS days, year(dt) AS y,
        hour(ts) AS h FROM t WHERE dt < DATE'9999-01-01'""",
    "casts": """SELECT c, CAST(y AS INT) AS y, CAST(i AS DOUBLE) AS i, CAST(d AS DOUBLE) AS d,
        CAST(b AS INT) AS b FROM t""",
    "kept": "SELECT c, k, i FROM t WHERE i > 3 AND (k = 'hot' OR s <> 'a')",
    "in_list": "SELECT c, k, f FROM t WHERE k IN ('a', 'hot') AND NOT (f <= 1.5)",
    "absent": "SELECT c, i, l FROM t WHERE k IS NULL OR NOT b",
    "odd_floats": "SELECT c, f, r FROM t WHERE f = 0.0 OR f >= CAST('NaN' AS DOUBLE) OR r = 0.25",
}
UNIONS = {
    "widened_union": "SELECT c, k, i FROM t UNION ALL SELECT c, k, l FROM u",
    "three_unions": """SELECT c, k AS x, f AS y FROM t UNION ALL SELECT c, s, i FROM u
        UNION ALL SELECT c, id, v FROM p""",
    "same_table": "SELECT c, k FROM t WHERE i > 0 UNION ALL SELECT c, k FROM t WHERE l > 0",
}
JOINS = {
    "joined": "SELECT t.c, t.k, t.i, u.l FROM t JOIN u ON t.c = u.c AND t.k = u.k",
    "joined_if": """SELECT t.c, t.i AS a, u.i AS b FROM t JOIN u
        ON t.c = u.c AND t.k = u.k AND t.l < u.l + 3""",
    "composite": "SELECT t.c, t.s, u.k FROM t JOIN u ON t.c = u.c AND t.s = u.s AND t.i = u.i",
    "null_safe": "SELECT t.c, t.k, u.i FROM t JOIN u ON t.c = u.c AND t.k <=> u.k AND t.i <=> u.i",
    "by_float": "SELECT t.c, t.f, u.s FROM t JOIN u ON t.c = u.c AND t.f = u.f",
    "widened_key": "SELECT t.c, t.y, u.l FROM t JOIN u ON t.c = u.c AND t.y = u.l",
    "with_itself": "SELECT x.c, x.i AS a, y.l AS b FROM u x JOIN u y ON x.c = y.c AND x.k = y.k",
    "shifted": "SELECT x.c, x.i AS a, y.i AS b FROM u x JOIN u y ON x.c = y.c AND x.i + 1L = y.i",
    "by_key": "SELECT p.c, p.id, u.l, p.v FROM p JOIN u ON p.c = u.c AND p.id = u.k",
    "three_tables": """SELECT t.c, t.i, u.l, p.v FROM t JOIN u ON t.c = u.c AND t.k = u.k
        JOIN p ON p.c = u.c AND p.id = t.k""",
    "pairs_of_case": "SELECT x.c, x.v AS a, y.v AS b FROM p x CROSS JOIN p y WHERE x.c = y.c AND x.v < y.v",
}
EXTREMES = ("i", "l", "f", "r", "d", "w", "b", "dt", "ts", "tn", "bin", "a", "af", "st")
GROUPS = {
    "counted": """SELECT c, k, count(*) AS n, count(i) AS ni, count(f, s) AS nfs, count(1) AS one
        FROM t GROUP BY c, k""",
    "sums": """SELECT c, k, sum(y) AS y, sum(h) AS h, sum(i) AS i, sum(l) AS l, sum(r) AS r, sum(f) AS f,
        sum(d) AS d, sum(w) AS w FROM t GROUP BY c, k""",
    "averages": """SELECT c, k, avg(y) AS y, avg(i) AS i, avg(l) AS l, avg(r) AS r, avg(f) AS f, avg(d) AS d,
        avg(w) AS w FROM t GROUP BY c, k""",
    "lows": f"""SELECT c, k, min(y) AS y, min(s) AS s, {", ".join(f"min({x}) AS {x}" for x in EXTREMES)}
        FROM t GROUP BY c, k""",
    "highs": f"""SELECT c, s, max(h) AS h, max(k) AS k, {", ".join(f"max({x}) AS {x}" for x in EXTREMES)}
        FROM t GROUP BY c, s""",
    "filtered": """SELECT c, count(*) FILTER (WHERE b) AS n, sum(l) FILTER (WHERE k = 'hot') AS hot,
        avg(f) FILTER (WHERE f < 50) AS low, max(i) FILTER (WHERE NOT b) AS m FROM t GROUP BY c""",
    "computed_groups": """SELECT c, l % 3 AS g, sum(l * 2) + count(*) AS x, max(length(s)) AS m
        FROM t GROUP BY c, l % 3""",
    "having": "SELECT c, k, sum(l) AS s FROM u GROUP BY c, k HAVING count(*) > 1 AND min(i) < 5",
    "by_odd_floats": "SELECT c, f, r, count(*) AS n FROM t GROUP BY c, f, r",
    "by_types": "SELECT c, b, dt, bin, d, tn, count(*) AS n FROM t GROUP BY c, b, dt, bin, d, tn",
    "by_nested": "SELECT c, a, af, st, count(*) AS n FROM t GROUP BY c, a, af, st",
    "keyed_groups": """SELECT c, k, count(*) AS n, sum(v) AS v, min(f) AS low, max(id) AS id
        FROM p GROUP BY c, k""",
}
DISTINCT = {
    "distinct_keys": "SELECT DISTINCT c, k FROM t",
    "distinct_nested": "SELECT DISTINCT c, f, af, st FROM t",
    "distinct_computed": "SELECT DISTINCT c, f * 0 AS z, l % 2 AS o FROM t",
    "united": "SELECT c, k FROM t UNION SELECT c, k FROM u",
}
ON_VIEWS = {
    "over_sums": "SELECT c, max(l) AS best, count(*) AS n FROM sums GROUP BY c",
    "over_join": "SELECT c, k, count(*) AS n, sum(l) AS l FROM joined GROUP BY c, k",
    "views_joined": """SELECT a.c, a.k, a.n, b.n AS pairs FROM counted a
        JOIN over_join b ON a.c = b.c AND a.k = b.k""",
    "view_and_table": """SELECT a.c, a.n, u.i FROM counted a JOIN u ON a.c = u.c AND a.k = u.k
        WHERE u.i > 0""",
    "view_with_itself": """SELECT x.c, x.n AS a, y.n AS b FROM counted x
        JOIN counted y ON x.c = y.c AND x.n = y.n""",
    "over_distinct": "SELECT c, count(k) AS n FROM distinct_keys GROUP BY c",
    "third_storey": "SELECT c, n + 1 AS n FROM over_sums WHERE best > 0",
}
GLOBAL = {
    "total": "SELECT count(*) AS n, sum(l) AS l, avg(d) AS d, min(s) AS s, max(ts) AS ts FROM t",
    "total_of_none": "SELECT count(*) AS n, sum(i) AS i, max(k) AS k FROM u WHERE k = 'nobody'",
    "total_of_groups": "SELECT max(n) AS n, count(*) AS g FROM counted",
}
IN_SPARK = {
    "spark_select": "SELECT c, md5(k) AS m, a, soundex(s) AS s FROM t",
    "spark_filter": "SELECT c, k, i FROM t WHERE array_contains(transform(a, x -> x + 1), 3)",
    "spark_groups": "SELECT c, soundex(s) AS s, sum(crc32(bin)) AS n FROM t GROUP BY c, soundex(s)",
    "spark_join": """SELECT t.c, t.k, u.l FROM t JOIN u ON t.c = u.c AND md5(t.k) = md5(u.k)""",
    "spark_result": "SELECT c, k, md5(max(s)) AS m FROM t GROUP BY c, k",
    "over_spark": "SELECT c, s, count(*) AS n FROM spark_select GROUP BY c, s",
}
"""With functions that are not proved, which Spark itself computes: not on the inline runtime."""

PER_CASE = {**SELECTS, **UNIONS, **JOINS, **GROUPS, **DISTINCT, **ON_VIEWS}
EVERYWHERE = {**PER_CASE, **GLOBAL}

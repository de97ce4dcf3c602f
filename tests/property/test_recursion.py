"""Recursive queries against Spark where it comes to an end, and else against a search of the graph.

Edges come and go, also in cycles, with duplicates and NULL ends.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from random import Random

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from property.changing_tables import CASE, Append, Bags, Column, History, Row, Table, some
from property.judge import CASES, STEPS, WAYS, Judge, Other
from property.spark_oracle import Bag

POINTS = (0, 1, 2, 3, 4)
EDGES = Table(
    "e",
    (
        CASE,
        Column("a", "BIGINT", pa.int64(), some(*POINTS, null=0.05)),
        Column("b", "BIGINT", pa.int64(), some(*POINTS, null=0.05)),
        Column("w", "BIGINT", pa.int64(), lambda random: random.randint(1, 4)),
    ),
)
FORWARD = "e.a < e.b"
VIEWS = {
    "levels": f"""WITH RECURSIVE r(c, a, b, n) AS (SELECT c, a, b, 1 FROM e WHERE {FORWARD}
        UNION ALL SELECT r.c, r.a, e.b, r.n + 1 FROM r JOIN e ON r.c = e.c AND r.b = e.a WHERE {FORWARD})
        SELECT * FROM r""",
    "counted_paths": f"""WITH RECURSIVE r(c, a, b, w) AS (SELECT c, a, b, w FROM e WHERE {FORWARD}
        UNION ALL SELECT r.c, r.a, e.b, r.w + e.w FROM r JOIN e ON r.c = e.c AND r.b = e.a WHERE {FORWARD})
        SELECT c, a, b, count(*) AS n, min(w) AS least FROM r GROUP BY c, a, b""",
    "left_levels": """WITH RECURSIVE r(c, a, b, n) AS (SELECT c, a, b, 0 FROM e UNION ALL
        SELECT r.c, r.b, e.b, n + 1 FROM r LEFT JOIN e ON r.c = e.c AND r.b = e.a AND e.w > 1
        WHERE n < 3 AND r.b IS NOT NULL) SELECT * FROM r""",
    "until_blocked": """WITH RECURSIVE r(c, a, b, n) AS (SELECT c, a, b, 0 FROM e UNION ALL
        SELECT r.c, r.a, e.b, n + 1 FROM r JOIN e ON r.c = e.c AND r.b = e.a WHERE n < 3
        AND NOT EXISTS (SELECT 1 FROM e x WHERE x.c = r.c AND x.a = r.b AND x.w = 4))
        SELECT c, a, b, n, count(*) AS x FROM r GROUP BY c, a, b, n""",
    "countdown": """WITH RECURSIVE r(c, n) AS (
        SELECT c, w FROM e UNION ALL SELECT c, n - 1 FROM r WHERE n > 0)
        SELECT c, n, count(*) AS x FROM r GROUP BY c, n""",
}
RECURSIVE = {
    "reached": """(c INT, a BIGINT, b BIGINT) AS SELECT c, a, b FROM e
        UNION SELECT reached.c, reached.a, e.b FROM reached JOIN e ON reached.c = e.c AND reached.b = e.a""",
    "doubled": """(c INT, a BIGINT, b BIGINT) AS SELECT c, a, b FROM e
        UNION SELECT x.c, x.a, y.b FROM doubled x JOIN doubled y ON x.c = y.c AND x.b = y.a""",
    "distance": """(c INT, a BIGINT, b BIGINT, w BIGINT) AS SELECT c, a, b, min(w) AS w FROM (
        SELECT c, a, b, w FROM e UNION ALL SELECT d.c, d.a, e.b, d.w + e.w
        FROM distance d JOIN e ON d.c = e.c AND d.b = e.a) GROUP BY c, a, b""",
    "spread": """(c INT, p BIGINT) AS SELECT c, a AS p FROM e WHERE a = 0
        UNION SELECT e.c, e.b FROM e WHERE (e.c, e.a) IN (SELECT c, p FROM spread)""",
    "component": """(c INT, p BIGINT, least BIGINT) AS
        WITH links AS (SELECT c, a, b FROM e WHERE a IS NOT NULL AND b IS NOT NULL
            UNION SELECT c, b, a FROM e WHERE a IS NOT NULL AND b IS NOT NULL)
        SELECT c, p, min(least) AS least FROM (SELECT c, a AS p, a AS least FROM links UNION ALL
            SELECT links.c, b, k.least FROM component k JOIN links ON k.c = links.c AND k.p = links.a)
        GROUP BY c, p""",
}


def graph_history(seed: int) -> History:
    """Edges that come and go, a few in each step and case."""
    random = Random(seed)
    held: list[Row] = []
    found = History()
    for _ in range(STEPS):
        rows, weights = [], []
        for case in range(CASES):
            for _ in range(random.randint(0, 3)):
                row, weight = EDGES.row(random, case), random.choice([1, 1, 2])
                rows.append(row)
                weights.append(weight)
                held += [row] * weight
        for row in random.sample(held, len(held) // 4):
            held.remove(row)
            rows.append(row)
            weights.append(-1)
        found.steps.append([Append("apply", {"e": EDGES.arrow(rows, weights)})])
        found.bags.append({"e": list(held)})
    return found


HISTORY = graph_history(3)


def least(edges: Iterable[Row]) -> dict[Row, int]:
    """From each point to each that can be reached, by case, the least sum of weights. NULL leads nowhere."""
    edges = set(edges)
    best: dict[Row, int] = {}
    ways = list(edges)
    while ways:
        better = []
        for c, a, b, w in ways:
            if w < best.get((c, a, b), 10**9):
                best[c, a, b] = w
                better.append((c, a, b, w))
        ways = [
            (c, a, e, w + v)
            for c, a, b, w in better
            for d, f, e, v in edges
            if b is not None and (c, b) == (d, f)
        ]
    return best


def distances(bags: Bags) -> Bag:
    return Counter((*way, w) for way, w in least(bags["e"]).items())


def reached(bags: Bags) -> Bag:
    return Counter(least(bags["e"]).keys())


def spread(bags: Bags) -> Bag:
    starts = {(row[0], 0) for row in bags["e"] if row[1] == 0}
    return Counter({*starts, *((c, b) for c, a, b in least(bags["e"]) if a == 0)})


def components(bags: Bags) -> Bag:
    links = {(c, x, y, 1) for c, a, b, _ in bags["e"] for x, y in ((a, b), (b, a)) if None not in (a, b)}
    linked: dict[Row, list[int]] = {}
    for c, a, b in least(links):
        linked.setdefault((c, a), [a]).append(b)
    return Counter((*point, min(others)) for point, others in linked.items())


SEARCHES: dict[str, Callable[[Bags], Bag]] = {
    "reached": reached,
    "doubled": reached,
    "distance": distances,
    "spread": spread,
    "component": components,
}
OTHERS = {
    view: Other(f"CREATE RECURSIVE VIEW {view} {definition}", SEARCHES[view])
    for view, definition in RECURSIVE.items()
}


@pytest.fixture(scope="module")
def judge(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Judge:
    root = tmp_path_factory.mktemp("recursion")
    return Judge(spark, root, VIEWS, tables=[EDGES], course=HISTORY, others=OTHERS)


@pytest.mark.parametrize("way", WAYS)
def test_recursive_views_are_at_each_step_what_a_search_finds(judge: Judge, way: str) -> None:
    assert not judge.wrong(way)

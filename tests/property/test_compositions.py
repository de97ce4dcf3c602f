"""Random circuits of three to six operators against Spark.

Every layer takes and gives rows (c, k, n, m), so that any may stand on any other. The environment's
TIDEMILL_CIRCUITS says how many are drawn.
"""

import os
from random import Random

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from property.changing_tables import CASE, Append, Column, History, Row, Table, some
from property.judge import CASES, STEPS, Judge

pytestmark = pytest.mark.long

CIRCUITS = int(os.environ.get("TIDEMILL_CIRCUITS", "16"))
WAYS = ("small steps", "one step", "created late", "batch")

NAME = Column("k", "STRING", pa.string(), some("a", "b", "c", "é", null=0.1))
FEW = some(*range(-2, 5), null=0.15)
TABLES = tuple(
    Table(name, (CASE, NAME, Column("n", "BIGINT", pa.int64(), FEW), Column("m", "BIGINT", pa.int64(), FEW)))
    for name in ("x", "y")
)

ONE: dict[str, str] = {
    "filter": "SELECT c, k, n, m FROM ({}) WHERE n > 0 OR m IS NULL",
    "project": "SELECT c, k, m AS n, n % 3 AS m FROM ({})",
    "distinct": "SELECT DISTINCT c, k, n, m FROM ({})",
    "count": "SELECT c, k, count(*) AS n, count(m) AS m FROM ({}) GROUP BY c, k",
    "sum": "SELECT c, k, sum(n) AS n, max(m) AS m FROM ({}) GROUP BY c, k",
    "count distinct": "SELECT c, k, count(DISTINCT n) AS n, count(DISTINCT m) AS m FROM ({}) GROUP BY c, k",
    "rollup": "SELECT c, k, sum(n) AS n, min(m) AS m FROM ({}) GROUP BY c, ROLLUP (k)",
    "rank": """SELECT c, k, n, CAST(rank() OVER (PARTITION BY c, k ORDER BY m DESC NULLS LAST, n) AS BIGINT)
        AS m FROM ({})""",
    "top": """SELECT c, k, n, m FROM ({})
        QUALIFY row_number() OVER (PARTITION BY c, k ORDER BY n DESC, m NULLS LAST) <= 2""",
    "running": """SELECT c, k, sum(n) OVER (PARTITION BY c ORDER BY n, m) AS n, m FROM ({})""",
    "explode": "SELECT c, k, e AS n, m FROM ({}) LATERAL VIEW explode(array(n, m)) AS e",
    "percentile": """SELECT c, k, CAST(percentile_disc(0.5) WITHIN GROUP (ORDER BY n) AS BIGINT) AS n,
        sum(m) AS m FROM ({}) GROUP BY c, k""",
}
"""Over one input."""
TWO: dict[str, str] = {
    "join": "SELECT l.c, l.k, l.n, r.m FROM ({}) l JOIN ({}) r ON l.c = r.c AND l.k = r.k AND l.n <= r.n",
    "left": "SELECT l.c, l.k, l.n, r.m FROM ({}) l LEFT JOIN ({}) r ON l.c = r.c AND l.n = r.n",
    "full": """SELECT coalesce(l.c, r.c) AS c, r.k, l.n, r.m FROM ({}) l FULL JOIN ({}) r
        ON l.c = r.c AND l.k = r.k AND l.m = r.m""",
    "semi": "SELECT c, k, n, m FROM ({}) l WHERE EXISTS (SELECT 1 FROM ({}) r WHERE r.c = l.c AND r.n = l.m)",
    "anti": """SELECT c, k, n, m FROM ({}) l
        WHERE NOT EXISTS (SELECT 1 FROM ({}) r WHERE r.c = l.c AND r.k = l.k AND r.n < l.n)""",
    "union": "SELECT c, k, n, m FROM ({}) UNION ALL SELECT c, k, m, n FROM ({})",
    "except": "SELECT c, k, n, m FROM ({}) EXCEPT SELECT c, k, n, m FROM ({})",
    "intersect all": "SELECT c, k, n, m FROM ({}) INTERSECT ALL SELECT c, k, n, m FROM ({})",
}
"""Over two."""


def circuit(random: Random, operators: int) -> str:
    """A query of so many operators."""
    if not operators:
        return f"SELECT c, k, n, m FROM {random.choice(['x', 'y'])}"
    if random.random() < 0.6:
        return random.choice(list(ONE.values())).format(circuit(random, operators - 1))
    left = random.randint(0, operators - 1)
    sides = circuit(random, left), circuit(random, operators - 1 - left)
    return random.choice(list(TWO.values())).format(*sides)


def drawn(seed: int, count: int) -> dict[str, str]:
    random = Random(seed)
    return {f"circuit{number}": circuit(random, random.randint(3, 6)) for number in range(count)}


def small_history(seed: int) -> History:
    """Few rows for each case, that come, repeat and go."""
    random = Random(seed)
    held: dict[str, list[Row]] = {table.name: [] for table in TABLES}
    found = History()
    for _ in range(STEPS):
        frames = {table.name: table.arrow(*_changes(random, table, held[table.name])) for table in TABLES}
        found.steps.append([Append("apply", frames)])
        found.bags.append({name: list(rows) for name, rows in held.items()})
    return found


def _changes(random: Random, table: Table, held: list[Row]) -> tuple[list[Row], list[int]]:
    cases = [case for case in range(CASES) for _ in range(random.randint(0, 2))]
    changes = [(table.row(random, case), random.choice([1, 1, 2])) for case in cases]
    for row, weight in changes:
        held += [row] * weight
    changes += [(held.pop(random.randrange(len(held))), -1) for _ in range(len(held) // 4)]
    return [row for row, _ in changes], [weight for _, weight in changes]


@pytest.fixture(scope="module")
def judge(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Judge:
    root = tmp_path_factory.mktemp("compositions")
    return Judge(spark, root, drawn(11, CIRCUITS), tables=TABLES, course=small_history(12))


@pytest.mark.parametrize("way", WAYS)
def test_random_circuits_are_at_each_step_what_spark_answers(judge: Judge, way: str) -> None:
    assert not judge.wrong(way)

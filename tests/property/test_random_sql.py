"""Random SQL for a fixed time, and cases that once went wrong.

TIDEMILL_RANDOM_SQL_SECONDS says for how long queries are drawn, TIDEMILL_RANDOM_SQL_SEED which ones: by
default always the same, so that no change is blamed for what it did not do. `make random-sql` draws others.
"""

import math
import os
import re
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from itertools import islice
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from property.random_sql.__main__ import told
from property.random_sql.case import Case, View
from property.random_sql.changes import Change, Step
from property.random_sql.judge import Answers, judge
from property.random_sql.rounds import Limits, rounds, run
from property.random_sql.shrink import shrink
from property.spark_oracle import Bag
from tidemill import Pipeline
from tidemill.api.rows import Rows

pytestmark = pytest.mark.long

SECONDS = float(os.environ.get("TIDEMILL_RANDOM_SQL_SECONDS", "30"))
SEED = int(os.environ.get("TIDEMILL_RANDOM_SQL_SEED", "104"))
SHRINK_S = 60

CONSTRUCTS = (
    *("LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN", "SEMI JOIN", "ANTI JOIN", "NATURAL", "USING"),
    *("FILTER (WHERE", "count(DISTINCT", "GROUPING SETS", "ROLLUP", "CUBE", "HAVING", "GROUP BY ALL"),
    *(" IN (SELECT", "NOT IN (SELECT", "NOT EXISTS", "LATERAL (", "ROWS BETWEEN", "RANGE BETWEEN", "QUALIFY"),
    *("LIMIT", "OFFSET", "UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL", "WITH"),
    *(
        "WITH RECURSIVE",
        "CASE WHEN",
        "LATERAL VIEW",
        "PIVOT",
        "UNPIVOT",
        "window(",
        "session_window(",
        "VALUES",
        "WINDOW",
        "FILTER (WHERE",
        "percent_rank()",
        "grouping_id()",
        "LATERAL explode(",
    ),
)

DEAL = Change("deals", (1, 2, 0.5, "a", Decimal("2.50"), datetime(2024, 2, 29, tzinfo=UTC)))
OTHER_DEAL = Change("deals", (1, None, math.nan, None, None, None))


def once(*queries: str, steps: tuple[Step, ...] = (((DEAL,),), ((OTHER_DEAL,),))) -> Case:
    """Views v0, v1, … that are created at once."""
    return Case(tuple(View(f"v{number}", query) for number, query in enumerate(queries)), steps)


ONCE_WRONG = {
    "distinct constants with a separator": once(
        "SELECT k, listagg(DISTINCT 'a', ',') WITHIN GROUP (ORDER BY 'a') AS l FROM deals GROUP BY k"
    ),
    "a limit that takes all rows there can be": once(
        "SELECT a FROM VALUES (2), (1) AS t(a) ORDER BY a LIMIT 5",
        "SELECT k, a FROM deals JOIN (SELECT a FROM VALUES (2), (1) AS t(a) ORDER BY a LIMIT 5) ON a = k",
    ),
    "one of rows that are all the same": once(
        "SELECT k FROM deals INTERSECT SELECT 1 FROM deals",
        "SELECT count(*) AS n FROM (SELECT * FROM deals LIMIT 3)",
        "SELECT 7 AS n FROM deals LIMIT 1 OFFSET 1",
    ),
    "whether an outer join has a row, of which Catalyst takes one side's first": once(
        "SELECT k, EXISTS (SELECT 1 FROM deals one LEFT JOIN links two ON one.k = two.k) AS e FROM deals",
        "SELECT k FROM deals WHERE s = 'a' OR EXISTS (SELECT 1 FROM links LEFT JOIN deals ON l = n)",
    ),
    "the value of a subquery beside the first rows of an order": once(
        "SELECT k, s, n + (SELECT max(n) FROM deals) AS m, EXISTS (SELECT 1 FROM deals WHERE f > 1) AS e"
        " FROM (SELECT k, s, n FROM deals ORDER BY k, s, n LIMIT 7)",
    ),
    "a window function of rows that a lateral join finds": once(
        "SELECT one.k, x.n, x.r FROM deals one, LATERAL ("
        "SELECT n, rank() OVER (ORDER BY n) AS r FROM deals other WHERE other.k = one.k) x",
    ),
    "an array that is a constant in a condition of both sides": replace(
        once(
            "SELECT s, array(n) AS a FROM deals EXCEPT SELECT s, array(2L) FROM deals",
            "SELECT s, struct(n) AS a FROM deals INTERSECT SELECT s, named_struct('n', 2L) FROM deals",
        ),
        runtime="batch",
    ),
    "a window function that is a constant": once(
        "SELECT count(NULL) OVER (PARTITION BY k) AS a, count(f) OVER (PARTITION BY k) AS b"
        ", avg(d) OVER () AS c FROM deals",
        "SELECT count(NULL) OVER (PARTITION BY k) AS a, s FROM deals",
    ),
}


@pytest.mark.timeout(SECONDS + 10 * SHRINK_S)
def test_random_queries_are_at_each_step_what_spark_answers(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        print(f"\nrandom SQL: TIDEMILL_RANDOM_SQL_SEED={SEED}", flush=True)
    tally = run(spark, tmp_path, SEED, Limits(SECONDS), shrink_s=SHRINK_S)
    print(told(tally))

    assert not tally.faults, "\n\n".join(tally.faults)
    assert len(tally.verdict.judged) > tally.queries / 2


@pytest.mark.parametrize("case", ONCE_WRONG.values(), ids=ONCE_WRONG.keys())
def test_what_was_once_wrong_is_right(spark: SparkSession, tmp_path: Path, case: Case) -> None:
    verdict = judge(spark, tmp_path / "case", case)

    assert verdict.wrong == []
    assert verdict.judged == [view.name for view in case.views]


def test_a_seed_draws_the_same_cases_again() -> None:
    once, again = ([str(case) for _, case in islice(rounds(7), 3)] for _ in range(2))

    assert once == again
    assert len(set(once)) == 3


def test_every_construct_is_drawn() -> None:
    texts = [view.text for _, case in islice(rounds(7), 60) for view in case.views]

    assert {construct for construct in CONSTRUCTS if not any(construct in text for text in texts)} == set()


def test_oddities_of_the_rows_are_drawn() -> None:
    steps = [step for _, case in islice(rounds(7), 10) for step in case.steps]
    changes = [change for step in steps for append in step for change in append]
    values = [value for change in changes for value in change.row]

    assert () in steps
    assert any(value is None for value in values)
    assert any(isinstance(value, float) and math.isnan(value) for value in values)
    assert "-0.0" in map(str, values)
    assert min(change.weight for change in changes) < 0 < 1 < max(change.weight for change in changes)


def test_a_wrong_answer_is_found(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = Answers.bag

    def other(self: Answers, view: str) -> Bag:
        found = right(self, view)
        return found if view == "v0" or not found else found - type(found)([next(iter(found))])

    monkeypatch.setattr(Answers, "bag", other)
    views = (View("v0", "SELECT k FROM links"), View("v1", "SELECT k, l FROM links WHERE l > 1"))
    steps = (((Change("links", (1, 1)),),), ((Change("links", (2, 3)),),))

    verdict = judge(spark, tmp_path / "case", Case(views, steps))

    assert [(wrong.view, wrong.step) for wrong in verdict.wrong] == [("v1", 1)]
    assert "+1 (2, 3)" in verdict.wrong[0].what


def test_a_wrong_feed_is_found(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = Pipeline.changes

    def all_of_them(self: Pipeline, view: str, since: int) -> Rows:
        return right(self, view, min(since, -1))

    monkeypatch.setattr(Pipeline, "changes", all_of_them)
    steps = (((Change("links", (1, 1)),),), ((Change("links", (2, 3)),),))

    verdict = judge(spark, tmp_path / "case", Case((View("v0", "SELECT k FROM links"),), steps))

    assert [(wrong.view, wrong.step, wrong.what) for wrong in verdict.wrong] == [
        ("v0", 1, "feed differs: +1 (1,)")
    ]


def test_a_fault_is_made_small() -> None:
    """As if every query with a FULL JOIN were wrong as soon as a link from 1 is there."""
    case = next(
        case for _, case in rounds(3) if "FULL JOIN" in str(case) and "Change('links', (1," in str(case)
    )

    def fails(candidate: Case) -> bool:
        return "FULL JOIN" in str(candidate) and "Change('links', (1," in str(candidate)

    small = shrink(case, fails, 20)

    [view] = small.views
    assert len(re.findall("SELECT", view.text)) <= 4
    assert [len(append) for step in small.steps for append in step] == [1]

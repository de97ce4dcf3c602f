"""Data of which a view cannot be computed: view and operator are named, nothing of the step is applied."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidemill
from tidemill.pipeline.errors import StepAborted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemill.api.pipeline import RuntimeName

NAN = float("nan")
TABLE = "CREATE TABLE t (k BIGINT, v BIGINT, d DECIMAL(38, 0), s STRING, xs ARRAY<DOUBLE>)"
BIG = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Case:
    """`query` fails when `bad` is there too, with this `error` in this `operator`."""

    query: str
    bad: dict[str, Any]
    error: str
    operator: str
    runtime: "RuntimeName" = "inline"


CASES = {
    "a sum that is too large": Case(
        "SELECT k, sum(v) AS s FROM t GROUP BY k", {"k": 1, "v": BIG}, "ARITHMETIC_OVERFLOW", "aggregate"
    ),
    "a sum of decimals that is too large": Case(
        "SELECT k, sum(d) AS s FROM t GROUP BY k",
        {"k": 1, "d": 10**38 - 1},
        "NUMERIC_VALUE_OUT_OF_RANGE",
        "aggregate",
    ),
    "a number that is too large": Case(
        "SELECT k, v * 2 AS w FROM t", {"k": 1, "v": BIG}, "ARITHMETIC_OVERFLOW", "select"
    ),
    "a division by zero": Case("SELECT k, 10 / v AS w FROM t", {"k": 1, "v": 0}, "DIVIDE_BY_ZERO", "select"),
    "a condition that divides by zero": Case(
        "SELECT a.k FROM t AS a JOIN t AS b ON a.k = b.k AND 10 / b.v > 1",
        {"k": 1, "v": 0},
        "DIVIDE_BY_ZERO",
        "select",
    ),
    "text that is no number": Case(
        "SELECT k, CAST(s AS INT) AS n FROM t", {"k": 1, "s": "seven"}, "CAST_INVALID_INPUT", "select"
    ),
    "two rows where one is wanted": Case(
        "SELECT k, (SELECT v FROM t WHERE k = 9) AS w FROM t",
        {"k": 9, "v": 3},
        "SCALAR_SUBQUERY_TOO_MANY_ROWS",
        "atmostone",
    ),
    "a comparator that says nothing of two NaN": Case(
        "SELECT k, array_sort(xs, (a, b) -> CASE WHEN a < b THEN -1 WHEN a > b THEN 1 END) AS xs FROM t",
        {"k": 1, "xs": [NAN, NAN]},
        "COMPARATOR_RETURNS_NULL",
        "sparkselect",
        "batch",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_view_is_named_and_the_step_not_applied(
    spark: "SparkSession", tmp_path: Path, case: Case
) -> None:
    good = {"k": 1, "v": 2, "d": 3, "s": "4", "xs": [1.0, NAN]}
    with tidemill.Pipeline(spark, tmp_path / "p", runtime=case.runtime) as p:
        p.sql(f"{TABLE}; CREATE VIEW fine AS SELECT k FROM t; CREATE VIEW broken AS {case.query}")
        p.insert("t", [good, {**good, "k": 9}])
        p.step()
        before = p.view("broken").to_arrow().sort_by("k").to_pylist()
        receipt = p.insert("t", [{**dict.fromkeys(good), **case.bad}])

        with pytest.raises(StepAborted, match=case.error) as caught:
            p.step()

        assert caught.value.view == "broken"
        assert caught.value.operator.startswith(case.operator)
        assert caught.value.offsets == (receipt.offset,)
        assert str(p.view("broken").to_arrow().sort_by("k").to_pylist()) == str(before)
        assert p.view("fine").to_arrow().num_rows == 2

        p.discard(receipt.offset)
        p.insert("t", [{**good, "k": 7}])
        p.step()
        assert p.view("fine").to_arrow().num_rows == 3


def test_a_row_without_a_time_is_in_no_window_and_no_session(spark: "SparkSession", tmp_path: Path) -> None:
    with tidemill.Pipeline(spark, tmp_path / "p", runtime="inline") as p:
        p.sql("""
            CREATE TABLE t (k BIGINT, at TIMESTAMP);
            CREATE VIEW sessions AS SELECT k, count(*) AS n FROM t GROUP BY k, session_window(at, '1 minute');
            CREATE VIEW windows AS SELECT k, count(*) AS n FROM t GROUP BY k, window(at, '1 minute')
        """)
        p.insert("t", [{"k": 1, "at": None}])
        p.step()

        assert [p.view(name).to_arrow().num_rows for name in p.views] == [0, 0]

        p.delete("t", [{"k": 1, "at": None}])
        p.step()
        assert [p.view(name).to_arrow().num_rows for name in p.views] == [0, 0]

"""Recursive views of a pipeline: other numbers of workers, recursions without an end, views on top."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidemill import Pipeline
from tidemill.pipeline.errors import StepAborted

SCRIPT = """
CREATE TABLE e (a BIGINT, b BIGINT);
CREATE RECURSIVE VIEW reach (a BIGINT, b BIGINT) MAX RECURSION LEVEL 20 AS
    SELECT a, b FROM e UNION SELECT reach.a, e.b FROM reach JOIN e ON reach.b = e.a;
CREATE VIEW sizes AS SELECT a, count(*) AS n FROM reach GROUP BY a;
"""


def edges(*pairs: tuple[int, int]) -> list[dict[str, int]]:
    return [{"a": a, "b": b} for a, b in pairs]


def sizes(p: Pipeline) -> dict[int, int]:
    return {row["a"]: row["n"] for row in p.view("sizes").to_arrow().to_pylist()}


def test_a_loop_goes_on_with_another_number_of_workers(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "p"
    with Pipeline(spark, folder, runtime="inline", workers=2) as p:
        p.sql(SCRIPT)
        p.insert("e", edges((1, 2), (2, 3), (3, 1), (3, 4)))
        p.step()
    for workers, (a, b) in zip([3, 1, 5], [(4, 5), (5, 6), (6, 7)], strict=True):
        with Pipeline(spark, folder, runtime="inline", workers=workers) as p:
            p.insert("e", edges((a, b)))
            p.step()

            assert sizes(p)[1] == b
    with Pipeline(spark, folder, runtime="batch") as p:
        p.delete("e", edges((3, 1)))
        p.step()

        assert sizes(p) == {1: 6, 2: 5, 3: 4, 4: 3, 5: 2, 6: 1}


def test_a_recursion_without_an_end_is_named_and_its_step_not_applied(
    spark: SparkSession, tmp_path: Path
) -> None:
    with Pipeline(spark, tmp_path / "p", runtime="inline") as p:
        p.sql(SCRIPT)
        p.sql("""CREATE VIEW levels AS WITH RECURSIVE r(a, n) AS (
            SELECT a, 0 FROM e UNION ALL SELECT e.b, r.n + 1 FROM r JOIN e ON r.a = e.a)
            SELECT a, max(n) AS n FROM r GROUP BY a""")
        p.insert("e", edges((1, 2), (2, 3)))
        p.step()
        before = sizes(p)
        p.insert("e", edges((3, 1)))

        with pytest.raises(StepAborted, match="RECURSION_LEVEL_LIMIT_EXCEEDED") as caught:
            p.step()

        assert caught.value.view == "levels"
        assert caught.value.operator.startswith("loop")
        assert sizes(p) == before
        [waiting] = p.pending()
        p.discard(waiting.offset)
        p.insert("e", edges((3, 4)))
        p.step()
        assert sizes(p)[1] == 3

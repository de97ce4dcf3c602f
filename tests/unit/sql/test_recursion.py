"""Recursive views and queries: what may stand inside them, and what is refused by name."""

import pytest

from tidemill.pipeline.errors import Refused
from tidemill.pipeline.plan.node import Loop
from unit.sql.scripts import Script

TABLES = "CREATE TABLE e (a BIGINT, b BIGINT, s STRING);"
CLOSURE = "SELECT a, b FROM e UNION SELECT r.a, e.b FROM r JOIN e ON r.b = e.a"


def test_a_recursive_view_is_a_loop_around_what_refers_to_it(script: Script) -> None:
    catalog = script.run(f"{TABLES} CREATE RECURSIVE VIEW r (a BIGINT, b BIGINT) AS {CLOSURE}")

    [loop] = [node for node in catalog.circuit.nodes if isinstance(node, Loop)]
    assert loop.limit == 100
    assert len(loop.inputs) == 2  # the edges of the first part, and those that are joined


def test_the_level_limit_of_the_session_holds_for_recursive_queries(script: Script) -> None:
    levels = "WITH RECURSIVE r(a) AS (SELECT a FROM e UNION ALL SELECT a - 1 FROM r WHERE a > 0)"
    catalog = script.run(f"{TABLES} CREATE VIEW v AS {levels} SELECT * FROM r")

    [loop] = [node for node in catalog.circuit.nodes if isinstance(node, Loop)]
    assert loop.limit == 100


@pytest.mark.parametrize(
    ("columns", "query", "message"),
    [
        ("a BIGINT, b BIGINT", "SELECT a FROM e UNION SELECT a FROM r", "2 columns are declared.* gives 1"),
        ("a INT", "SELECT a FROM e UNION SELECT a FROM r", "column a is declared as INT, .* gives BIGINT"),
        ("a BIGINT", "SELECT count(*) FROM r", "an aggregate over all rows is not supported inside"),
        (
            "a STRING",
            "SELECT s FROM e UNION SELECT soundex(a) FROM r",
            "a function that is not proved is not supported inside a recursive query",
        ),
    ],
)
def test_what_a_loop_cannot_hold_is_refused(script: Script, columns: str, query: str, message: str) -> None:
    with pytest.raises(Refused, match=f"view r: .*{message}"):
        script.run(f"{TABLES} CREATE RECURSIVE VIEW r ({columns}) AS {query}")


def test_a_view_that_was_refused_leaves_its_name_free(script: Script) -> None:
    with pytest.raises(Refused):
        script.run(f"{TABLES} CREATE RECURSIVE VIEW r (a INT) AS SELECT a FROM e UNION SELECT a FROM r")

    with pytest.raises(Refused, match="TABLE_OR_VIEW_NOT_FOUND"):
        script.run("CREATE VIEW v AS SELECT * FROM r")

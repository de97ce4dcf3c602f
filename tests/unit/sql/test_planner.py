"""Names are found, and refused, as the session compares them."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tidemill.pipeline.errors import NameTaken, NoSuchName, Refused
from tidemill.sql.planner import Planner

SCRIPT = "CREATE TABLE Bids (Price BIGINT); CREATE VIEW Top AS SELECT max(price) AS m FROM bids"


@pytest.fixture
def planner(spark: SparkSession) -> Planner:
    return run(Planner(spark), SCRIPT)


@pytest.fixture
def strict(spark: SparkSession) -> Iterator[Planner]:
    """One on a session that tells upper from lower case."""
    spark.conf.set("spark.sql.caseSensitive", "true")
    yield run(Planner(spark), "CREATE TABLE Bids (Price BIGINT)")
    spark.conf.unset("spark.sql.caseSensitive")


def run(planner: Planner, text: str) -> Planner:
    change = planner.script(text)
    if change is not None:
        planner.load(change.plan)
    return planner


def test_a_name_is_found_in_any_case(planner: Planner) -> None:
    assert planner.name_of("BIDS") == "Bids"
    assert planner.schema("tOP").names == ["m"]
    assert planner.frame("bids").columns == ["Price"]
    assert planner.source("bIDS").table == "Bids"
    assert planner.state("TOP") == planner.state("Top")
    assert planner.settle("BIDS") is None


def test_a_table_is_settled_under_the_name_it_was_created_with(spark: SparkSession) -> None:
    planner = run(Planner(spark), "CREATE TABLE Bids (Price BIGINT)")
    change = planner.settle("bids")
    assert change is not None
    planner.load(change.plan)

    assert planner.tables == ("Bids",)
    assert planner.source("BIDS").table == "Bids"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE TABLE bids (x INT)", "table bids: there is a table Bids, and the session ignores case"),
        ("CREATE VIEW BIDS AS SELECT * FROM bids", "view BIDS: there is a table Bids"),
        ("CREATE TABLE TOP (x INT)", "table TOP: there is a view Top"),
        ("CREATE TABLE Bids (x INT)", "table Bids: there is a table of that name"),
    ],
)
def test_a_name_that_differs_only_by_case_is_taken(planner: Planner, statement: str, message: str) -> None:
    with pytest.raises(NameTaken) as taken:
        run(planner, statement)

    assert message in str(taken.value)
    assert planner.tables == ("Bids",)


def test_what_a_script_creates_too_late_is_told_with_its_line(planner: Planner) -> None:
    with pytest.raises(Refused) as error:
        run(planner, "CREATE VIEW one AS\n SELECT * FROM Other;\n\nCREATE VIEW other AS SELECT * FROM bids")
    assert (
        str(error.value) == "line 2, column 16: view one: view other is created later, at line 4: move it up"
    )

    with pytest.raises(Refused, match="table t is created later, at line 2: move it up"):
        run(planner, "CREATE VIEW one AS SELECT * FROM t;\nCREATE TABLE t (a INT)")
    with pytest.raises(Refused, match="TABLE_OR_VIEW_NOT_FOUND"):
        run(planner, "CREATE VIEW one AS SELECT * FROM one")


def test_if_not_exists_and_drop_find_names_in_any_case(planner: Planner) -> None:
    run(planner, "CREATE TABLE IF NOT EXISTS bids (x INT); CREATE VIEW IF NOT EXISTS TOP AS SELECT 1")
    assert (planner.tables, planner.views) == (("Bids",), ("Top",))

    run(planner, "DROP VIEW top; DROP TABLE BIDS")
    assert (planner.tables, planner.views) == ((), ())


def test_a_session_that_minds_case_has_both_names(strict: Planner) -> None:
    with pytest.raises(NoSuchName, match="there is no table or view bids; there are: Bids"):
        strict.schema("bids")

    run(strict, "CREATE TABLE bids (x INT)")
    assert strict.tables == ("Bids", "bids")
    assert strict.schema("bids").names == ["x"]

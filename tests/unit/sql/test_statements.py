"""Scripts are cut into statements by words, never by text that only looks like one."""

import pytest

from tidemill.pipeline.errors import Place, Refused
from tidemill.sql.statements import (
    CreateRecursiveView,
    CreateTable,
    CreateView,
    DropTable,
    DropView,
    parse,
)

SCRIPT = """-- a head; with a semicolon
CREATE TABLE IF NOT EXISTS bids (
  auction BIGINT COMMENT 'it;s',   -- of the auction
  `the price` DECIMAL(10, 2) NOT NULL,
  tags ARRAY<STRUCT<a: INT, b: MAP<STRING, INT>>>
);
create materialized view top as
  select /*+ broadcast(b) */ ';' as x, -- what; it is
         max(`the price`) from bids b;
DROP VIEW IF EXISTS top; ; drop table bids"""


def test_a_script_is_split_into_its_statements() -> None:
    table, view, drop_view, drop_table = parse(SCRIPT)

    assert isinstance(table, CreateTable)
    assert table.name == "bids"
    assert table.if_not_exists
    assert table.place == Place(2, 1)
    assert table.key == ()
    assert table.columns[1:] == (
        "`the price` DECIMAL(10, 2) NOT NULL",
        "tags ARRAY<STRUCT<a: INT, b: MAP<STRING, INT>>>",
    )
    assert isinstance(view, CreateView)
    assert isinstance(drop_view, DropView)
    assert drop_view.if_exists
    assert isinstance(drop_table, DropTable)
    assert (drop_table.name, drop_table.if_exists, drop_table.text) == ("bids", False, "drop table bids")


def test_a_script_may_begin_with_a_byte_order_mark() -> None:
    assert parse("\ufeff" + SCRIPT) == parse(SCRIPT)


def test_a_query_is_kept_as_it_was_written() -> None:
    view = parse(SCRIPT)[1]

    assert isinstance(view, CreateView)
    assert view.query.startswith("select /*+ broadcast(b) */ ';' as x, -- what; it is\n")
    assert view.query.endswith("from bids b")
    assert view.query_place == Place(8, 3)
    assert view.text.startswith("create materialized view top as\n")


@pytest.mark.parametrize(
    ("columns", "key", "left"),
    [
        ("a INT, b INT, PRIMARY KEY (b, a)", ("b", "a"), ("a INT", "b INT")),
        ("a INT PRIMARY KEY NOT NULL, b INT", ("a",), ("a INT NOT NULL", "b INT")),
        ("a INT, CONSTRAINT k primary  key (`a`)", ("a",), ("a INT",)),
        ("a INT", (), ("a INT",)),
    ],
)
def test_a_primary_key_is_found_on_the_table_and_on_a_column(
    columns: str, key: tuple[str, ...], left: tuple[str, ...]
) -> None:
    (table,) = parse(f"CREATE TABLE t ({columns})")

    assert isinstance(table, CreateTable)
    assert table.key == key
    assert table.columns == left


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n\n  SELECT 1", "line 3, column 3: SELECT is no statement of a pipeline"),
        ("INSERT INTO t VALUES (1)", "rows come and go with p.insert()"),
        ("MERGE INTO t USING u ON a = b", "rows come and go with p.insert()"),
        ("SET spark.sql.ansi.enabled = false", "it belongs to the Spark session"),
        ("DECLARE VARIABLE x INT", "it belongs to the Spark session"),
        ("ALTER TABLE t ADD COLUMN b INT", "DROP it, then CREATE it anew"),
        ("REFRESH TABLE t", "p.step() brings views up to date"),
        ("SHOW TABLES", "p.tables and p.views"),
        ("GRANT SELECT ON t TO u", "GRANT is no statement of a pipeline, which knows CREATE TABLE"),
        ("CREATE OR REPLACE VIEW v AS SELECT 1", "DROP first"),
        ("CREATE TEMPORARY VIEW v AS SELECT 1", "CREATE TEMPORARY is not supported"),
        ("CREATE FUNCTION f AS 'x'", "CREATE FUNCTION is not supported"),
        ("DROP FUNCTION f", "DROP FUNCTION is not supported"),
        ("CREATE VIEW a.b AS SELECT 1", "names have one part"),
        ("CREATE VIEW v (a INT) AS SELECT 1", "line 1, column 18: INT after column a: a view's columns have"),
        ("CREATE VIEW v () AS SELECT 1", "expected a name, found )"),
        ("CREATE VIEW v COMMENT x AS SELECT 1", "line 1, column 23: expected a string, found X"),
        ("CREATE VIEW v TBLPROPERTIES ('a' = 'b') AS SELECT 1", "expected AS and the query of the view"),
        ("CREATE VIEW v AS", "no query"),
        ("CREATE VIEW v SELECT 1", "expected AS"),
        ("CREATE TABLE t (a INT) USING parquet", "line 1, column 24: USING after the columns"),
        ("CREATE TABLE t (a INT) PARTITIONED BY (a)", "leave it out, the pipeline keeps the rows itself"),
        ("CREATE TABLE t AS SELECT 1", "CREATE VIEW t AS keeps it up to date"),
        ("CREATE STREAMING TABLE t (a INT)", "line 1, column 8: CREATE STREAMING is not supported"),
        ("CREATE TABLE t (a INT, CONSTRAINT c CHECK (a > 0))", "column 37: CHECK is not supported"),
        ("CREATE TABLE t (a INT DEFAULT 3)", "DEFAULT of column a"),
        ("CREATE TABLE t (a INT, UNIQUE (a))", "UNIQUE is not supported"),
        (
            "CREATE TABLE t (a INT PRIMARY KEY, PRIMARY KEY (a))",
            "column 17: table t has more than one PRIMARY",
        ),
        ("CREATE TABLE t (a INT", "expected ), found the end"),
        ("CREATE TABLE t", "expected (, found the end"),
        ("DROP TABLE t CASCADE", "CASCADE is not understood"),
        ("CREATE VIEW v AS\n SELECT 'abc", "line 2, column 9: what starts here with ' has no end"),
        ("DROP TABLE t /* and", "line 1, column 14: the comment that starts here has no end"),
    ],
)
def test_what_is_no_statement_of_a_pipeline_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(Refused) as refused:
        parse(text)

    assert message in str(refused.value)


def test_a_view_may_name_its_columns_and_all_may_have_comments() -> None:
    table, view, recursive = parse(
        """CREATE TABLE t (a INT COMMENT 'one; two', b INT) COMMENT "the; table";
        CREATE VIEW v (x COMMENT 'an x', `a b`) COMMENT 'it\\'s; a view' AS SELECT a, b FROM t;
        CREATE RECURSIVE VIEW r (a INT COMMENT 'a') COMMENT 'r' AS SELECT 1"""
    )

    assert isinstance(table, CreateTable)
    assert table.columns == ("a INT COMMENT 'one; two'", "b INT")
    assert isinstance(view, CreateView)
    assert view.names == ("x", "a b")
    assert view.places == (Place(2, 24), Place(2, 42))
    assert view.query == "SELECT a, b FROM t"
    assert isinstance(recursive, CreateRecursiveView)
    assert recursive.columns == ("a INT COMMENT 'a'",)


def test_a_recursive_view_says_its_columns_and_how_deep_it_may_go() -> None:
    [view] = parse(
        "CREATE RECURSIVE VIEW r (a BIGINT, b MAP<STRING, INT>) MAX RECURSION LEVEL 7 AS SELECT 1, 2"
    )

    assert isinstance(view, CreateRecursiveView)
    assert (view.name, view.columns, view.levels) == ("r", ("a BIGINT", "b MAP<STRING, INT>"), 7)
    assert view.query == "SELECT 1, 2"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE RECURSIVE VIEW r AS SELECT 1", "line 1, column 25: a recursive view says its columns"),
        ("CREATE RECURSIVE VIEW r (a INT PRIMARY KEY) AS SELECT 1", "a view has neither PRIMARY KEY nor"),
        ("CREATE RECURSIVE VIEW r (a INT) MAX RECURSION LEVEL x AS SELECT 1", "expected a number, found X"),
        ("CREATE RECURSIVE VIEW r (a INT)", "expected AS and the query of the view, found the end"),
    ],
)
def test_a_recursive_view_that_is_not_whole_is_refused(text: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        parse(text)


@pytest.mark.parametrize(
    ("columns", "lateness", "definitions"),
    [
        ("a INT, at TIMESTAMP LATENESS INTERVAL '1 hour'", "INTERVAL '1 hour'", "at TIMESTAMP"),
        ("a INT, at DATE NOT NULL LATENESS INTERVAL 2 DAYS, b INT", "INTERVAL 2 DAYS", "at DATE NOT NULL"),
        ("a INT, at DATE LATENESS INTERVAL 2 DAYS NOT NULL", "INTERVAL 2 DAYS", "at DATE NOT NULL"),
        ("a INT, at DATE LATENESS INTERVAL '2' DAY PRIMARY KEY", "INTERVAL '2' DAY", "at DATE"),
    ],
)
def test_a_column_may_say_how_late_it_can_be(columns: str, lateness: str, definitions: str) -> None:
    [table] = parse(f"CREATE TABLE t ({columns})")

    assert isinstance(table, CreateTable)
    assert table.lateness == ("at", lateness)
    assert table.columns[1] == definitions


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE TABLE t (a DATE LATENESS '1 hour')", "LATENESS of column a is an interval"),
        (
            "CREATE TABLE t (a DATE LATENESS INTERVAL 1 DAY, b DATE LATENESS INTERVAL 1 DAY)",
            "more than one column with LATENESS",
        ),
    ],
)
def test_lateness_that_is_not_understood_is_refused(text: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        parse(text)

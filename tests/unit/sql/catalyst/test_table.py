"""CREATE TABLE takes all of Spark's types that can be kept."""

import pytest
from pyspark.sql import SparkSession

from tidemill.pipeline.errors import Refused, UnsupportedType
from tidemill.sql.catalyst import settings, table_schema
from tidemill.sql.statements import CreateTable, parse


def table(text: str) -> CreateTable:
    (statement,) = parse(f"CREATE TABLE t ({text})")
    assert isinstance(statement, CreateTable)
    return statement


def test_types_are_spelled_as_spark_spells_them(spark: SparkSession) -> None:
    statement = table(
        "a LONG, b DEC(5,2), c STRUCT<x: INT NOT NULL>, d TIMESTAMP_NTZ COMMENT 'when', PRIMARY KEY (A, d)"
    )
    schema, key = table_schema(spark, statement)

    types = [field["type"] for field in schema["fields"]]
    assert types[:2] == ["long", "decimal(5,2)"]
    assert types[2]["fields"][0]["nullable"] is False
    assert key == (0, 3)
    assert [field["nullable"] for field in schema["fields"]] == [False, True, True, False]


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ("a NOTATYPE", Refused, r"^line 1, column 17: table t: \[.*NOTATYPE\"\. SQLSTATE: \w+$"),
        ("a INT, A STRING", Refused, "column a is there twice"),
        (
            "a INT,\nPRIMARY KEY (b)",
            Refused,
            "^line 2, column 1: table t: column b of the PRIMARY KEY is not",
        ),
        ("a INT, PRIMARY KEY (a, A)", Refused, "names a column twice"),
        (
            "a INT,\n b INTERVAL DAY",
            UnsupportedType,
            "^line 2, column 2: table t: column 'b': .*interval day",
        ),
        ("a VARCHAR(10) PRIMARY KEY", UnsupportedType, "table t: column 'a': the type 'varchar.* use STRING"),
        ("a STRING COLLATE UNICODE_CI", UnsupportedType, "table t: column 'a': only the collation"),
        ("a INT,\n _Weight INT", Refused, "^line 2, column 2: table t: the name _Weight is taken by"),
    ],
)
def test_a_table_that_cannot_be_kept_is_refused(
    spark: SparkSession, columns: str, error: type[Refused], message: str
) -> None:
    with pytest.raises(error, match=message):
        table_schema(spark, table(columns))


def test_settings_that_change_answers_are_named(spark: SparkSession) -> None:
    before = settings(spark)
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        after = settings(spark)
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")

    assert before["spark.sql.session.timeZone"]
    assert {name for name in before if before[name] != after[name]} == {"spark.sql.ansi.enabled"}

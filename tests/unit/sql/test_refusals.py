"""What cannot be kept incrementally is refused by name, with its place and what to write instead."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tidemill.pipeline.errors import Refused, UnsupportedType
from unit.sql.scripts import Script

TABLES = """
CREATE TABLE bids (auction BIGINT, price BIGINT, bidder STRING, at TIMESTAMP, score DOUBLE);
CREATE TABLE auctions (id BIGINT PRIMARY KEY, category STRING NOT NULL);
"""
REFUSED = {
    "SELECT * FROM bids ORDER BY price": "ORDER BY without LIMIT is not supported yet in a view: a view has",
    "SELECT * FROM bids LIMIT 3": "LIMIT and OFFSET without ORDER BY take any rows",
    "SELECT * FROM bids ORDER BY price OFFSET 3": "OFFSET without LIMIT",
    "SELECT listagg(bidder) OVER (PARTITION BY auction) AS x FROM bids": "OVER (…) is not supported yet",
    "SELECT max(at) OVER (ORDER BY at RANGE INTERVAL '1' MONTH PRECEDING) AS n FROM bids": "RANGE over time",
    "SELECT (SELECT auction FROM bids WHERE price < id) AS a FROM auctions": "a correlated subquery",
    "SELECT approx_percentile(price, 0.5) AS n FROM bids": "use percentile, which is exact",
    "SELECT max_by(bidder, price, 2) AS n FROM bids": "max_by(bidder, price, 2) is not supported yet",
    "SELECT approx_count_distinct(price) AS n FROM bids": "use count(DISTINCT",
    "SELECT now() AS n FROM bids": "now() gives another value each time",
    "SELECT * FROM bids WHERE at > now() - INTERVAL 1 MONTH": "is not supported on the step's clock",
    "SELECT * FROM bids WHERE at > now() OR price = 1": "is not supported on the step's clock",
    "SELECT * FROM bids WHERE now() - at < INTERVAL 1 HOUR": "is not supported on the step's clock",
    "SELECT b.price FROM bids b JOIN auctions ON id = auction AND at > now()": "now() gives another value",
    "SELECT window(to_timestamp(bidder), '1 hour') AS w FROM bids": "window() over this time",
    "SELECT current_date() AS n FROM bids": "current_date() gives another value",
    "SELECT unix_timestamp() AS n FROM bids": "current_timestamp() gives another value",
    "SELECT rand() AS n FROM bids": "rand() gives another value",
    "SELECT rand() AS n FROM VALUES (1)": "rand() gives another value",
    "SELECT uniform(0, 1) AS n": "uniform() gives another value",
    "SELECT json_tuple(bidder, 'a') AS a FROM bids": "json_tuple, which makes rows, is not supported yet in",
    "SELECT v.pos FROM bids, LATERAL variant_explode(parse_json(bidder)) v": "variant_explode, which makes",
    "SELECT * FROM range(1000000)": "1000000 constant rows are too many",
    "SELECT uuid() AS n FROM bids": "uuid() gives another value",
    "SELECT monotonically_increasing_id() AS n FROM bids": "monotonically_increasing_id() gives another",
    "SELECT input_file_name() AS n FROM bids": "input_file_name() gives another value",
    "SELECT bidder FROM bids TABLESAMPLE (10 PERCENT)": "TABLESAMPLE",
    "SELECT bidder COLLATE UNICODE_CI AS c FROM bids": "collate",
    "SELECT auction, price AS auction FROM bids": "column auction is there twice",
    "SELECT price AS _weight FROM bids": "the name _weight is taken by the weights of changes",
    "SELECT bitmap_construct_agg(price) AS p FROM bids": "column 10: bitmap_construct_agg(price) is not",
    "SELECT listagg(DISTINCT bidder) WITHIN GROUP (ORDER BY bidder), count(DISTINCT price) FROM bids": (
        "Spark cannot optimize it: java.lang.ClassCastException"
    ),
    "SELECT nowhere FROM bids": "[UNRESOLVED_COLUMN",
    "SELECT * FROM nowhere": "[TABLE_OR_VIEW_NOT_FOUND]",
    "SELEC 1": "[PARSE_SYNTAX_ERROR]",
    "DROP TABLE bids": "[PARSE_SYNTAX_ERROR]",
    "INSERT INTO bids SELECT * FROM bids": "[PARSE_SYNTAX_ERROR]",
}


@pytest.mark.parametrize("query", REFUSED)
def test_it_is_refused_by_name_with_its_line(script: Script, query: str) -> None:
    with pytest.raises(Refused) as refused:
        script.run(f"{TABLES}CREATE VIEW v AS\n  {query}")

    assert REFUSED[query] in str(refused.value)
    assert str(refused.value).startswith("view v: ")
    assert str(refused.value).startswith(("view v: line 5, column ", "view v: the query of line 5: "))
    assert str(refused.value).count("line") == 1 + query.count("line")
    assert script.catalog.views == {}


def test_the_column_is_that_of_the_script(script: Script) -> None:
    with pytest.raises(Refused, match=r"line 5, column 13: rand\(\)"):
        script.run(f"{TABLES}CREATE VIEW v AS\n  SELECT 1, rand() AS r FROM bids")
    with pytest.raises(Refused, match=r"line 5, column 10: \[UNRESOLVED"):
        script.run(f"{TABLES}CREATE VIEW v AS\n  SELECT nowhere FROM bids")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT *\n FROM nosuch", "line 5, column 7: [TABLE_OR_VIEW_NOT_FOUND]"),
        ("SELECT *\n FROM bids GROUP GROUP", "line 5, column 23: [PARSE_SYNTAX_ERROR]"),
        ("SELECT *,\n now() AS n FROM bids", "line 5, column 2: now()"),
        ("SELECT *,\n current_date AS n FROM bids", "line 5, column 2: current_date()"),
        (
            "SELECT * FROM bids WHERE auction IN\n (SELECT id FROM auctions WHERE now() > now())",
            "line 5, column 33: now()",
        ),
        ("SELECT *,\n listagg(bidder) OVER () AS n FROM bids", "line 5, column 2: listagg(bidder"),
        ("SELECT bidder,\n bitmap_construct_agg(price) FROM bids GROUP BY 1", "line 5, column 2: bitmap"),
        ("SELECT bidder,\n json_tuple(bidder, 'a') AS x FROM bids", "line 5, column 2: json_tuple, which"),
    ],
)
def test_the_line_is_that_of_the_construct(script: Script, query: str, message: str) -> None:
    with pytest.raises(Refused) as refused:
        script.run(f"{TABLES}CREATE VIEW v AS {query}")

    assert str(refused.value).startswith(f"view v: {message}")


def test_a_type_that_cannot_be_kept_is_refused(script: Script) -> None:
    with pytest.raises(UnsupportedType, match="interval day"):
        script.run(f"{TABLES}CREATE VIEW v AS SELECT INTERVAL 1 DAY AS i FROM bids")


def test_tables_of_the_session_are_not_part_of_the_pipeline(spark: SparkSession, script: Script) -> None:
    script.run(TABLES)
    other = spark.createDataFrame([(1, "x")], "id BIGINT, name STRING")
    other.createOrReplaceTempView("others")
    try:
        with pytest.raises(Refused, match="id, name is not a table or view of the pipeline"):
            script.run("CREATE VIEW v AS SELECT name FROM others JOIN auctions USING (id)")
        with pytest.raises(Refused, match="id, name is not a table or view of the pipeline"):
            script.view("v", script.table("auctions").join(other, "id"))
    finally:
        spark.catalog.dropTempView("others")


def test_a_function_of_python_that_is_not_deterministic_is_refused(script: Script) -> None:
    script.run(TABLES)
    luck = F.udf(lambda text: text, "string").asNondeterministic()

    with pytest.raises(Refused, match="gives another value each time"):
        script.view("v", script.table("auctions").select(luck("category").alias("c")))


def test_a_frame_over_a_table_that_was_dropped_is_refused(script: Script) -> None:
    script.run(TABLES)
    frame = script.table("auctions").select("id")
    script.frames.forget("auctions")

    with pytest.raises(Refused, match="is not a table or view of the pipeline"):
        script.view("v", frame)

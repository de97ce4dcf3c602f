"""What cannot be kept incrementally is refused by name, with its place and what to write instead."""

import re
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tidemill.pipeline.errors import Refused
from tidemill.sql.words import place_at
from unit.sql.scripts import Script

TABLES = """
CREATE TABLE bids (auction BIGINT, price BIGINT, bidder STRING, at TIMESTAMP, score DOUBLE);
CREATE TABLE auctions (id BIGINT PRIMARY KEY, category STRING NOT NULL, tags MAP<STRING, INT>);
"""
ANOTHER = "gives another value each time"
BEFORE = "compute it before the rows are inserted"
IN_WHERE = "compare a column with it in a WHERE"
CLOCK = "compare a value of the row with now()"
SORT = "sort when you read it"
MOMENT = "is the moment at which the view is created"
NOW = "compare a column with now() or current_date() in a WHERE"
VALUE = "write the value itself"
SESSION = f"is what the session says when the view is created: {VALUE}"
FUNCTIONS = "the aggregate functions are count, sum"

# The query, with a caret where the construct stands; its name; what to write instead.
CASES = [
    # chance
    ("SELECT ^rand() AS n FROM bids", f"rand() {ANOTHER}", BEFORE),
    ("SELECT ^rand(7) AS n FROM bids", f"rand(7) {ANOTHER}", BEFORE),
    ("SELECT ^random() AS n FROM VALUES (1)", f"random() {ANOTHER}", BEFORE),
    ("SELECT price + ^randn() AS n FROM bids", f"randn() {ANOTHER}", BEFORE),
    ("SELECT ^randstr(3) AS n FROM bids", f"randstr(3) {ANOTHER}", BEFORE),
    ("SELECT ^uniform(0, 1) AS n", f"uniform(0, 1) {ANOTHER}", BEFORE),
    ("SELECT ^uuid() AS n FROM bids", f"uuid() {ANOTHER}", BEFORE),
    ("SELECT ^shuffle(array(price)) AS n FROM bids", f"shuffle(array(price)) {ANOTHER}", BEFORE),
    ("SELECT ^aes_encrypt(bidder, bidder) AS n FROM bids", f"aes_encrypt(bidder, bidder) {ANOTHER}", BEFORE),
    ("SELECT ^aes_encrypt(bidder, bidder, 'CBC', 'DEFAULT', bidder) AS n FROM bids", ANOTHER, BEFORE),
    ("SELECT transform(array(1), x -> x + ^rand()) AS n FROM bids", f"rand() {ANOTHER}", BEFORE),
    ("SELECT count(*) AS n FROM bids GROUP BY ^rand()", f"rand() {ANOTHER}", BEFORE),
    ("SELECT * FROM bids ORDER BY ^rand() LIMIT 3", f"rand() {ANOTHER}", BEFORE),
    ("SELECT price FROM bids WHERE price > (SELECT max(^rand()) FROM auctions)", "rand", "should not appear"),
    ("SELECT bidder FROM bids ^TABLESAMPLE (10 PERCENT)", "TABLESAMPLE is not", "choose them by a condition"),
    ("SELECT bidder FROM bids ^TABLESAMPLE (5 ROWS)", "TABLESAMPLE without", "say in which order"),
    # where rows lie
    (
        "SELECT ^monotonically_increasing_id() AS n FROM bids",
        f"monotonically_increasing_id() {ANOTHER}",
        BEFORE,
    ),
    ("SELECT ^spark_partition_id() AS n FROM bids", f"spark_partition_id() {ANOTHER}", BEFORE),
    ("SELECT ^input_file_name() AS n FROM bids", f"input_file_name() {ANOTHER}", BEFORE),
    ("SELECT ^input_file_block_start() AS n FROM bids", f"input_file_block_start() {ANOTHER}", BEFORE),
    (
        "SELECT ^java_method('java.lang.Math', 'abs', 1) AS n",
        f"java_method('java.lang.Math', 'abs', 1) {ANOTHER}",
        BEFORE,
    ),
    # the clock
    ("SELECT ^now() AS n FROM bids", f"now() {ANOTHER}", IN_WHERE),
    ("SELECT *,\n ^current_date AS n FROM bids", f"current_date {ANOTHER}", IN_WHERE),
    ("SELECT ^current_timestamp() AS n", f"current_timestamp() {ANOTHER}", IN_WHERE),
    ("SELECT ^curdate() AS n FROM bids", f"curdate() {ANOTHER}", IN_WHERE),
    ("SELECT ^localtimestamp() AS n FROM bids", f"localtimestamp() {ANOTHER}", IN_WHERE),
    ("SELECT ^unix_timestamp() AS n FROM bids", f"unix_timestamp() {ANOTHER}", IN_WHERE),
    ("SELECT ^current_time() AS n FROM bids", f"current_time() {ANOTHER}", BEFORE),
    ("SELECT date_diff(^current_date(), at) AS n FROM bids", f"current_date() {ANOTHER}", IN_WHERE),
    ("SELECT max(price) AS n FROM bids GROUP BY at > ^now()", f"now() {ANOTHER}", IN_WHERE),
    (
        "SELECT price FROM bids WHERE auction IN\n (SELECT id FROM auctions WHERE ^now() > now())",
        "now()",
        IN_WHERE,
    ),
    (
        "SELECT b.price FROM bids b JOIN auctions ON id = auction AND at > ^now()",
        f"now() {ANOTHER}",
        IN_WHERE,
    ),
    ("SELECT * FROM bids WHERE at > ^now() - INTERVAL 1 MONTH", "now() - INTERVAL 1 MONTH is not", CLOCK),
    (
        "SELECT * FROM bids WHERE ^at > now() OR price = 1",
        "price = 1 has now() in an OR",
        "UNION ALL between",
    ),
    ("SELECT * FROM bids WHERE ^now() - at < INTERVAL 1 HOUR", "now() - at is not", CLOCK),
    ("SELECT ^TIMESTAMP 'now' AS n FROM bids", f"TIMESTAMP 'now' {MOMENT}", NOW),
    ("SELECT price FROM bids WHERE at > ^TIMESTAMP_NTZ'tomorrow'", f"TIMESTAMP_NTZ'tomorrow' {MOMENT}", NOW),
    ("SELECT ^DATE 'Today' AS n", f"DATE 'Today' {MOMENT}", NOW),
    ("SELECT price FROM bids WHERE ^at > 'now'", f"at > 'now' {MOMENT}", NOW),
    ("SELECT ^CAST(concat('yester', 'day') AS DATE) AS n FROM bids", MOMENT, NOW),
    ("SELECT ^to_timestamp('now') AS n FROM bids", f"to_timestamp('now') {MOMENT}", NOW),
    # the session
    ("SELECT ^current_user() AS n FROM bids", "current_user()", SESSION),
    ("SELECT ^session_user() AS n FROM bids", "session_user()", SESSION),
    ("SELECT price FROM bids WHERE bidder = ^user()", "user()", SESSION),
    ("SELECT ^current_schema() AS n FROM bids", "current_schema()", SESSION),
    ("SELECT ^current_catalog() AS n FROM bids", "current_catalog()", SESSION),
    ("SELECT ^current_path() AS n FROM bids", "current_path()", SESSION),
    ("SELECT ^version() AS n FROM bids", "version()", SESSION),
    # order
    ("SELECT * FROM bids ^ORDER BY price", "ORDER BY without LIMIT is not", SORT),
    ("SELECT * FROM (SELECT * FROM bids ^ORDER BY price)", "ORDER BY without LIMIT is not", SORT),
    ("SELECT * FROM bids ^SORT BY price", "SORT BY is not", SORT),
    ("SELECT * FROM bids ^LIMIT 3", "LIMIT or OFFSET without ORDER BY takes any rows", "say in which order"),
    ("SELECT * FROM bids ^ORDER BY price OFFSET 3", "OFFSET without LIMIT is not", "skip when you read it"),
    (
        "SELECT ^listagg(bidder) OVER (PARTITION BY auction) AS x FROM bids",
        "listagg(bidder) OVER",
        "join a view that groups",
    ),
    (
        "SELECT ^max(at) OVER (ORDER BY at RANGE INTERVAL '1' MONTH PRECEDING) AS n FROM bids",
        "RANGE over timestamp by INTERVAL '-1' MONTH",
        "days, hours or less",
    ),
    # aggregates
    (
        "SELECT ^approx_percentile(price, 0.5) AS n FROM bids",
        "approx_percentile(price, 0.5)",
        "use percentile,",
    ),
    (
        "SELECT ^approx_count_distinct(price) AS n FROM bids",
        "approx_count_distinct(price) is an approximation, which cannot take back a row",
        "use count(DISTINCT …)",
    ),
    ("SELECT ^histogram_numeric(price, 3) AS n FROM bids", "histogram_numeric(price, 3)", "use percentile,"),
    ("SELECT ^approx_top_k(price) AS n FROM bids", "approx_top_k(price)", "use count(*) with GROUP BY"),
    ("SELECT ^max_by(bidder, price, 2) AS n FROM bids", "max_by(bidder, price, 2) is not", FUNCTIONS),
    (
        "SELECT auction,\n ^hll_sketch_agg(price) FROM bids GROUP BY 1",
        "hll_sketch_agg(price) is not",
        FUNCTIONS,
    ),
    ("SELECT tags, count(*) AS n FROM auctions ^GROUP BY tags", "a map as the key of groups", "map_entries"),
    # subqueries
    (
        "SELECT (SELECT auction FROM bids WHERE ^price < id) AS a FROM auctions",
        "a correlated subquery that gives one value",
        "write max() or min() of it",
    ),
    # joins by nearness
    (
        "SELECT a.at FROM bids a ^ASOF JOIN bids b MATCH_CONDITION (a.at >= b.at) ON a.price = b.price",
        "ASOF JOIN is not supported yet",
        "write JOIN … ON with both conditions and QUALIFY row_number()",
    ),
    (
        "SELECT a.price FROM bids a JOIN bids b EXACT ^NEAREST 1 BY DISTANCE abs(a.price - b.price)",
        "NEAREST BY is not supported yet",
        "write CROSS JOIN and QUALIFY row_number()",
    ),
    # rows from elsewhere
    (
        "SELECT ^json_tuple(bidder, 'a') AS a FROM bids",
        "json_tuple, which makes rows",
        "write get_json_object",
    ),
    (
        "SELECT v.pos FROM bids, LATERAL ^variant_explode(parse_json(bidder)) v",
        "variant_explode",
        "write explode",
    ),
    (
        "SELECT * FROM ^sql_keywords()",
        "sql_keywords, which makes rows",
        "make the rows before they are inserted",
    ),
    ("SELECT * FROM ^range(1000000)", "1000000 constant rows are too many", "insert them into a table"),
    ("SELECT * FROM ^STREAM bids", "STREAM is not supported", "name the table itself"),
    ("SELECT ^TRANSFORM(bidder) USING 'cat' AS (x) FROM bids", "TRANSFORM … USING", "spark.udf.register"),
    # functions and types
    (
        "^SELECT listagg(DISTINCT bidder) WITHIN GROUP (ORDER BY bidder), count(DISTINCT price) FROM bids",
        "Spark itself fails over this query",
        "write it in another way",
    ),
    (
        "SELECT ^bidder COLLATE UNICODE_CI AS c FROM bids",
        "column 'c': only the collation UTF8_BINARY",
        "use lower()",
    ),
    (
        "SELECT ^window(to_timestamp(bidder), '1 hour') AS w FROM bids",
        "window() over this time",
        "a view of its own",
    ),
    ("SELECT price, ^INTERVAL 1 DAY AS i FROM bids", "column 'i': the type 'interval day'", "use a number"),
    ("SELECT ^parse_json(bidder) AS i FROM bids", "column 'i': the type 'variant'", "use STRING"),
    (
        "SELECT ^max_by(bidder, struct(price, price)) FILTER (WHERE ascii(bidder) > 1) AS n FROM bids",
        "a struct with two fields price beside a function that only Spark computes",
        "name them apart",
    ),
    ("SELECT auction, ^price AS auction FROM bids", "column auction is there twice", "with AS"),
    ("SELECT ^price AS _weight FROM bids", "the name _weight is taken", "choose another"),
]


def ids(cases: list[tuple[str, str, str]]) -> list[str]:
    return [case[0] for case in cases]


def refused(script: Script, marked: str, start: str = "CREATE VIEW v AS\n  ") -> Refused:
    """The error about a query, which must be found where the caret stands."""
    text = f"{TABLES}{start}{marked}"
    at = text.index("^")
    with pytest.raises(Refused) as error:
        script.run(text.replace("^", "", 1))

    assert error.value.place == place_at(text, at)
    assert script.catalog.views == {}
    return error.value


@pytest.mark.parametrize(("marked", "construct", "instead"), CASES, ids=ids(CASES))
def test_it_is_refused_by_name_and_place_with_what_to_write_instead(
    script: Script, marked: str, construct: str, instead: str
) -> None:
    message = str(refused(script, marked).args[0])

    assert message.startswith("view v: ")
    assert construct in message
    assert instead in message
    assert not re.search(r"\b(java|org|scala|py4j)\.(?!lang\.Math)", message)


def test_an_asof_join_that_spark_would_read_is_refused_as_well(spark: SparkSession, script: Script) -> None:
    spark.conf.set("spark.sql.join.asofJoin.enabled", "true")
    try:
        error = refused(script, "SELECT a.at FROM bids a ^ASOF JOIN bids b MATCH_CONDITION (a.at >= b.at)")
    finally:
        spark.conf.unset("spark.sql.join.asofJoin.enabled")

    assert "ASOF JOIN is not supported yet in a view: write JOIN" in str(error)


# The query, what Spark calls the error, and what it says about it.
SPARK_CASES = [
    ("SELECT\n ^nowhere FROM bids", "UNRESOLVED_COLUMN", "Did you mean one of"),
    ("SELECT *\n FROM ^nowhere", "TABLE_OR_VIEW_NOT_FOUND", "The pipeline has: bids, auctions"),
    ("SELECT ^nowhere(price) AS n FROM bids", "UNRESOLVED_ROUTINE", "`nowhere`"),
    ("SELECT price,\n\t^price + tags AS n FROM bids, auctions", "DATATYPE_MISMATCH", "incompatible types"),
    ("SELECT ^sum(price, 1) AS n FROM bids", "WRONG_NUM_ARGS", "requires 1 parameters"),
    ("SELECT 'größe 😀', ^auction.x FROM bids", "INVALID_EXTRACT_BASE_FIELD_TYPE", "Need a complex type"),
    ("SELECT 'größe 😀' AS a,\r\n ^1/0 AS n", "DIVIDE_BY_ZERO", "Use `try_divide`"),
    ("SELECT price, ^CAST('x' AS INT) AS n FROM bids", "CAST_INVALID_INPUT", "Use `try_cast`"),
    ("SELECT ^:p AS n FROM bids", "UNBOUND_SQL_PARAMETER", "unbound parameter: p"),
    ("SELECT *\n FROM ^) x", "PARSE_SYNTAX_ERROR", "near ')'"),
    ("SELECT price, ^FROM bids", "TRAILING_COMMA_IN_SELECT", "Remove the trailing comma"),
    ("^DROP TABLE bids", "PARSE_SYNTAX_ERROR", "near 'DROP'"),
    ("WITH x AS (SELECT 1) ^INSERT INTO bids SELECT * FROM x", "PARSE_SYNTAX_ERROR", "near 'INSERT'"),
]


@pytest.mark.parametrize(("marked", "name", "said"), SPARK_CASES, ids=ids(SPARK_CASES))
def test_what_spark_refuses_is_told_in_its_words_at_its_place(
    script: Script, marked: str, name: str, said: str
) -> None:
    message = str(refused(script, marked, "CREATE VIEW v /* of; */ AS ").args[0])

    assert message.startswith(f"view v: [{name}")
    assert said in message
    assert " line " not in message


# Rows that never change, though what makes them looks as if they might.
KEPT = [
    "SELECT DATE 'epoch' AS n, 'now' AS w, current_timezone() AS z FROM bids",
    "SELECT price FROM bids WHERE at > TIMESTAMP '2020-01-01' AND at > '2020-01-01'",
    "SELECT CAST(bidder AS DATE) AS d FROM bids",
    "SELECT aes_encrypt(bidder, 'abcdefghijklmnop', 'ECB') AS e FROM bids",
    "SELECT aes_encrypt(bidder, 'abcdefghijklmnop', 'CBC', 'DEFAULT', '0123456789abcdef') AS e FROM bids",
    "SELECT * FROM bids DISTRIBUTE BY price",
]


@pytest.mark.parametrize("query", KEPT)
def test_what_only_looks_as_if_it_changed_is_kept(script: Script, query: str) -> None:
    assert "v" in script.run(f"{TABLES}CREATE VIEW v AS {query}").views


def test_every_function_without_arguments_is_constant_or_refused(spark: SparkSession, script: Script) -> None:
    """So that none of a later release of Spark becomes a constant by mistake."""
    script.run(TABLES)
    constant = set()
    for name in without_arguments(spark):
        try:
            script.run(f"CREATE VIEW {name}_ AS SELECT {name}() AS x FROM bids")
            constant.add(name)
        except Refused:
            pass

    assert constant == {"current_timezone", "e", "pi"}


def without_arguments(spark: SparkSession) -> list[str]:
    """Functions of Spark that may be called without, by what it says of their usage."""
    java: Any = spark._jvm
    known = java.org.apache.spark.sql.catalyst.analysis.FunctionRegistry.builtin()
    names = known.listFunction()
    found = [names.apply(index) for index in range(names.size())]
    usage = {str(name.funcName()): str(known.lookupFunction(name).get().getUsage()) for name in found}
    return [name for name, text in usage.items() if re.search(rf"(_FUNC_|{re.escape(name)})\((\)|\[)", text)]


def test_a_function_in_sql_is_refused_where_it_is_called(spark: SparkSession, script: Script) -> None:
    spark.sql("CREATE TEMPORARY FUNCTION lottery(x BIGINT) RETURNS DOUBLE RETURN x + rand()")
    try:
        error = refused(script, "^SELECT lottery(price) AS n FROM bids")
    finally:
        spark.sql("DROP TEMPORARY FUNCTION lottery")

    assert f"rand() {ANOTHER}" in str(error)


def test_a_variable_of_the_session_is_refused(spark: SparkSession, script: Script) -> None:
    script.run(TABLES)
    spark.sql("DECLARE VARIABLE limit_of INT DEFAULT 5")
    try:
        with pytest.raises(Refused, match="limit_of is what the session says"):
            script.view("v", script.table("bids").where("price > limit_of"))
    finally:
        spark.sql("DROP TEMPORARY VARIABLE limit_of")


@pytest.mark.parametrize(
    ("names", "query", "message"),
    [
        ("(a, b)", "^SELECT price FROM bids", "2 columns are named, and the query gives 1"),
        ("(a, A)", "SELECT price, ^auction + 1 FROM bids", "column A is there twice"),
        ("(_weight)", "SELECT ^price + 1 FROM bids", "the name _weight is taken"),
    ],
)
def test_names_that_a_view_gives_its_columns_are_checked(
    script: Script, names: str, query: str, message: str
) -> None:
    assert message in str(refused(script, query, f"CREATE VIEW v {names} AS "))


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

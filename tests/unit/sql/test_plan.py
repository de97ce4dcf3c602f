"""A view by SQL or by a frame, on tables and on views, in a catalog that stays as it was."""

import re
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tidemill.pipeline.plan.circuit import Circuit
from tidemill.pipeline.plan.node import Aggregate, Arrange, Join, Select, Source, SparkSelect, View
from tidemill.sql.catalog import Catalog
from unit.sql.scripts import Script

TABLES = """
CREATE TABLE bids (auction BIGINT, price BIGINT, bidder STRING, at TIMESTAMP, score DOUBLE);
CREATE TABLE auctions (id BIGINT PRIMARY KEY, category STRING NOT NULL);
"""


def kinds(catalog: Catalog) -> list[str]:
    return [type(node).__name__ for node in catalog.circuit.nodes]


def test_a_frame_and_its_sql_become_the_same_nodes(spark: SparkSession, script: Script) -> None:
    script.run(TABLES)
    bids = script.table("bids")
    grouped = bids.where("price > 3").groupBy("auction").agg(F.max("price").alias("best"))
    script.view("v", grouped)
    by_sql = Script(spark).run(
        f"{TABLES}CREATE VIEW v AS "
        "SELECT auction, max(price) AS best FROM bids WHERE price > 3 GROUP BY auction"
    )

    assert script.catalog.circuit.fingerprints == by_sql.circuit.fingerprints


def test_columns_of_a_table_are_named_with_it(script: Script) -> None:
    script.run(TABLES)
    bids, auctions = script.table("bids"), script.table("auctions")
    script.view(
        "v", bids.join(auctions, bids.auction == auctions.id).select("bids.price", "auctions.category")
    )

    assert kinds(script.catalog) == ["Source", "Source", "Join", "Select", "View"]


def test_a_cached_frame_is_read_through(script: Script) -> None:
    script.run(TABLES)
    frame = script.table("bids").select("price").cache()
    try:
        script.view("v", frame.where("price > 3"))
    finally:
        frame.unpersist()

    assert kinds(script.catalog) == ["Source", "Select", "View"]


def test_how_a_frame_is_partitioned_says_nothing(script: Script) -> None:
    script.run(TABLES)
    script.view("v", script.table("bids").repartition(7, "bidder").select("price").coalesce(1))

    assert kinds(script.catalog) == ["Source", "Select", "View"]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 7 AS n FROM bids LIMIT 2 OFFSET 1",
        "SELECT count(*) AS n FROM (SELECT * FROM bids LIMIT 3)",
    ],
)
def test_any_of_rows_that_are_all_the_same_may_be_taken(script: Script, query: str) -> None:
    catalog = script.run(f"{TABLES}CREATE VIEW v AS {query}")

    assert "TopK" in kinds(catalog)


SHOUTED = "CREATE VIEW {} AS SELECT shout(shout(category)) AS c FROM auctions WHERE id > 3"


def calls(catalog: Catalog) -> list[str]:
    return [node.columns[-1] for node in catalog.circuit.nodes if isinstance(node, SparkSelect)]


def test_a_function_of_python_runs_in_spark_under_its_name_and_that_of_its_code(
    spark: SparkSession, script: Script
) -> None:
    spark.udf.register("shout", lambda text: f"{text}!", "string")
    script.run(TABLES + SHOUTED.format("v"))

    [called] = calls(script.catalog)
    assert re.match(r"`shout@(\w{16})`\(`shout@\1`\(c", called)
    assert not [known.name for known in spark.catalog.listFunctions() if "@" in known.name]


def test_another_body_under_its_name_is_another_computation(spark: SparkSession, script: Script) -> None:
    for view, mark in {"one": "!", "other": "?", "again": "!"}.items():
        spark.udf.register("shout", lambda text, mark=mark: f"{text}{mark}", "string")
        script.run((TABLES if view == "one" else "") + SHOUTED.format(view))

    one, other, again = calls(script.catalog)
    assert one == again != other


def test_arguments_of_a_function_of_python_may_have_names(spark: SparkSession, script: Script) -> None:
    spark.udf.register("cut", lambda text, to: text[:to], "string")
    script.run(f"{TABLES}CREATE VIEW v AS SELECT cut(to => 2, text => category) AS c FROM auctions")

    [called] = calls(script.catalog)
    assert re.match(r"`cut@\w{16}`\(`to` => 2, `text` => c0\)", called)


def test_a_function_of_python_needs_no_name_in_a_frame(script: Script) -> None:
    script.run(TABLES)
    nameless = F.udf(lambda text: text, "string")
    script.view("v", script.table("auctions").select(nameless("category").alias("c")))

    [called] = calls(script.catalog)
    assert re.match(r"`<lambda>@\w{16}`\(c0\)", called)


def test_the_session_sees_nothing_of_it(spark: SparkSession, script: Script) -> None:
    spark.sql("SELECT 'mine' AS whose").createOrReplaceTempView("auctions")
    try:
        script.run(f"{TABLES}CREATE VIEW v AS SELECT category FROM auctions")

        assert spark.table("auctions").collect()[0].whose == "mine"
        assert not spark.catalog.tableExists("bids")
        assert [node.table for node in script.catalog.circuit.nodes if isinstance(node, Source)] == [
            "auctions"
        ]
    finally:
        spark.catalog.dropTempView("auctions")


def test_names_are_read_as_spark_reads_them(script: Script) -> None:
    script.run("CREATE TABLE `Odd name` (`A b` INT, `select` STRING)")
    catalog = script.run(
        "CREATE VIEW v AS SELECT `a B` + 1 AS x FROM `odd NAME`; CREATE VIEW w AS SELECT x FROM V"
    )

    assert kinds(catalog) == ["Source", "Select", "View", "View"]


def test_settings_of_the_session_are_in_the_expressions(spark: SparkSession, script: Script) -> None:
    script.run(TABLES)
    query = "SELECT price + 1 AS p, hour(at) AS h FROM bids"
    script.run(f"CREATE VIEW strict AS {query}")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        script.run(f"CREATE VIEW lax AS {query}")
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")

    zone = spark.conf.get("spark.sql.session.timeZone")
    strict, lax = [node for node in script.catalog.circuit.nodes if isinstance(node, Select)]
    assert [str(column) for column in strict.columns] == ["Add(#1, 1L, mode=ANSI)", f"Hour(#3, zone={zone})"]
    assert str(lax.columns[0]) == "Add(#1, 1L, mode=LEGACY)"


def test_the_first_join_chooses_the_shard_key(script: Script) -> None:
    script.run(TABLES)
    addition = script.view(
        "v", script.table("bids").join(script.table("auctions"), F.expr("bids.auction = auctions.id"))
    )

    assert addition.shard_keys == {"bids": (0,)}
    assert addition.sources == {"bids": 0, "auctions": 1}
    assert isinstance(addition.circuit.nodes[addition.position], View)
    again = script.view("w", script.table("bids").groupBy("bidder").count())
    assert again.shard_keys == {}
    assert again.sources == {}


@pytest.mark.parametrize(
    ("query", "key"),
    [
        ("SELECT bidder, count(*) AS n FROM bids GROUP BY bidder", (2,)),
        ("SELECT price FROM bids", (0, 1, 2, 3, 4)),
        ("SELECT x.price FROM bids x JOIN bids y ON x.bidder = y.bidder AND x.auction = y.auction", (2, 0)),
        ("SELECT price + 1 AS p, count(*) AS n FROM bids GROUP BY price + 1", (0, 1, 2, 3, 4)),
    ],
)
def test_a_shard_key_is_a_join_key_else_a_group_key_else_all_columns(
    script: Script, query: str, key: tuple[int, ...]
) -> None:
    catalog = script.run(f"{TABLES}CREATE VIEW v AS {query}")

    assert catalog.tables["bids"].shard_key == key


def test_nodes_that_are_there_stay_as_they_are(script: Script) -> None:
    before = script.run(f"{TABLES}CREATE VIEW v AS SELECT auction, count(*) AS n FROM bids GROUP BY auction")
    after = script.run("CREATE VIEW w AS SELECT auction, count(*) AS n FROM bids GROUP BY auction")

    assert after.circuit.nodes[: len(before.circuit.nodes)] == before.circuit.nodes


def test_every_node_but_those_that_are_shared_is_new_and_tells_itself_apart(script: Script) -> None:
    join = "SELECT max(price) AS m FROM bids JOIN auctions ON bidder = category AND price > 3"
    catalog = script.run(f"{TABLES}CREATE VIEW v AS {join}; CREATE VIEW w AS {join}; CREATE VIEW x AS {join}")

    nodes = catalog.circuit.nodes
    assert len(set(catalog.circuit.fingerprints)) == len(nodes)
    assert sum(isinstance(node, Arrange) for node in nodes) == 2
    assert sum(isinstance(node, Join) for node in nodes) == 3
    assert sum(isinstance(node, Aggregate) for node in nodes) == 3


def test_nodes_that_have_not_run_are_shared_whatever_they_are(script: Script) -> None:
    join = "SELECT max(price) AS m FROM bids JOIN auctions ON bidder = category AND price > 3"
    before = script.run(f"{TABLES}CREATE VIEW v AS {join}")
    script.catalog = replace(before, unfilled=frozenset(before.circuit.fingerprints))
    after = script.run(f"CREATE VIEW w AS {join}")

    new = after.circuit.nodes[len(before.circuit.nodes) :]
    assert [type(node).__name__ for node in new] == ["View"]
    assert new[0].inputs == before.circuit.nodes[before.views["v"].position].inputs


def test_of_nodes_that_have_run_and_others_only_the_latter_are_shared(script: Script) -> None:
    join = "FROM bids JOIN auctions ON bidder = category"
    first = script.run(f"{TABLES}CREATE VIEW v AS SELECT max(price) AS m {join}")
    second = script.run(f"CREATE VIEW w AS SELECT max(price) AS m {join}")
    fresh = set(second.circuit.fingerprints) - set(first.circuit.fingerprints)
    script.catalog = replace(second, unfilled=frozenset(fresh))
    third = script.run(f"CREATE VIEW x AS SELECT max(price) AS m {join}")

    nodes = third.circuit.nodes
    assert nodes[third.views["x"].position].inputs == nodes[third.views["w"].position].inputs
    assert nodes[third.views["x"].position].inputs != nodes[third.views["v"].position].inputs


def test_a_circuit_survives_its_json(script: Script) -> None:
    catalog = script.run(f"{TABLES}CREATE VIEW v AS SELECT md5(bidder) AS m, price + 1 AS p FROM bids")

    assert Circuit.from_json(catalog.circuit.to_json()) == catalog.circuit


def test_a_table_that_comes_again_with_other_columns_is_another(script: Script) -> None:
    script.run(f"{TABLES}CREATE VIEW v AS SELECT id FROM auctions")
    tables = {name: table for name, table in script.catalog.tables.items() if name != "auctions"}
    script.catalog = replace(script.catalog, tables=tables, views={})
    catalog = script.run("CREATE TABLE auctions (id STRING); CREATE VIEW w AS SELECT id FROM auctions")

    assert catalog.views["w"].schema["fields"][0]["type"] == "string"

"""What only Spark can compute is written as SQL that Spark reads back as the same expression."""

import re

import pytest

from tidemill.pipeline.errors import Refused
from tidemill.pipeline.plan.node import SparkSelect
from unit.sql.scripts import Script

TEXTS = {
    "md5(s)": "md5(CAST(c2 AS BINARY))",
    "url_encode(s)": "url_encode(c2)",
    "decode(encode(s, 'utf-8'), 'utf-8')": "decode(encode(c2, 'utf-8'), 'utf-8')",
    "transform(array(d, 1), x -> x + n)": "transform(array(c1, 1.0D), x_0 -> (x_0 + CAST(c0 AS DOUBLE)))",
    "zip_with(array(d), array(n), (x, y) -> x + y)": (
        "zip_with(array(c1), array(c0), (x_0, y_1) -> (x_0 + CAST(y_1 AS DOUBLE)))"
    ),
    "try_add(length(soundex(s)), 1)": "try_add(length(soundex(c2)), 1)",
    "struct(soundex(s) AS a, d)": "named_struct('a', soundex(c2), 'd', c1)",
    "from_json(s, 'a INT, b ARRAY<STRING>')": "from_json(c2, 'STRUCT<a: INT, b: ARRAY<STRING>>')",
    "to_json(struct(n))": "to_json(named_struct('n', c0))",
    "try_element_at(split(s, '[,;]'), 1)": "try_element_at(split(c2, '[,;]', -1), 1)",
    "CAST(sequence(1, n) AS STRING)": "CAST(sequence(1L, c0) AS STRING)",
    "split_part(s, ',', 2)": "split_part(c2, ',', 2)",
    "to_timestamp(s, 'dd/MM/yyyy')": "to_timestamp(c2, 'dd/MM/yyyy')",
    "try_to_timestamp(s)": "try_to_timestamp(c2)",
    "try_aes_decrypt(unhex(s), IF(s > 'a', 'b', NULL))": (
        "try_aes_decrypt(unhex(c2), (IF((c2 > 'a'), X'62', CAST(NULL AS BINARY))), 'GCM', 'DEFAULT', X'')"
    ),
    "try_make_timestamp(2024, 2, n, 1, 2, 3)": (
        "try_make_timestamp(2024, 2, CAST(c0 AS INT), 1, 2, 3.000000BD)"
    ),
    "string(try_make_interval(0, n))": (
        "CAST(try_make_interval(0, CAST(c0 AS INT), 0, 0, 0, 0, 0.000000BD) AS STRING)"
    ),
    "vector_norm(array(3.0F), float(d))": "vector_norm(ARRAY(CAST('3.0' AS FLOAT)), CAST(c1 AS FLOAT))",
    "array_compact(array(n, 1))": "array_compact(array(c0, 1L))",
    "xpath(concat(s, 'a'), 'a/b')": "xpath(concat(c2, 'a'), 'a/b')",
    "from_csv(s, 'a INT', map('sep', ';'))": "from_csv(c2, 'STRUCT<a: INT>', map('sep', ';'))",
    "try_variant_get(parse_json(s), '$.a', 'int')": "try_variant_get(parse_json(c2), '$.a', 'INT')",
    "arrays_zip(split(s, ','), array(n))": (
        "arrays_zip(named_struct('0', split(c2, ',', -1)).`0`, named_struct('1', array(c0)).`1`)"
    ),
}


@pytest.mark.parametrize("query", TEXTS)
def test_it_is_written_over_the_columns_by_position(script: Script, query: str) -> None:
    catalog = script.run(
        "CREATE TABLE t (n BIGINT, d DOUBLE, s STRING);"
        f"CREATE VIEW v AS SELECT {query} AS x, soundex(s) FROM t"
    )
    select = catalog.circuit.nodes[1]

    assert isinstance(select, SparkSelect)
    assert select.columns[0].startswith(f"{TEXTS[query]} /* not proved: ")


def test_a_constant_is_the_same_whether_or_not_its_type_lets_null_be_in_it(script: Script) -> None:
    catalog = script.run(
        "CREATE TABLE t (n BIGINT, s STRING);"
        "CREATE VIEW v AS SELECT s, array(n) AS a FROM t EXCEPT SELECT s, array(2L) FROM t"
    )

    [compared] = [node for node in catalog.circuit.nodes if isinstance(node, SparkSelect)]
    assert compared.columns[-1].startswith("(c1 <=> ARRAY(2L)) /*")


def test_what_spark_would_read_otherwise_is_refused(script: Script) -> None:
    call = "soundex(s COLLATE UNICODE_CI)"
    with pytest.raises(Refused, match=rf"line 1, column 55: view v: {re.escape(call)} is not"):
        script.run(f"CREATE TABLE t (s STRING); CREATE VIEW v AS SELECT 1, {call} AS x FROM t")

"""Constants keep their exact value and type."""

import datetime as dt
import math
from decimal import Decimal

import pytest

from tidemill.pipeline.plan.expression import Call, Literal, walk
from tidemill.pipeline.plan.node import Select, SparkSelect
from unit.sql.scripts import Script

VALUES = {
    "1Y": 1,
    "4000000000": 4_000_000_000,
    "1.50": Decimal("1.50"),
    "CAST(1.1 AS FLOAT)": pytest.approx(1.1),
    "-0.0D": -0.0,
    "'it\\'s'": "it's",
    "X'01FF'": b"\x01\xff",
    "true": True,
    "NULL": None,
    "DATE'1969-12-31'": dt.date(1969, 12, 31),
    "TIMESTAMP_NTZ'2020-01-01 00:00:00.5'": dt.datetime(2020, 1, 1, 0, 0, 0, 500_000),
    "array(1, NULL)": [1, None],
    "map('a', DATE'2020-01-01')": [("a", dt.date(2020, 1, 1))],
    "struct(1 AS a, array(1.5) AS b)": {"a": 1, "b": [Decimal("1.5")]},
    "CAST(NULL AS ARRAY<INT>)": None,
}


@pytest.mark.parametrize("text", VALUES)
def test_a_constant_has_its_value(script: Script, text: str) -> None:
    catalog = script.run(f"CREATE TABLE t (a INT); CREATE VIEW v AS SELECT a, {text} AS x FROM t")
    select = catalog.circuit.nodes[1]
    assert isinstance(select, Select)
    constant = select.columns[1]

    assert isinstance(constant, Literal)
    value = constant.value.as_py()
    assert value == VALUES[text]
    if isinstance(value, float):
        assert math.copysign(1, value) == (-1 if text.startswith("-") else 1)
    assert constant.type == select.schema.field("x").type


def test_a_long_list_is_a_list_of_constants(script: Script) -> None:
    members = ", ".join(map(str, range(20)))
    catalog = script.run(f"CREATE TABLE t (a INT); CREATE VIEW v AS SELECT a FROM t WHERE a IN ({members})")
    select = catalog.circuit.nodes[1]
    assert isinstance(select, Select)
    assert select.where is not None
    (member,) = [one for one in walk(select.where) if isinstance(one, Call) and one.function == "In"]

    assert {one.value.as_py() for one in member.arguments[1:] if isinstance(one, Literal)} == set(range(20))


def test_a_constant_of_a_type_that_we_do_not_keep_is_left_to_spark(script: Script) -> None:
    catalog = script.run("CREATE TABLE t (a DATE); CREATE VIEW v AS SELECT a + INTERVAL 2 MONTH AS x FROM t")
    select = catalog.circuit.nodes[1]

    assert isinstance(select, SparkSelect)
    assert "INTERVAL '2' MONTH" in select.columns[0]

"""The tables of all random queries: few rows of few values, so that keys meet, and odd ones of each type."""

import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

from property.changing_tables import Column, Table, some

SQL_TYPES = {
    "INT": "INT",
    "BIGINT": "BIGINT",
    "DOUBLE": "DOUBLE",
    "DECIMAL": "DECIMAL(12,2)",
    "STRING": "STRING",
    "BOOLEAN": "BOOLEAN",
    "DATE": "DATE",
    "TIMESTAMP": "TIMESTAMP",
    "ARRAY": "ARRAY<INT>",
    "STRUCT": "STRUCT<x: INT, y: STRING>",
    "MAP": "MAP<STRING, INT>",
}
"""The types of columns, by the name that the grammar has for them."""
PLAIN = ("INT", "BIGINT", "DOUBLE", "DECIMAL", "STRING", "BOOLEAN", "DATE", "TIMESTAMP")
ORDERED = (*PLAIN, "ARRAY", "STRUCT")
"""Those that can be sorted and grouped by."""

ARROW = {
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "DECIMAL": pa.decimal128(12, 2),
    "STRING": pa.string(),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    "ARRAY": pa.list_(pa.int32()),
    "STRUCT": pa.struct([("x", pa.int32()), ("y", pa.string())]),
    "MAP": pa.map_(pa.string(), pa.int32()),
}


def _key(random: Random) -> Any:
    """One of few, in a third of all cases the same."""
    return 1 if random.random() < 0.33 else random.choice([None, 0, 2, 3, 4])


def _double(random: Random) -> Any:
    """Quarters, so that sums are exact in whatever order they are made."""
    odd = [None, None, math.nan, math.inf, -math.inf, -0.0, 0.0]
    return random.choice(odd) if random.random() < 0.3 else random.randint(-12, 12) / 4


def _struct(random: Random) -> Any:
    return None if random.random() < 0.1 else {"x": VALUES["INT"](random), "y": VALUES["STRING"](random)}


def _map(random: Random) -> Any:
    if random.random() < 0.1:
        return None
    keys = sorted(random.sample(["a", "b", "c"], random.randint(0, 2)))
    return [(key, VALUES["INT"](random)) for key in keys]


VALUES: dict[str, Callable[[Random], Any]] = {
    "INT": some(*range(-3, 7), null=0.15),
    "BIGINT": some(*range(-3, 7), 10**9, null=0.15),
    "DOUBLE": _double,
    "DECIMAL": some(*(Decimal(n) / 100 for n in (-250, -1, 0, 1, 50, 100, 250, 99999)), null=0.15),
    "STRING": some("", "a", "b", "ab", "B", "é", null=0.15),
    "BOOLEAN": some(True, False, null=0.2),
    "DATE": some(*(date(2024, 2, 27) + timedelta(days=n) for n in range(4)), null=0.15),
    "TIMESTAMP": some(
        *(datetime(2024, 2, 28, 23, 50, tzinfo=UTC) + timedelta(minutes=2.5 * n) for n in range(12)),
        null=0.15,
    ),
    "ARRAY": lambda random: (
        None if random.random() < 0.1 else [VALUES["INT"](random) for _ in range(random.randint(0, 3))]
    ),
    "STRUCT": _struct,
    "MAP": _map,
}


def _column(name: str, kind: str, value: Any = None) -> Column:
    return Column(name, SQL_TYPES[kind], ARROW[kind], value or VALUES[kind])


DEALS = Table(
    "deals",
    (
        _column("k", "INT", _key),
        _column("n", "BIGINT"),
        _column("f", "DOUBLE"),
        _column("s", "STRING"),
        _column("d", "DECIMAL"),
        _column("ts", "TIMESTAMP"),
    ),
)
GOODS = Table(
    "goods",
    (
        _column("k", "INT", _key),
        _column("i", "INT"),
        _column("s", "STRING"),
        _column("b", "BOOLEAN"),
        _column("dt", "DATE"),
        _column("xs", "ARRAY"),
    ),
)
FOLKS = Table(
    "folks",
    (
        _column("id", "INT", lambda random: random.randint(0, 9)),
        _column("k", "INT", _key),
        _column("s", "STRING"),
        _column("f", "DOUBLE"),
        _column("st", "STRUCT"),
        _column("m", "MAP"),
    ),
    key=1,
)
LINKS = Table("links", (_column("k", "INT", _key), _column("l", "INT", _key)))
TABLES = {table.name: table for table in (DEALS, GOODS, FOLKS, LINKS)}
KIND_OF = {sql: kind for kind, sql in SQL_TYPES.items()}


def row_of(table: Table, random: Random) -> tuple[Any, ...]:
    return tuple(column.value(random) for column in table.columns)

"""Four small tables for queries of every construct, and a history of inserts, updates and deletes.

`t` has all types, `u` shares columns with it, `p` has a primary key, `e` are edges that only lead upwards, so
that every walk ends. Numbers are small, so that nothing overflows and sums of floats are exact; there are
NULLs and duplicates in all columns but keys.
"""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

from property.changing_tables import Append, Column, History, Row, Table, array, some

STEPS = 3
WORDS = ("", "a", "b", "ab", "A b", "é", "10", "2024-03-11")
STRUCT = pa.struct([("x", pa.int32()), ("y", pa.string())])


def moment(random: Random) -> datetime | None:
    """Some minute of three hours."""
    if random.random() < 0.1:
        return None
    return datetime(2024, 3, 10, tzinfo=UTC) + timedelta(seconds=30 * random.randint(0, 360))


def day(random: Random) -> date | None:
    return None if random.random() < 0.1 else date(2024, 2, 26) + timedelta(random.randint(0, 9))


def mapping(random: Random) -> list[tuple[str, Any]] | None:
    if random.random() < 0.1:
        return None
    return [(key, random.choice([None, 1, 2, 7])) for key in "abc" if random.random() < 0.6]


def struct(random: Random) -> dict[str, Any] | None:
    if random.random() < 0.1:
        return None
    return {"x": random.choice([None, 1, 2]), "y": random.choice([None, "a", "b"])}


KEY = Column("k", "STRING", pa.string(), some("a", "b", "c", "d", null=0.15))
WHOLE = Column("i", "INT", pa.int32(), some(-3, 0, 1, 2, 3, 5, 8))
LONG = Column("l", "BIGINT", pa.int64(), some(-10, 0, 1, 2, 4, 100))
TEXT = Column("s", "STRING", pa.string(), some(*WORDS))
CENTS = Column("d", "DECIMAL(9,2)", pa.decimal128(9, 2), some(*map(Decimal, ("0.10", "1.25", "-7.50", "99"))))
TIME = Column("ts", "TIMESTAMP", pa.timestamp("us", "UTC"), moment)

T = Table(
    "t",
    (
        KEY,
        WHOLE,
        LONG,
        Column("f", "DOUBLE", pa.float64(), some(-1.5, 0.0, 0.25, 2.0, 12.5)),
        CENTS,
        TEXT,
        Column("b", "BOOLEAN", pa.bool_(), some(True, False)),
        Column("dt", "DATE", pa.date32(), day),
        TIME,
        Column("a", "ARRAY<INT>", pa.list_(pa.int32()), array(some(1, 2, 3))),
        Column("m", "MAP<STRING, INT>", pa.map_(pa.string(), pa.int32()), mapping),
        Column("st", "STRUCT<x: INT, y: STRING>", STRUCT, struct),
    ),
)
U = Table("u", (KEY, WHOLE, LONG, TEXT, TIME))
P = Table("p", (Column("id", "INT", pa.int32(), lambda _: None), KEY, LONG, CENTS), key=1)
E = Table("e", tuple(Column(name, "INT", pa.int32(), some(1)) for name in ("x", "y", "w")))
TABLES = (T, U, P, E)


def coverage_history(seed: int) -> History:
    """Rows come in each step; from the second on some go, and some change in one column."""
    random = Random(seed)
    found = History()
    held: dict[str, list[Row]] = {"t": [], "u": [], "e": []}
    keyed: dict[int, Row] = {}
    for step in range(STEPS):
        changed = {
            table.name: table.arrow(*_changes(random, table, held[table.name], step)) for table in (T, U, E)
        }
        new = [_keyed(random, number) for number in random.sample(range(9), 5)]
        keyed |= {row[0]: row for row in new}
        gone = random.sample(sorted(keyed), 2 if step else 0)
        keyed = {key: row for key, row in keyed.items() if key not in gone}
        found.steps.append(
            [
                Append("apply", changed),
                Append("insert", {"p": P.arrow(new)}),
                Append("delete", {"p": P.arrow([(key,) for key in gone], width=1)}),
            ]
        )
        found.bags.append({**{name: list(rows) for name, rows in held.items()}, "p": list(keyed.values())})
    return found


def _changes(random: Random, table: Table, rows: list[Row], step: int) -> tuple[list[Row], list[int]]:
    """What comes and goes, with weights; the rows are brought up to date."""
    changes: list[tuple[Row, int]] = [
        (_row(random, table), random.choice([1, 1, 2])) for _ in range(8 if step else 16)
    ]
    for row in random.sample(rows, 7 if step else 0):
        changes.append((row, -1))
        if random.random() < 0.5:
            other, at = _row(random, table), random.randrange(1, len(table.columns))
            changes.append(((*row[:at], other[at], *row[at + 1 :]) if table is not E else other, 1))
    for row, weight in changes:
        if weight < 0:
            rows.remove(row)
        rows += [row] * weight
    return [row for row, _ in changes], [weight for _, weight in changes]


def _row(random: Random, table: Table) -> Row:
    if table is E:
        low = random.randint(0, 5)
        return low, random.randint(low + 1, 7), random.randint(1, 3)
    return tuple(column.value(random) for column in table.columns)


def _keyed(random: Random, number: int) -> Row:
    return number, *(column.value(random) for column in P.columns[1:])

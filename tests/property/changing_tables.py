"""Tables of all types and random histories of them: what is appended step by step, and what is then there.

Every table has a column `c`, the number of a case. Cases have nothing to do with each other, so one pipeline
whose queries keep `c` apart runs hundreds of them at once.
"""

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any, Literal

import pyarrow as pa

Row = tuple[Any, ...]
Verb = Literal["insert", "delete", "apply"]

WEIGHT = "_weight"


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    sql: str
    arrow: pa.DataType
    value: Callable[[Random], Any]


@dataclass(frozen=True, slots=True)
class Table:
    """`key` is how many of the first columns are its primary key."""

    name: str
    columns: tuple[Column, ...]
    key: int = 0

    @property
    def create(self) -> str:
        columns = [f"{column.name} {column.sql}" for column in self.columns]
        if self.key:
            names = [column.name for column in self.columns[: self.key]]
            columns.append(f"PRIMARY KEY ({', '.join(names)})")
        return f"CREATE TABLE {self.name} ({', '.join(columns)})"

    def row(self, random: Random, case: int) -> Row:
        return (case, *(column.value(random) for column in self.columns[1:]))

    def arrow(
        self, rows: list[Row], weights: list[int] | None = None, *, width: int | None = None
    ) -> pa.Table:
        """The rows as a frame: of the first `width` columns, with weights if there are any."""
        arrays = {
            column.name: pa.array([row[at] for row in rows], column.arrow)
            for at, column in enumerate(self.columns[:width])
        }
        if weights is not None:
            arrays[WEIGHT] = pa.array(weights, pa.int64())
        return pa.table(arrays)


@dataclass(frozen=True, slots=True)
class Append:
    """What is handed to a pipeline at once: to one table or, with weights, to several."""

    verb: Verb
    frames: dict[str, pa.Table]


Bags = dict[str, list[Row]]


@dataclass(slots=True)
class History:
    """The appends of each step, and the rows of each table after it."""

    steps: list[list[Append]] = field(default_factory=list)
    bags: list[Bags] = field(default_factory=list)


# Values


def some(*values: Any, null: float = 0.1) -> Callable[[Random], Any]:
    return lambda random: None if random.random() < null else random.choice(values)


def skewed(random: Random) -> str | None:
    """One of few keys, in a third of all cases the same."""
    return "hot" if random.random() < 0.33 else random.choice([None, "", "a", "b", "é", "key" * 40])


def number(random: Random) -> float | None:
    """So that no sum cancels out, whose value Spark leaves to the order of rows, and none overflows."""
    odd = [None, math.nan, math.inf, -math.inf, -0.0, 0.0, 1e300, 1e-300, 0.1]
    return random.choice(odd) if random.random() < 0.3 else random.randint(0, 4000) / 40


def decimal(scale: int, most: int) -> Callable[[Random], Any]:
    def value(random: Random) -> Decimal | None:
        if random.random() < 0.1:
            return None
        return Decimal(random.randint(-most, most)).scaleb(-scale)

    return value


def day(random: Random) -> date | None:
    return random.choice(
        [None, date(1, 1, 1), date(9999, 12, 31)] + [date(1969, 12, 20 + n) for n in range(12)]
    )


def moment(zone: Any) -> Callable[[Random], Any]:
    start = datetime(1969, 12, 31, 23, 59, 59, 999_999, zone)

    def value(random: Random) -> datetime | None:
        if random.random() < 0.1:
            return None
        return start + timedelta(hours=random.randint(-9000, 400_000), microseconds=random.randint(0, 2))

    return value


def array(item: Callable[[Random], Any]) -> Callable[[Random], Any]:
    def value(random: Random) -> list[Any] | None:
        return None if random.random() < 0.1 else [item(random) for _ in range(random.randint(0, 3))]

    return value


def mapping(random: Random) -> list[tuple[str, Any]] | None:
    """In any order of keys: two maps are the same when their entries are."""
    if random.random() < 0.1:
        return None
    keys = random.sample(["a", "b", "c", "é"], random.randint(0, 3))
    return [(key, random.choice([None, 1, 2])) for key in keys]


def struct(random: Random) -> dict[str, Any] | None:
    if random.random() < 0.1:
        return None
    return {"x": random.choice([None, 1, 2]), "y": skewed(random), "z": number(random)}


STRUCT = pa.struct([("x", pa.int32()), ("y", pa.string()), ("z", pa.float64())])

CASE = Column("c", "INT", pa.int32(), lambda _: None)
KEY = Column("k", "STRING", pa.string(), skewed)
WHOLE = Column("i", "INT", pa.int32(), some(-(2**31), 2**31 - 1, *range(-5, 10)))
LONG = Column("l", "BIGINT", pa.int64(), some(-(2**45), 2**45, *range(-5, 10)))
NUMBER = Column("f", "DOUBLE", pa.float64(), number)
TEXT = Column("s", "STRING", pa.string(), some("", " ", "a", "A", "abc", "zürich", "日本", "a%b_c", "hot"))

EVENTS = Table(
    "t",
    (
        CASE,
        KEY,
        WHOLE,
        LONG,
        NUMBER,
        TEXT,
        Column("y", "TINYINT", pa.int8(), some(-128, 127, 0, 1)),
        Column("h", "SMALLINT", pa.int16(), some(-32768, 32767, 0, 1)),
        Column("r", "FLOAT", pa.float32(), some(math.nan, -0.0, 0.0, 0.25, 0.5, 1.75)),
        Column("d", "DECIMAL(12,2)", pa.decimal128(12, 2), decimal(2, 10**5)),
        Column("w", "DECIMAL(38,4)", pa.decimal128(38, 4), decimal(4, 10**30)),
        Column("b", "BOOLEAN", pa.bool_(), some(True, False)),
        Column("dt", "DATE", pa.date32(), day),
        Column("ts", "TIMESTAMP", pa.timestamp("us", "UTC"), moment(UTC)),
        Column("tn", "TIMESTAMP_NTZ", pa.timestamp("us"), moment(None)),
        Column("bin", "BINARY", pa.binary(), some(b"", b"\x00", b"\xff", b"abc")),
        Column("a", "ARRAY<INT>", pa.list_(pa.int32()), array(some(1, 2, 3))),
        Column("af", "ARRAY<DOUBLE>", pa.list_(pa.float64()), array(number)),
        Column("m", "MAP<STRING, INT>", pa.map_(pa.string(), pa.int32()), mapping),
        Column("st", "STRUCT<x: INT, y: STRING, z: DOUBLE>", STRUCT, struct),
    ),
)
OTHERS = Table("u", (CASE, KEY, WHOLE, LONG, NUMBER, TEXT))
KEYED = Table(
    "p",
    (
        CASE,
        Column("id", "STRING", pa.string(), lambda random: random.choice(["a", "b", "c", "d", "é"])),
        KEY,
        Column("v", "BIGINT", pa.int64(), some(*range(10))),
        NUMBER,
    ),
    key=2,
)
TABLES = (EVENTS, OTHERS, KEYED)


# Histories


def history(seed: int, *, cases: int, steps: int) -> History:
    """A random history. One of its steps appends nothing, and in each step some cases do nothing.

    A third of the rows of `t` are of one case and key.
    """
    random = Random(seed)
    now: Bags = {table.name: [] for table in TABLES}
    found = History()
    for step in range(steps):
        appends: list[Append] = []
        if step != steps // 2:
            appends += weighted_appends(random, now, cases)
            appends += keyed_appends(random, now[KEYED.name], cases)
        found.steps.append(appends)
        found.bags.append({name: list(rows) for name, rows in now.items()})
    return found


def weighted_appends(random: Random, now: Bags, cases: int) -> list[Append]:
    """Changes of the tables without a key, in several appends that each are to both tables."""
    parts: list[dict[str, tuple[list[Row], list[int]]]] = [{} for _ in range(random.randint(1, 3))]
    for table in (EVENTS, OTHERS):
        rows = now[table.name]
        before = by_case(rows)
        for case in random.choices(range(1, cases), k=cases):
            for row, weight in changes(random, table, case, before.get(case, [])):
                put(parts, random, table, row, weight, rows)
        for _ in range(cases // 2 if table is EVENTS else 2):
            row = table.row(random, 0)
            put(parts, random, table, (0, "hot", *row[2:]), random.randint(1, 2), rows)
    return [
        Append(
            "apply", {table.name: table.arrow(*part[table.name]) for table in TABLES if table.name in part}
        )
        for part in parts
        if part
    ]


def put(parts: list[Any], random: Random, table: Table, row: Row, weight: int, rows: list[Row]) -> None:
    """Add a change to one of the parts, and to the rows."""
    written, weights = random.choice(parts).setdefault(table.name, ([], []))
    written.append(row)
    weights.append(weight)
    rows.extend([row] * weight)
    for _ in range(-weight):
        # By identity, as no two NaN are equal for Python.
        del rows[next(at for at, held in enumerate(rows) if held is row)]


def changes(random: Random, table: Table, case: int, held: list[Row]) -> list[tuple[Row, int]]:
    """What one case does to a table, of which it holds these rows (and forgets those that it deletes)."""
    found = [(table.row(random, case), random.choice([1, 1, 1, 2, 5])) for _ in range(random.randint(0, 3))]
    if held and random.random() < 0.3:
        found.append((random.choice(held), random.randint(1, 3)))  # once more
    for _ in range(random.randint(0, min(3, len(held)))):
        row = held.pop(random.randrange(len(held)))
        found.append((row, -1))
        if random.random() < 0.5:
            at = random.randrange(1, len(table.columns))
            found.append(((*row[:at], table.columns[at].value(random), *row[at + 1 :]), 1))
    if random.random() < 0.1:
        passing = table.row(random, case)
        found += [(passing, 4), (passing, -4)]
    return found


def by_case(rows: list[Row]) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = {}
    for row in rows:
        found.setdefault(row[0], []).append(row)
    return found


def keyed_appends(random: Random, rows: list[Row], cases: int) -> list[Append]:
    """Upserts and deletes by key, in an order that counts."""
    held = {row[: KEYED.key]: row for row in rows}
    found: list[Append] = []
    for _ in range(3):
        new = [KEYED.row(random, case) for case in random.choices(range(cases), k=cases)]
        held.update({row[: KEYED.key]: row for row in new})
        found.append(Append("insert", {KEYED.name: KEYED.arrow(new)}))
        gone = random.sample(sorted(held), k=len(held) // 5)
        for key in gone:
            del held[key]
        found.append(Append("delete", {KEYED.name: KEYED.arrow(gone, width=KEYED.key)}))
    rows[:] = held.values()
    return found


def canonical(row: Row) -> Row:
    """The row as a table keeps it: 0.0 for -0.0."""
    return tuple(_canonical(value) for value in deepcopy(row))


def _canonical(value: Any) -> Any:
    match value:
        case float():
            return value + 0.0
        case list():
            return [_canonical(item) for item in value]
        case dict():
            return {name: _canonical(item) for name, item in value.items()}
    return value

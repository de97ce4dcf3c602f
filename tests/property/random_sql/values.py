"""Values: templates by type, whose slots are filled with columns, constants and further templates.

A slot is the name of a type; `T` stands for the type that is wanted, `X` for one type per template, `ANY`
for any. Slots with a number are the same value wherever they stand. Every template is determined whatever
fills it: no float becomes text, and every DOUBLE is a small multiple of a power of two.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from property.random_sql.tables import ORDERED, PLAIN, SQL_TYPES
from property.random_sql.tree import Columns, Sql, Text, leaf

SLOT = re.compile(r"\{([A-Z]+)(\d?)\}")

EVERY = (
    "coalesce({T}, {T})",
    "CASE WHEN {BOOLEAN} THEN {T} ELSE {T} END",
    "CASE WHEN {BOOLEAN} THEN {T} WHEN {BOOLEAN} THEN {T} END",
    "if({BOOLEAN}, {T}, {T})",
)
"""Of any type."""
COMPARED = ("nullif({T}, {T})", "greatest({T}, {T})", "least({T}, {T}, {T})")
"""Of any type whose values are computed on Arrow columns when they are compared."""
NATIVE: dict[str, tuple[str, ...]] = {
    "INT": (
        "({INT} + {INT})",
        "({INT} - {INT})",
        "({INT} * {INT} % 50)",
        "({INT} % 3)",
        "pmod({INT}, 4)",
        "-({INT})",
        "abs({INT})",
        "CAST({BIGINT} % 100 AS INT)",
        "CAST({DECIMAL} AS INT)",
        "CAST({BOOLEAN} AS INT)",
        "try_cast({STRING} AS INT)",
        "length({STRING})",
        "year({DATE})",
        "dayofmonth({DATE})",
        "minute({TIMESTAMP})",
        "datediff({DATE}, {DATE})",
        "size({ARRAY})",
        "get({ARRAY}, 0)",
        "try_element_at({ARRAY}, 2)",
        "({STRUCT}).x",
        "instr({STRING}, 'b')",
        "({INT} & {INT})",
    ),
    "BIGINT": (
        "CAST({INT} AS BIGINT)",
        "({BIGINT} + {INT})",
        "({BIGINT} - {BIGINT})",
        "({BIGINT} % 10)",
        "({BIGINT} DIV 3)",
        "abs({BIGINT})",
        "floor({DECIMAL})",
        "unix_seconds({TIMESTAMP}) % 1000",
        "({BIGINT} | {BIGINT})",
    ),
    "DOUBLE": (
        "({DOUBLE} + {DOUBLE})",
        "({DOUBLE} - {INT})",
        "({INT} * 0.25D)",
        "({DOUBLE} / 2)",
        "-({DOUBLE})",
        "abs({DOUBLE})",
        "nanvl({DOUBLE}, {DOUBLE})",
        "CAST({INT} AS DOUBLE)",
    ),
    "DECIMAL": (
        "CAST({DECIMAL} + {DECIMAL} AS DECIMAL(12,2))",
        "CAST({DECIMAL} * {INT} / 100 AS DECIMAL(12,2))",
        "CAST({INT} AS DECIMAL(12,2))",
        "try_cast({DOUBLE} AS DECIMAL(12,2))",
        "abs({DECIMAL})",
        "CAST(round({DECIMAL}, 1) AS DECIMAL(12,2))",
    ),
    "STRING": (
        "concat({STRING}, {STRING})",
        "concat_ws('-', {STRING}, {STRING})",
        "substring({STRING}, 1, 1)",
        "upper({STRING})",
        "trim({STRING})",
        "reverse({STRING})",
        "CAST({INT} AS STRING)",
        "CAST({DECIMAL} AS STRING)",
        "CAST({DATE} AS STRING)",
        "replace({STRING}, 'a', 'x')",
        "lpad({STRING}, 2, '*')",
        "({STRUCT}).y",
    ),
    "BOOLEAN": (
        "({X} = {X})",
        "({X} <> {X})",
        "({X} < {X})",
        "({X} >= {X})",
        "({X} <=> {X})",
        "({X} BETWEEN {X} AND {X})",
        "({X} IN ({X}, {X}))",
        "({X} NOT IN ({X}, {X}))",
        "({ANY} IS NULL)",
        "({ANY} IS NOT NULL)",
        "({BOOLEAN} AND {BOOLEAN})",
        "({BOOLEAN} OR {BOOLEAN})",
        "(NOT {BOOLEAN})",
        "({STRING} LIKE 'a%')",
        "({STRING} LIKE '_')",
        "isnan({DOUBLE})",
        "array_contains({ARRAY}, 2)",
        "startswith({STRING}, 'a')",
    ),
    "DATE": (
        "date_add({DATE}, {INT} % 100)",
        "last_day({DATE})",
        "trunc({DATE}, 'MM')",
        "CAST({TIMESTAMP} AS DATE)",
        "add_months({DATE}, 1)",
    ),
    "TIMESTAMP": ("date_trunc('HOUR', {TIMESTAMP})", "CAST({DATE} AS TIMESTAMP)"),
    "ARRAY": ("array({INT}, {INT})", "array({INT})"),
    "STRUCT": ("named_struct('x', {INT}, 'y', {STRING})",),
}
"""Computed on Arrow columns."""
IN_SPARK: dict[str, tuple[str, ...]] = {
    "INT": (
        "ascii({STRING})",
        "levenshtein({STRING}, {STRING})",
        "array_max({ARRAY})",
        "months_between({DATE}, {DATE})::INT",
    ),
    "BIGINT": (
        "xxhash64({STRING})",
        "crc32({STRING})",
        "aggregate({ARRAY}, 0L, (acc, x) -> acc + coalesce(x, 1))",
    ),
    "DOUBLE": ("rint({DOUBLE})", "signum({DOUBLE})"),
    "DECIMAL": ("CAST({DECIMAL} % 7 AS DECIMAL(12,2))",),
    "STRING": (
        "lower({STRING})",
        "md5({STRING})",
        "initcap({STRING})",
        "regexp_replace({STRING}, '[ab]+', '_')",
    ),
    "BOOLEAN": (
        "rlike({STRING}, '^a')",
        "exists({ARRAY}, x -> x > 2)",
        "({ARRAY} = {ARRAY})",
        "({STRUCT} < {STRUCT})",
    ),
    "DATE": ("next_day({DATE}, 'MO')", "make_date(2024, 1, pmod(coalesce({INT}, 0), 28) + 1)"),
    "TIMESTAMP": ("({TIMESTAMP} + INTERVAL 5 MINUTES)",),
    "ARRAY": (
        "sort_array({ARRAY})",
        "transform({ARRAY}, x -> x + 1)",
        "array_distinct({ARRAY})",
        "filter({ARRAY}, x -> x > 0)",
    ),
    "STRUCT": (),
}
"""Which Spark computes within the step."""
RAISING: dict[str, tuple[str, ...]] = {
    "INT": (
        "CAST({STRING} AS INT)",
        "({INT} * 400000000)",
        "element_at({ARRAY}, 1)",
        "CAST({DOUBLE} AS INT)",
    ),
    "BIGINT": ("({BIGINT} DIV {INT})",),
    "DOUBLE": ("({DOUBLE} / {INT})",),
    "DATE": ("CAST({STRING} AS DATE)",),
}
"""Which raise for some rows."""

CONSTANTS: dict[str, tuple[str, ...]] = {
    "INT": ("0", "1", "2", "3", "-1"),
    "BIGINT": ("0L", "1L", "2L", "5L"),
    "DOUBLE": ("0.5D", "1.25D", "-0.0D", "double('NaN')", "double('-Infinity')", "2.0D"),
    "DECIMAL": ("CAST(1.00 AS DECIMAL(12,2))", "CAST(-0.01 AS DECIMAL(12,2))"),
    "STRING": ("'a'", "'b'", "''", "'é'"),
    "BOOLEAN": ("true", "false"),
    "DATE": ("DATE'2024-02-28'", "DATE'2024-03-01'"),
    "TIMESTAMP": ("TIMESTAMP'2024-02-29 00:00:00'", "TIMESTAMP'2024-02-28 23:55:00'"),
    "ARRAY": ("array(1, 2)", "array(3, CAST(NULL AS INT))"),
    "STRUCT": ("named_struct('x', 1, 'y', 'a')",),
    "MAP": ("map('a', 1)",),
}


@dataclass(slots=True)
class Draw:
    """The dice, and what there is to draw from."""

    random: Random
    relations: list[Sql]
    """Tables and views."""
    in_spark: bool = False
    """Whether functions may be drawn that only Spark computes."""
    raising: bool = False
    """Whether those may that raise for some rows."""
    joins: int = 3
    """How many joins may still be drawn: each may multiply the rows."""
    names: int = 0
    """How many names were drawn."""

    def fresh(self, letter: str) -> str:
        """A name that the query has not."""
        self.names += 1
        return f"{letter}{self.names}"

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability


def constant(draw: Draw, kind: str) -> Sql:
    if draw.chance(0.1):
        return null(kind)
    return Sql(kind, draw.random.choice(CONSTANTS[kind]))


def null(kind: str) -> Sql:
    return Sql(kind, f"CAST(NULL AS {SQL_TYPES[kind]})")


def value(draw: Draw, kind: str, scope: Columns, depth: int = 1) -> Sql:
    """A value of this type that the columns in scope give."""
    known = [column for column in scope if column.type == kind]
    if depth > 0 and draw.chance(0.3 if known else 0.75):
        return fill(draw, choose(draw, templates(draw, kind), scope), kind, scope, depth - 1)
    return leaf(draw.random.choice(known)) if known and not draw.chance(0.08) else constant(draw, kind)


def choose(draw: Draw, templates: Sequence[str], scope: Columns) -> str:
    """One of them, rather with slots that columns fit into than with such that take constants."""
    kinds = {column.type for column in scope} | {"X", "ANY", "T"}

    def fitting(template: str) -> float:
        slots = [name for name, _ in SLOT.findall(template)]
        return sum(name in kinds for name in slots) / len(slots) if slots else 1

    return max(draw.random.choices(templates, k=3), key=fitting)


def kind_in(draw: Draw, scope: Columns) -> str:
    """A type, mostly of one of the columns."""
    known = [column.type for column in ordered(scope)]
    return draw.random.choice(known if known and draw.chance(0.75) else ORDERED)


def condition(draw: Draw, scope: Columns, depth: int = 1) -> Sql:
    """One that is more often about columns than `value` would make it."""
    return fill(draw, choose(draw, templates(draw, "BOOLEAN"), scope), "BOOLEAN", scope, depth)


def templates(draw: Draw, kind: str) -> tuple[str, ...]:
    if kind == "MAP":
        return EVERY
    found = NATIVE[kind] + (EVERY if draw.chance(0.2) else ())
    if kind in PLAIN and draw.chance(0.2):
        found += COMPARED
    if draw.in_spark and IN_SPARK[kind] and draw.chance(0.3):
        return IN_SPARK[kind]
    if draw.raising and kind in RAISING and draw.chance(0.15):
        return RAISING[kind]
    return found


def fill(draw: Draw, template: str, wanted: str, scope: Columns, depth: int = 1) -> Sql:
    """The template, with a value in each slot."""
    text = Text()
    held: dict[str, str] = {}
    one = draw.random.choice([column.type for column in scope if column.type in PLAIN] or PLAIN)

    def put(slot: re.Match[str]) -> str:
        name, number = slot.groups()
        if number and slot[0] in held:
            return held[slot[0]]
        kind = {"T": wanted, "X": one, "ANY": kind_in(draw, scope)}.get(name, name)
        held[slot[0]] = text(value(draw, kind, scope, depth))
        return held[slot[0]]

    return text.done(wanted, SLOT.sub(put, template))


def columns_of(draw: Draw, scope: Columns, count: int) -> list[Sql]:
    """So many of the columns, as values; fewer if there are no more."""
    return [leaf(column) for column in draw.random.sample(scope, min(count, len(scope)))]


def ordered(columns: Columns) -> Columns:
    """Those of them that can be sorted and grouped by."""
    return tuple(column for column in columns if column.type in ORDERED)

"""Which expressions grow with the column they read."""

import pyarrow as pa
import pytest

from tidemill.pipeline.expressions.monotone import grows_with
from tidemill.pipeline.plan.expression import Tree, call, column, literal

LONG, TIME, DATE = pa.int64(), pa.timestamp("us", "UTC"), pa.date32()
AT = column(3, TIME)
NUMBER = call("PreciseTimestampConversion", AT, type=LONG)
HOUR = literal("HOUR", pa.large_string())


def long(function: str, *arguments: Tree) -> Tree:
    return call(function, *arguments, type=LONG, mode="ANSI")


def excess(length: int, number: Tree = NUMBER) -> Tree:
    rest = long("Remainder", long("Subtract", number, literal(7, LONG)), literal(length, LONG))
    negative = call("LessThan", rest, literal(0, LONG), type=pa.bool_())
    return call("CaseWhen", negative, long("Add", rest, literal(length, LONG)), rest, type=LONG)


@pytest.mark.parametrize(
    "tree",
    [
        AT,
        NUMBER,
        long("Add", NUMBER, literal(5, LONG)),
        long("Subtract", NUMBER, excess(600)),
        call("TruncTimestamp", HOUR, AT, type=TIME, zone="UTC"),
        call("Cast", AT, type=DATE, mode="ANSI", zone="UTC"),
    ],
)
def test_these_grow(tree: Tree) -> None:
    found = grows_with(tree)

    assert found is not None
    assert found[0] == 3


@pytest.mark.parametrize(
    "tree",
    [
        literal(1, LONG),
        excess(600),
        long("Subtract", literal(5, LONG), NUMBER),
        long("Subtract", NUMBER, excess(-600)),
        long("Subtract", NUMBER, excess(600, long("Add", NUMBER, literal(1, LONG)))),
        long("Subtract", NUMBER, NUMBER),
        long("Add", NUMBER, column(4, LONG)),
        call("Hour", AT, type=pa.int32(), zone="UTC"),
        call("Cast", AT, type=pa.large_string(), mode="ANSI", zone="UTC"),
    ],
)
def test_these_need_not(tree: Tree) -> None:
    assert grows_with(tree) is None

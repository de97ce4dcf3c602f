"""Times moved by constant intervals, as plain arithmetic on microseconds."""

import json
from collections.abc import Callable

import pyarrow as pa
from py4j.java_gateway import JavaObject, get_field

from tidemill.pipeline.expressions.dates import DAY_US
from tidemill.pipeline.plan.expression import Call, Literal, Tree, literal, walk

CONVERSION = "PreciseTimestampConversion"
UTC = {"UTC", "Etc/UTC", "GMT", "Z", "+00:00"}
"""Zones in which every day has 24 hours."""


def moved(time: Tree, node: JavaObject, read: Callable[[JavaObject], Tree]) -> Tree | None:
    """`time` moved by the interval of a TimestampAddInterval; None if only Spark can tell its length."""
    length = _length(node.interval(), read)
    if length is None:
        return None
    # Whole days are those of the calendar, which have 23 or 25 hours where clocks are set.
    if time.spark_type == "timestamp" and node.timeZoneId().get() not in UTC and _has_days(length):
        return None
    number = Call("long", CONVERSION, (time,))
    return Call(time.spark_type, CONVERSION, (Call("long", "Add", (number, length), {"mode": "ANSI"}),))


def there_and_back(number: Tree, spark_type: str) -> Tree | None:
    """The time whose number this is, if it is just converted back."""
    if isinstance(number, Call) and number.function == CONVERSION:
        [time] = number.arguments
        return time if time.spark_type == spark_type else None
    return None


def length_us(interval: JavaObject) -> int | None:
    """As `days_and_us`, where days have 24 hours."""
    found = days_and_us(interval)
    return None if found is None else found[0] * DAY_US + found[1]


def days_and_us(interval: JavaObject) -> tuple[int, int] | None:
    """Whole days and microseconds of a constant interval without months. None for any other expression."""
    if _kind(interval) != "Literal" or interval.value() is None:
        return None
    spark_type, value = str(json.loads(interval.dataType().json())), interval.value()
    if spark_type == "interval":
        if get_field(value, "months"):
            return None
        return int(get_field(value, "days")), int(get_field(value, "microseconds"))
    if "month" in spark_type or "year" in spark_type:
        return None
    days = abs(int(value)) // DAY_US * (1 if value > 0 else -1)  # both parts have the sign of the whole
    return days, int(value) - days * DAY_US


def _length(interval: JavaObject, read: Callable[[JavaObject], Tree]) -> Tree | None:
    """Its microseconds: of a constant, or of a choice among constants."""
    if _kind(interval) in {"CaseWhen", "If"}:
        nodes = [interval.children().apply(at) for at in range(interval.children().size())]
        parts = [
            read(node) if str(node.dataType().json()) == '"boolean"' else _length(node, read)
            for node in nodes
        ]
        known = tuple(part for part in parts if part is not None)
        return Call("long", _kind(interval), known) if len(known) == len(parts) else None
    length = length_us(interval)
    return None if length is None else literal(length, pa.int64())


def _has_days(length: Tree) -> bool:
    lengths = (
        part.value.as_py() for part in walk(length) if isinstance(part, Literal) and part.spark_type == "long"
    )
    return any(abs(one) >= DAY_US for one in lengths)


def _kind(node: JavaObject) -> str:
    return str(node.getClass().getName()).rsplit(".", 1)[-1]

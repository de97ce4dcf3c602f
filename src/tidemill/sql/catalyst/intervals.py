"""Times moved by a constant interval, as plain arithmetic on microseconds."""

import json

import pyarrow as pa
from py4j.java_gateway import JavaObject, get_field

from tidemill.pipeline.expressions.dates import DAY_US
from tidemill.pipeline.plan.expression import Call, Tree, literal

CONVERSION = "PreciseTimestampConversion"
UTC = {"UTC", "Etc/UTC", "GMT", "Z", "+00:00"}
"""Zones in which every day has 24 hours."""


def moved(time: Tree, node: JavaObject) -> Tree | None:
    """`time` moved by the interval of a TimestampAddInterval; None unless its length is a constant."""
    length = length_us(node.interval())
    if length is None:
        return None
    # Whole days are those of the calendar, which have 23 or 25 hours where clocks are set.
    if abs(length) >= DAY_US and time.spark_type == "timestamp" and node.timeZoneId().get() not in UTC:
        return None
    number = Call("long", CONVERSION, (time,))
    total = Call("long", "Add", (number, literal(length, pa.int64())), {"mode": "ANSI"})
    return Call(time.spark_type, CONVERSION, (total,))


def there_and_back(number: Tree, spark_type: str) -> Tree | None:
    """The time whose number this is, if it is just converted back."""
    if isinstance(number, Call) and number.function == CONVERSION:
        [time] = number.arguments
        return time if time.spark_type == spark_type else None
    return None


def length_us(interval: JavaObject) -> int | None:
    """Of a constant interval without months; days count 24 hours. None for any other expression."""
    if not str(interval.getClass().getName()).endswith(".Literal") or interval.value() is None:
        return None
    kind, value = str(json.loads(interval.dataType().json())), interval.value()
    if kind == "interval":
        if get_field(value, "months"):
            return None
        return int(get_field(value, "days")) * DAY_US + int(get_field(value, "microseconds"))
    return None if "month" in kind or "year" in kind else int(value)

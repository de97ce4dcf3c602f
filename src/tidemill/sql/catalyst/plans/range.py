"""The values that bound a RANGE frame: that of the order in the current row, moved by a constant."""

import json
from typing import Any

import pyarrow as pa
from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from tidemill.pipeline import types
from tidemill.pipeline.errors import Refused
from tidemill.pipeline.expressions.dates import DAY_US
from tidemill.pipeline.plan.expression import Call, Literal, Tree, literal
from tidemill.sql.catalyst import literal as constants
from tidemill.sql.catalyst.expression import place_of
from tidemill.sql.catalyst.intervals import CONVERSION, UTC, length_us
from tidemill.sql.catalyst.plans.reader import unproved
from tidemill.sql.relation import Order, Scalar


def moved(order: Order, offset: JavaObject, spark: SparkSession) -> Scalar:
    """The bound, which lies further on in the order if the offset is positive. Raises `Refused`."""
    tree, kind = order.by.tree, order.by.tree.spark_type
    found: Tree | None = None
    if kind == "date":
        found = _date(tree, _days(offset), down=order.descending)
    elif kind in {"timestamp", "timestamp_ntz"}:
        found = _time(tree, _microseconds(offset, kind, spark), down=order.descending)
    else:
        found = _number(tree, constants.read(offset), down=order.descending)
    why = unproved(found) if found else "RANGE"
    if found is None or why:
        raise Refused(
            f"RANGE over {types.sql_name(types.from_spark(kind))} by {offset.sql()} is not supported yet in "
            "a view: bound it by a number, or by days, hours or less",
            place=place_of(offset),
        )
    return Scalar(found, order.by.unproved, lambda: "")


def _number(tree: Tree, offset: Literal | Call, *, down: bool) -> Tree | None:
    kind = _wider(tree.spark_type)
    if not isinstance(offset, Literal) or kind is None:
        return None
    return Call(kind, "Subtract" if down else "Add", (tree, offset), {"mode": "ANSI"})


def _wider(kind: Any) -> Any:
    """The type of a sum of two numbers of this type; None if it is of something else."""
    if isinstance(kind, str) and kind.startswith("decimal"):
        known = types.from_spark(kind)
        return f"decimal({min(known.precision + 1, 38)},{known.scale})"
    return kind if kind in {"byte", "short", "integer", "long", "float", "double"} else None


def _date(tree: Tree, days: int | None, *, down: bool) -> Tree | None:
    if days is None:
        return None
    return Call("date", "DateSub" if down else "DateAdd", (tree, literal(days, pa.int32())))


def _days(offset: JavaObject) -> int | None:
    if json.loads(offset.dataType().json()) == "integer":
        return int(offset.value())
    length = length_us(offset)
    return None if length is None or length % DAY_US else length // DAY_US


def _time(tree: Tree, length: int | None, *, down: bool) -> Tree | None:
    if length is None:
        return None
    number = Call("long", CONVERSION, (tree,))
    added = Call("long", "Add", (number, literal(-length if down else length, pa.int64())), {"mode": "ANSI"})
    return Call(tree.spark_type, CONVERSION, (added,))


def _microseconds(offset: JavaObject, kind: str, spark: SparkSession) -> int | None:
    length = length_us(offset)
    local = kind == "timestamp" and spark.conf.get("spark.sql.session.timeZone") not in UTC
    # Whole days are those of the calendar, which have 23 or 25 hours where clocks are set.
    return None if length is None or (local and abs(length) >= DAY_US) else length

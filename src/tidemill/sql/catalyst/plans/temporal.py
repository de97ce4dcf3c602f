"""Conditions on the step's clock: a value of the row on one side, a clock moved by constants on the other."""

from typing import Any

from py4j.java_gateway import JavaObject

from tidemill.pipeline.errors import Refused
from tidemill.pipeline.plan.clock import Clock, Shift, zone_of
from tidemill.sql.catalyst import intervals
from tidemill.sql.catalyst.expression import Scope, items, kind_of, place_of
from tidemill.sql.catalyst.origin import written
from tidemill.sql.catalyst.plans.reader import Reader
from tidemill.sql.relation import Scalar

REFERENCE = "OuterReference"
TYPES = ("timestamp", "timestamp_ntz", "date")
COMPARE = {
    "GreaterThan": (">", "<"),
    "GreaterThanOrEqual": (">=", "<="),
    "LessThan": ("<", ">"),
    "LessThanOrEqual": ("<=", ">="),
    "EqualTo": ("=", "="),
    "EqualNullSafe": ("=", "="),
}
"""How the left side compares with the right, and the right with the left."""


def tells_time(node: JavaObject) -> bool:
    """Whether the value follows the step's clock."""
    return kind_of(node) == REFERENCE or any(tells_time(child) for child in items(node.children()))


def read_condition(reader: Reader, node: JavaObject, scope: Scope, schema: Any) -> tuple[Scalar, str, Clock]:
    """What is compared, how, and with which clock. Raises `Refused` for any other condition."""
    if kind_of(node) in COMPARE:
        one, other = items(node.children())
        compare, reverse = COMPARE[kind_of(node)]
        if tells_time(other) and not tells_time(one):
            return reader.scalar(one, scope, schema), compare, _clock(reader, other)
        if not tells_time(other):
            return reader.scalar(other, scope, schema), reverse, _clock(reader, one)
    if kind_of(node) == "Or":
        clock = _named(node)
        raise Refused(
            f"{_text(node)} has {clock} in an OR: write two queries with UNION ALL between them, WHERE a and "
            f"WHERE (a) IS NOT TRUE AND b, with {clock} in b",
            place=place_of(node),
        )
    raise _refused(node)


def _clock(reader: Reader, node: JavaObject) -> Clock:
    zone = str(reader.frames.spark.conf.get("spark.sql.session.timeZone"))
    start, shifts = _moves(node)
    try:
        zone_of(zone)
    except LookupError as error:
        raise Refused(
            f"the time zone {zone} is not known to Python: choose another", place=place_of(node)
        ) from error
    return Clock(start, shifts, zone)


def _moves(node: JavaObject) -> tuple[str, tuple[Shift, ...]]:
    """The type that a clock starts with, and what is done to it in turn."""
    kind, spark_type = kind_of(node), str(node.dataType().json()).strip('"')
    if kind == REFERENCE:
        return spark_type, ()
    if kind in {"DateAdd", "DateSub"} and kind_of(node.right()) == "Literal":
        days = int(node.right().value())
        return _then(node.left(), Shift(days=days if kind == "DateAdd" else -days))
    if kind == "TimestampAddInterval":
        length = intervals.days_and_us(node.interval())
        if length is not None:
            return _then(node.start(), Shift(days=length[0], us=length[1]))
    if kind == "Cast" and spark_type in TYPES:
        return _then(node.child(), Shift(to=spark_type))
    raise _refused(node)


def _then(node: JavaObject, shift: Shift) -> tuple[str, tuple[Shift, ...]]:
    start, shifts = _moves(node)
    return start, (*shifts, shift)


def _refused(node: JavaObject) -> Refused:
    return Refused(
        f"{_text(node)} is not supported on the step's clock: compare a value of the row with now() or "
        "current_date(), plus or minus days, hours or less",
        place=place_of(node),
    )


def _named(node: JavaObject) -> str:
    """The function of the clock that an expression has, as SQL writes it."""
    while kind_of(node) != REFERENCE:
        node = next(child for child in items(node.children()) if tells_time(child))
    return str(node.name())


def _text(node: JavaObject) -> str:
    return written(node) or str(node.sql()).replace("outer(", "(")

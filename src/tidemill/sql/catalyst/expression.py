"""Catalyst's expressions, read as typed trees over positions.

Each call over py4j costs a fraction of a millisecond, so what holds for a whole class is asked for once.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from py4j.java_gateway import JavaClass, JavaObject

from tidemill.pipeline.errors import Place, Refused
from tidemill.pipeline.plan.expression import Call, Column, Tree
from tidemill.sql.catalyst import decimals, intervals, literal
from tidemill.sql.catalyst.session import place

EXPRESSION = "org.apache.spark.sql.catalyst.expressions.Expression"
TRANSPARENT = {
    "Alias",
    "KnownNotNull",
    "KnownNullable",
    "KnownFloatingPointNormalized",
    "NormalizeNaNAndZero",
}
"""They have the value of their child. Spark normalises floats in join keys, since it compares keys as bytes;
ours compare by value, where -0.0 equals 0.0 and NaN equals NaN."""
SUBQUERIES = {
    "ScalarSubquery": "a subquery that gives one value",
    "Exists": "EXISTS (SELECT …) in this place",
    "InSubquery": "IN (SELECT …) in this place",
    "ListQuery": "IN (SELECT …) in this place",
    "LateralSubquery": "a LATERAL subquery in this place",
}
OPTIONS = {"timeZoneId": "zone", "escapeChar": "escape"}
"""Our names of Catalyst's fields, where they differ; those that say how to fail are the option `mode`."""
POLICY = ("policy", "spark.sql.legacy.timeParserPolicy")
SETTINGS = {"DateFormatClass": POLICY, "FromUnixTime": POLICY}
"""By Catalyst's class, our name of a setting that decides what it does, and Spark's."""
CHANGING = {
    "CurrentTime": "current_time()",
    "Rand": "rand()",
    "Randn": "randn()",
    "RandStr": "randstr()",
    "Uniform": "uniform()",
    "Uuid": "uuid()",
    "Shuffle": "shuffle()",
    "MonotonicallyIncreasingID": "monotonically_increasing_id()",
    "SparkPartitionID": "spark_partition_id()",
    "InputFileName": "input_file_name()",
    "InputFileBlockStart": "input_file_block_start()",
    "InputFileBlockLength": "input_file_block_length()",
    "CallMethodViaReflection": "reflect()",
}
"""By Catalyst's class, how SQL writes it."""


@dataclass(frozen=True, slots=True)
class Scope:
    """At which position of its input an expression finds an attribute, or the value of an aggregate or of a
    subquery."""

    attributes: dict[int, int]
    aggregates: dict[int, int] = field(default_factory=dict)
    subqueries: dict[int, int] = field(default_factory=dict)

    def find(self, node: JavaObject, kind: str) -> int | None:
        """The position of the column that holds the value of this very node, if there is one."""
        if kind == "AttributeReference":
            return self.attributes[node.exprId().id()]
        if kind == "AggregateExpression":
            return self.aggregates[node.resultId().id()]
        if kind == "ScalarSubquery":
            return self.subqueries.get(node.exprId().id())
        if kind == "WindowExpression":
            return self.aggregates[node.windowFunction().resultId().id()]
        return None


def items(sequence: JavaObject) -> list[JavaObject]:
    """The elements of a Scala sequence."""
    return [sequence.apply(index) for index in range(sequence.size())]


def kind_of(node: JavaObject) -> str:
    """The name of the node's class."""
    return str(node.getClass().getName()).rsplit(".", 1)[-1].rstrip("$")


def place_of(node: JavaObject) -> Place | None:
    """Where in the query a plan or expression comes from, if that is known."""
    origin = node.origin()
    return place(origin.line(), origin.startPosition())


def plans_of(plan: JavaObject) -> Iterator[JavaObject]:
    """A plan, those of its subqueries and those below, each before its children."""
    yield plan
    for inner in (*items(plan.innerChildren()), *items(plan.children())):
        yield from plans_of(inner)


def expressions_in(plan: JavaObject) -> Iterator[JavaObject]:
    """The expressions of one plan alone, each before its children."""
    waiting = items(plan.expressions())
    while waiting:
        node = waiting.pop(0)
        yield node
        waiting.extend(items(node.children()))


def expressions_of(plan: JavaObject) -> Iterator[JavaObject]:
    """All expressions of a plan, of its subqueries and of what is below."""
    for part in plans_of(plan):
        yield from expressions_in(part)


def read(node: JavaObject, scope: Scope) -> Tree:
    """The expression with its attributes at their positions. Raises `Refused` for what has no fixed value."""
    kind = kind_of(node)
    if kind in TRANSPARENT:
        return read(node.child(), scope)
    position = scope.find(node, kind)
    if position is not None:
        return Column(json.loads(node.dataType().json()), position)
    _refuse(node, kind)
    if kind == "Literal":
        return literal.read(node)
    spark_type = json.loads(node.dataType().json())
    arguments = tuple(read(child, scope) for child in items(node.children()))
    if kind == "InSet":
        return Call(spark_type, "In", (*arguments, *_members(node)))
    if kind == "UnscaledValue":
        return decimals.unscaled(arguments[0])
    if kind == "MakeDecimal":
        return decimals.scaled(arguments[0], spark_type)
    moved = None
    if kind == intervals.CONVERSION:
        moved = intervals.there_and_back(arguments[0], spark_type)
    elif kind == "TimestampAddInterval":
        moved = intervals.moved(arguments[0], node, lambda part: read(part, scope))
    return moved or Call(spark_type, kind, arguments, options(node) | _settings(node, kind))


def _refuse(node: JavaObject, kind: str) -> None:
    """Raise `Refused` for what has no fixed value, or not one of this row alone."""
    if kind in SUBQUERIES:
        raise Refused(
            f"{SUBQUERIES[kind]} is not supported yet: make it a view of its own and join it",
            place=place_of(node),
        )
    if not node.deterministic():
        while changing := [child for child in items(node.children()) if not child.deterministic()]:
            node = changing[0]
        shown = CHANGING.get(kind_of(node)) or node.sql()
        raise Refused(
            f"{shown} gives another value each time: compute it before the rows are inserted",
            place=place_of(node),
        )
    if kind == "OuterReference":
        raise Refused(f"{node.name()} in this place: compare a value of the row with it in a WHERE")


def _members(node: JavaObject) -> list[Tree]:
    """The constants of a long IN list, which Catalyst keeps as a set of bare values."""
    kind, values = node.child().dataType(), node.hset().toSeq()
    members = [literal.of(value, kind, str(value)) for value in items(values)]
    return sorted(members, key=str)


def options(node: JavaObject) -> dict[str, str]:
    """What the node knows beyond arguments and type: `mode`, `zone`, and the rest by Catalyst's names."""
    found: dict[str, str] = {}
    for index, (name, shape) in enumerate(_fields(node)):
        if shape == "child":
            continue
        value = node.productElement(index)
        if shape == "option":
            if value.isEmpty() or _is_expression(node, value.get()):
                continue
            value = value.get()
        elif shape == "sequence" and (value.isEmpty() or _is_expression(node, value.head())):
            continue
        key, text = _option(name, value)
        found[key] = text
    return found


def _settings(node: JavaObject, kind: str) -> dict[str, str]:
    """What the active session says of the setting that the node asks for when it is evaluated."""
    if kind not in SETTINGS:
        return {}
    ours, name = SETTINGS[kind]
    session = JavaClass("org.apache.spark.sql.internal.SQLConf", node._gateway_client).get()
    return {ours: str(session.getConfString(name))}


def _option(name: str, value: Any) -> tuple[str, str]:
    if isinstance(value, bool):
        if name in {"failOnError", "ansiEnabled"}:
            return "mode", "ANSI" if value else "LEGACY"
        return name, str(value).lower()
    text = value.toString() if isinstance(value, JavaObject) else str(value)
    if name in {"evalMode", "evalContext"}:
        return "mode", re.sub(r"NumericEvalContext\((\w+),.*", r"\1", text)
    return OPTIONS.get(name, name), text


def _is_expression(node: JavaObject, value: Any) -> bool:
    """Whether it is an argument, or a pair of them as in the branches of CASE."""
    if not isinstance(value, JavaObject):
        return False
    if value.getClass().getName() == "scala.Tuple2":
        value = value._1()
    return bool(_expression_class(node).isInstance(value))


def _expression_class(node: JavaObject) -> JavaObject:
    return node.getClass().getClassLoader().loadClass(EXPRESSION)


_known_fields: dict[str, tuple[tuple[str, str], ...]] = {}
_SHAPES = {
    "scala.Option": "option",
    "scala.collection.immutable.Seq": "sequence",
    "scala.collection.Seq": "sequence",
}


def _fields(node: JavaObject) -> tuple[tuple[str, str], ...]:
    """The fields of the node's class, each with what it may hold: a child, an option, a sequence, a value."""
    name = str(node.getClass().getName())
    if name not in _known_fields:
        names = str(node.productElementNames().mkString(",")).split(",")
        _known_fields[name] = tuple(
            (field, _shape(node, index, field)) for index, field in enumerate(names) if field
        )
    return _known_fields[name]


def _shape(node: JavaObject, index: int, name: str) -> str:
    if name == "dataType":
        return "child"  # the type of the whole tree says it
    declared = {str(field.getName()): field for field in node.getClass().getDeclaredFields()}
    if name not in declared:  # what it extends holds it, under a name of its own
        return "child" if _is_expression(node, node.productElement(index)) else "value"
    held = declared[name].getType()
    if _expression_class(node).isAssignableFrom(held):
        return "child"
    return _SHAPES.get(str(held.getName()), "value")

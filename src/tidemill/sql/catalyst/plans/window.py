"""Window functions: OVER (PARTITION BY … ORDER BY … ROWS or RANGE …)."""

import json
from typing import Any

from py4j.java_gateway import JavaObject

from tidemill.pipeline.errors import Refused
from tidemill.pipeline.plan.expression import Column, Literal
from tidemill.sql import relation
from tidemill.sql.catalyst.expression import Scope, items, kind_of, place_of
from tidemill.sql.catalyst.origin import origin_of
from tidemill.sql.catalyst.plans.aggregate import read_call
from tidemill.sql.catalyst.plans.order import read_order
from tidemill.sql.catalyst.plans.range import moved
from tidemill.sql.catalyst.plans.reader import Reader
from tidemill.sql.catalyst.plans.schema import attributes, nullable, schema_of
from tidemill.sql.relation import Edge, Function, Order, Scalar, WindowFunction

WINDOW = "WindowExpression"
PLACES = {"RowNumber", "Rank", "DenseRank", "PercentRank", "CumeDist"}


def read_window(reader: Reader, plan: JavaObject) -> relation.Window | relation.Project:
    """The child's columns and those of the functions.

    Catalyst may have made another expression around a function, or a constant of it, or have put a column of
    the child beside, by which a lateral join finds the rows.
    """
    child, scope, schema = plan.child(), attributes(plan.child()), schema_of(plan.child())
    order = read_order(reader, items(plan.orderSpec()), scope, schema)
    keys = tuple(reader.scalar(key, scope, schema) for key in items(plan.partitionSpec()))
    made = items(plan.windowExpressions())
    named = [(one.name(), window) for one in made if (window := _window_in(one)) is not None]
    windows = [window for _, window in named]
    found = []
    for window in windows:
        frame = window.windowSpec().frameSpecification()
        function = _function(reader, window.windowFunction(), frame, scope, schema)
        edges = (_edge(reader, frame, side, order) for side in (frame.lower(), frame.upper()))
        found.append(WindowFunction(function, *edges))
    whole, origin = schema_of(plan), origin_of(plan)
    if all(kind_of(_value(one)) == WINDOW for one in made):
        return relation.Window(whole, origin, reader.read(child), keys, order, tuple(found))
    fields = [nullable(name, _type(window)) for name, window in named]
    inner = {"type": "struct", "fields": [*schema["fields"], *fields]}
    below = reader.read(child)
    if found:
        below = relation.Window(inner, origin, below, keys, order, tuple(found))
    return relation.Project(whole, origin, below, _around(reader, plan, windows, inner))


def _window_in(node: JavaObject) -> JavaObject | None:
    """The window function of an expression, around no more than one of which Catalyst puts something."""
    if kind_of(node) == WINDOW:
        return node
    inner = (_window_in(child) for child in items(node.children()))
    return next((window for window in inner if window is not None), None)


def _value(named: JavaObject) -> JavaObject:
    return named.child() if kind_of(named) == "Alias" else named


def _around(reader: Reader, plan: JavaObject, windows: list[JavaObject], schema: Any) -> tuple[Scalar, ...]:
    """The child's columns, and what is made of the values of the functions, which follow them."""
    columns = items(plan.child().output())
    places = {
        window.windowFunction().resultId().id(): len(columns) + number
        for number, window in enumerate(windows)
        if kind_of(window.windowFunction()) == "AggregateExpression"
    }
    scope = Scope(attributes(plan.child()).attributes, places)
    kept = [reader.scalar(column, scope, schema) for column in columns]
    number = len(columns)
    for one in items(plan.windowExpressions()):
        if kind_of(_value(one)) == WINDOW:
            value = Column(schema["fields"][number]["type"], number)
            kept.append(Scalar(value, None, lambda: ""))
        else:
            kept.append(reader.scalar(one, scope, schema))
        number += _window_in(one) is not None
    return tuple(kept)


def _type(node: JavaObject) -> Any:
    return json.loads(node.dataType().json())


def _edge(reader: Reader, frame: JavaObject, side: JavaObject, order: tuple[Order, ...]) -> Edge:
    kind, by_rows = kind_of(side), kind_of(frame.frameType()) == "RowFrame"
    if kind.startswith("Unbounded"):
        return Edge()
    if kind == "CurrentRow":
        return Edge(rows=0) if by_rows else Edge(peers=True)
    if kind != "Literal":
        raise Refused(
            f"{side.sql()} as the bound of a window must be a constant: write a number", place=place_of(side)
        )
    if by_rows:
        return Edge(rows=side.value())
    return Edge(value=moved(order[0], side, reader.frames.spark))


def _function(reader: Reader, node: JavaObject, frame: JavaObject, scope: Scope, schema: Any) -> Function:
    kind = kind_of(node)
    inner = node.aggregateFunction() if kind == "AggregateExpression" else node
    match kind_of(inner):
        case name if name in PLACES:
            return _plain(inner, (), {})
        case "NTile":
            return _plain(inner, (), {"buckets": str(inner.buckets().value())})
        case "Lag" | "Lead":
            options = {"away": str(frame.lower().value()), **_nulls(inner)}
            values = [reader.scalar(one, scope, schema) for one in (inner.input(), inner.default())]
            return _plain(inner, tuple(values if _is_value(values[1]) else values[:1]), options)
        case "NthValue":
            value = reader.scalar(inner.input(), scope, schema)
            return _plain(inner, (value,), {"nth": str(inner.offset().value()), **_nulls(inner)})
        case "First" | "Last":
            value = reader.scalar(inner.child(), scope, schema)
            condition = node.filter()
            where = None if condition.isEmpty() else reader.scalar(condition.get(), scope, schema)
            return _plain(inner, (value,), _nulls(inner), where)
    if kind != "AggregateExpression":
        raise Refused(
            f"{node.sql()} OVER (…) is not supported yet in a view: join a view that groups",
            place=place_of(node),
        )
    return read_call(reader, node, scope, schema)


def _plain(
    node: JavaObject, arguments: tuple[Scalar, ...], options: dict[str, str], where: Scalar | None = None
) -> Function:
    kind = json.loads(node.dataType().json())
    return Function(kind_of(node), arguments, where, kind, options, str(node.sql()), place_of(node))


def _nulls(node: JavaObject) -> dict[str, str]:
    return {"ignoreNulls": str(node.ignoreNulls()).lower()}


def _is_value(default: Scalar) -> bool:
    return not isinstance(default.tree, Literal) or bool(default.tree.value.is_valid)

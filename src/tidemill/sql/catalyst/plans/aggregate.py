"""GROUP BY and aggregate functions."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from py4j.java_gateway import JavaObject

from tidemill.pipeline.plan.expression import Literal
from tidemill.sql import relation
from tidemill.sql.catalyst.expression import Scope, items, kind_of, place_of
from tidemill.sql.catalyst.origin import origin_of, written
from tidemill.sql.catalyst.plans.functions import read_function
from tidemill.sql.catalyst.plans.reader import Reader
from tidemill.sql.catalyst.plans.schema import attributes, name_of, nullable, positions, same, schema_of
from tidemill.sql.catalyst.plans.sessions import read_grouped
from tidemill.sql.catalyst.plans.subquery import Input, with_values

QUALIFIER = re.compile(r"\b[A-Za-z_]\w*\.(?=\w)")
"""The name of a relation before that of a column."""
CALL = re.compile(r"\w+\s*\(.*\)", re.DOTALL)


def read_aggregate(reader: Reader, plan: JavaObject) -> relation.Aggregate | relation.Project:
    """Groups, and results over their keys and functions; both may use the values of subqueries."""
    grouping, nodes = items(plan.groupingExpressions()), items(plan.aggregateExpressions())
    calls = [call for node in nodes for call in aggregate_calls(node)]
    given = Input(read_grouped(reader, plan), attributes(plan.child()), schema_of(plan.child()))
    asked = [child for call in calls for child in items(call.children())]
    rows = with_values(reader, given, [*grouping, *asked])
    keys = tuple(reader.scalar(key, rows.scope, rows.schema) for key in grouping)
    functions: list[relation.Function] = []
    found: dict[int, int] = {}
    for call in calls:
        function = read_call(reader, call, rows.scope, rows.schema)
        if function not in functions:
            functions.append(function)
        found[call.resultId().id()] = len(keys) + functions.index(function)
    fields = [
        nullable(name_of(key), scalar.tree.spark_type) for key, scalar in zip(grouping, keys, strict=True)
    ]
    fields += [nullable(function.text, function.spark_type) for function in functions]
    group_schema = {"type": "struct", "fields": fields}
    origin = origin_of(plan)
    groups = relation.Aggregate(
        group_schema, origin, rows.rows, keys, tuple(functions), same(group_schema), group_schema
    )
    above = with_values(reader, Input(groups, Scope(positions(grouping), found), group_schema), nodes)
    results = tuple(reader.scalar(node, above.scope, above.schema) for node in nodes)
    if above.rows is groups:
        return replace(groups, schema=schema_of(plan), results=results)
    return relation.Project(schema_of(plan), origin, above.rows, results)


def read_call(reader: Reader, call: JavaObject, scope: Scope, schema: Any) -> relation.Function:
    inner = call.aggregateFunction()
    name, nodes, options = read_function(inner, reader.frames.spark)
    arguments = tuple(
        _constant(node) if isinstance(node, Literal) else reader.scalar(node, scope, schema) for node in nodes
    )
    condition = call.filter()
    if call.isDistinct():
        options["distinct"] = "true"
    return relation.Function(
        name,
        arguments,
        None if condition.isEmpty() else reader.scalar(condition.get(), scope, schema),
        json.loads(inner.dataType().json()),
        options,
        QUALIFIER.sub("", str(call.sql())),
        place_of(inner) or place_of(call),
        _called(inner),
    )


def _constant(value: Literal) -> relation.Scalar:
    return relation.Scalar(value, None, lambda: value.text)


def _called(function: JavaObject) -> str:
    """The call as it stands in the query; empty if that is not known."""
    text = written(function)
    return text if CALL.fullmatch(text) else ""


def aggregate_calls(node: JavaObject) -> Iterator[JavaObject]:
    if kind_of(node) == "AggregateExpression":
        yield node
    else:
        for child in items(node.children()):
            yield from aggregate_calls(child)

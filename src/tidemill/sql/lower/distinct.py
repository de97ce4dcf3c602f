"""Aggregates over distinct values, in terms of aggregates over all rows.

Where functions ask for different values, Catalyst has made groups within groups of them; here is what it
leaves to the plan of execution.
"""

from dataclasses import replace
from typing import Any

import msgspec
import pyarrow as pa

from tidemill.pipeline import types
from tidemill.pipeline.errors import Refused
from tidemill.pipeline.plan.expression import Column, Literal, Tree, literal
from tidemill.sql.lower.builder import Builder, Rows
from tidemill.sql.relation import Aggregate, AnyRelation, Function, Project, Scalar, Union

DISTINCT = "distinct"
ONLY = "Min"
"""Chooses a value from one and from NULLs, whatever its type."""


def lower_distinct_functions(relation: AnyRelation, build: Builder) -> Rows | None:
    """Over the distinct values of each group. Functions that want all rows are an aggregation of their own,
    whose results come along as one more row of the group."""
    if not isinstance(relation, Aggregate):
        return None
    values = _values(relation)
    if not values:
        return None
    origin, count = relation.origin, len(relation.keys)
    groups = relation.group_schema["fields"]
    fields = groups[:count] + [_field(f"value{index}", one.tree) for index, one in enumerate(values)]
    schema = _struct(fields)
    grouping = (*relation.keys, *values)
    distinct = Aggregate(schema, origin, relation.child, grouping, (), _columns(schema), schema)
    child: AnyRelation = distinct
    others = tuple(one for one in relation.functions if DISTINCT not in one.options)
    is_value = None
    if others:
        whole = replace(relation, functions=others)
        child, is_value = _beside(distinct, whole), _column("boolean", len(fields))
    functions = []
    for one in relation.functions:
        if one in others:
            held = _column(one.spark_type, len(fields) + 1 + others.index(one))
            functions.append(replace(one, name=ONLY, arguments=(held,), filter=None, options={}))
        else:
            functions.append(_over(one, values, count, is_value))
    keys = _columns(schema)[:count]
    return build.lower(replace(relation, child=child, keys=keys, functions=tuple(functions)))


def _values(relation: Aggregate) -> list[Scalar]:
    """What the functions want distinct; nothing if none does. Raises `Refused` unless they want the same."""
    wanted: list[Scalar] | None = None
    for function in relation.functions:
        if DISTINCT in function.options:
            own = [one for one in function.arguments if not isinstance(one.tree, Literal)]
            # Of constants the first will do: the others are not what is counted, but how.
            own = [one for index, one in enumerate(own or function.arguments[:1]) if one not in own[:index]]
            same = wanted is None or (len(own) == len(wanted) and all(one in own for one in wanted))
            if function.filter or not same:
                raise Refused(
                    f"{function.text} is not supported yet beside other DISTINCT ones: compute it in a view "
                    "of its own",
                    place=function.place,
                )
            wanted = own
    return wanted or []


def _over(function: Function, values: list[Scalar], count: int, is_value: Scalar | None) -> Function:
    """The function over rows that hold the values after so many keys."""
    arguments = tuple(
        _column(one.tree.spark_type, count + values.index(one)) if one in values else one
        for one in function.arguments
    )
    options = {name: value for name, value in function.options.items() if name != DISTINCT}
    return replace(function, arguments=arguments, filter=is_value, options=options)


def _beside(distinct: Aggregate, whole: Aggregate) -> Union:
    """Keys, values, whether the row is one of values, and the results of the functions that want all rows."""
    count, known = len(whole.keys), distinct.schema["fields"]
    fields = [_field(one.text, one) for one in whole.functions]
    schema = _struct([*known, _field("is_value", _column("boolean", 0).tree), *fields])
    groups = _struct([*known[:count], *fields])
    whole = replace(whole, schema=groups, group_schema=groups, results=_columns(groups))
    columns = _columns(groups)
    nulls = [_null(field["type"]) for field in known[count:]]
    rows = (
        (distinct, (*_columns(distinct.schema), _constant(True), *(_null(one["type"]) for one in fields))),
        (whole, (*columns[:count], *nulls, _constant(False), *columns[count:])),
    )
    origin = whole.origin
    return Union(schema, origin, tuple(Project(schema, origin, child, one) for child, one in rows))


def _columns(schema: Any) -> tuple[Scalar, ...]:
    return tuple(_column(field["type"], index) for index, field in enumerate(schema["fields"]))


def _column(spark_type: Any, index: int) -> Scalar:
    return _proved(Column(spark_type, index))


def _null(spark_type: Any) -> Scalar:
    return _proved(msgspec.structs.replace(literal(None, types.from_spark(spark_type)), text="NULL"))


def _constant(value: bool) -> Scalar:
    return _proved(msgspec.structs.replace(literal(value, pa.bool_()), text=str(value).lower()))


def _proved(tree: Tree) -> Scalar:
    return Scalar(tree, None, lambda: str(tree))


def _field(name: str, value: Tree | Function) -> Any:
    return {"name": name, "type": value.spark_type, "nullable": True, "metadata": {}}


def _struct(fields: list[Any]) -> Any:
    return {"type": "struct", "fields": fields}

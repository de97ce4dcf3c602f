"""The arguments and options of an aggregate function, also where Catalyst's form of them is not ours."""

import json
from collections.abc import Callable

import pyarrow as pa
from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from tidemill.pipeline import types
from tidemill.pipeline.plan import expression as plans
from tidemill.pipeline.plan.expression import Literal
from tidemill.sql.catalyst import expression, literal
from tidemill.sql.catalyst.expression import items, kind_of
from tidemill.sql.catalyst.plans.user import read_user

Arguments = list[JavaObject | Literal]
"""Expressions over rows, and constants that are already read."""
Read = Callable[[JavaObject], tuple[Arguments, dict[str, str]]]

BUFFERS = {"mutableAggBufferOffset", "inputAggBufferOffset"}
"""Where a function keeps what it adds up: a matter of Spark's own execution."""


def read_plain(function: JavaObject) -> tuple[Arguments, dict[str, str]]:
    found = expression.options(function)
    return items(function.children()), {name: found[name] for name in found if name not in BUFFERS}


def read_list(function: JavaObject) -> tuple[Arguments, dict[str, str]]:
    """The text, the delimiter, what it is ordered by; how is an option. Constants order nothing."""
    text, delimiter, *orders = items(function.children())
    orders = [order for order in orders if not order.child().foldable()]
    words = [f"{order.direction().sql()} {order.nullOrdering().sql()}".lower() for order in orders]
    options = {"order": ", ".join(words)} if words else {}
    return [text, delimiter, *(order.child() for order in orders)], options


def read_pivot(function: JavaObject) -> tuple[Arguments, dict[str, str]]:
    """What is looked for among some values, what is to be taken then, and the values as an array."""
    name = function.pivotColumn()
    values = [literal.of(each, name.dataType(), "") for each in items(function.pivotColumnValues())]
    kind = types.from_spark(json.loads(name.dataType().json()))
    held = [value.value.as_py() for value in values if isinstance(value, Literal)]
    return [name, function.valueColumn(), plans.literal(held, pa.large_list(kind))], {}


READ: dict[str, Read] = {"ListAgg": read_list, "PivotFirst": read_pivot}


def read_function(function: JavaObject, spark: SparkSession) -> tuple[str, Arguments, dict[str, str]]:
    """The name of an aggregate function, what it is applied to, and what else it knows."""
    if kind_of(function) == "PythonUDAF":
        return read_user(function, spark)
    return kind_of(function), *READ.get(kind_of(function), read_plain)(function)

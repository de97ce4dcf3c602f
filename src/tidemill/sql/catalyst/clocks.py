"""The step's clock in a WHERE: now() and its kin, of which the optimizer would make constants.

So it gets to see, in their place, references to something outside of the query: it moves conditions with
them to where they belong, and leaves them as they are.
"""

from collections.abc import Iterator

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from tidemill.pipeline.errors import Refused
from tidemill.sql.catalyst.expression import expressions_of, items, kind_of, place_of
from tidemill.sql.catalyst.session import jvm

CLOCKS = {
    "CurrentTimestamp": "current_timestamp()",
    "Now": "now()",
    "CurrentDate": "current_date()",
    "LocalTimestamp": "localtimestamp()",
}
"""By Catalyst's class, how SQL writes it."""
SUBQUERIES = {"ScalarSubquery", "Exists", "ListQuery", "LateralSubquery"}
"""What has a plan of its own."""


def with_references(spark: SparkSession, plan: JavaObject) -> JavaObject:
    """The plan with references for the functions of the clock in a WHERE. Raises `Refused` for others."""
    children = items(plan.children())
    if children:
        plan = plan.withNewChildren(_sequence(spark, [with_references(spark, child) for child in children]))
    if kind_of(plan) != "Filter":
        for node in items(plan.expressions()):
            _refuse(_clocks(node))
        return plan
    condition = _referring(spark, plan.condition())
    return jvm(spark).org.apache.spark.sql.catalyst.plans.logical.Filter(condition, plan.child())


def _referring(spark: SparkSession, node: JavaObject) -> JavaObject:
    kind = kind_of(node)
    if kind in CLOCKS:
        return _reference(spark, CLOCKS[kind], node.dataType())
    if kind in SUBQUERIES:
        _refuse(_clocks(node))  # there a reference would be one to the query around it
        return node
    children = items(node.children())
    if not children:
        return node
    return node.withNewChildren(_sequence(spark, [_referring(spark, child) for child in children]))


def _reference(spark: SparkSession, name: str, kind: JavaObject) -> JavaObject:
    classes = jvm(spark).org.apache.spark.sql.catalyst.expressions
    nothing = getattr(getattr(jvm(spark).scala, "None$"), "MODULE$")
    nobody, number = _sequence(spark, []), classes.NamedExpression.newExprId()
    value = classes.Literal.create(None, kind)
    return classes.OuterReference(classes.Alias(value, name, number, nobody, nothing, nobody).toAttribute())


def _clocks(node: JavaObject) -> Iterator[JavaObject]:
    """The functions of the clock in an expression and in its subqueries."""
    if kind_of(node) in CLOCKS:
        yield node
    if kind_of(node) in SUBQUERIES:
        yield from (inner for inner in expressions_of(node.plan()) if kind_of(inner) in CLOCKS)
    for child in items(node.children()):
        yield from _clocks(child)


def _refuse(found: Iterator[JavaObject]) -> None:
    for node in found:
        raise Refused(
            f"{place_of(node)}{CLOCKS[kind_of(node)]} gives another value each time: compare a column "
            "with it in a WHERE, or compute it before the rows are inserted"
        )


def _sequence(spark: SparkSession, nodes: list[JavaObject]) -> JavaObject:
    return jvm(spark).org.apache.spark.api.python.PythonUtils.toSeq(nodes)

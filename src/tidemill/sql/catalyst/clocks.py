"""The step's clock in a WHERE: now() and its kin, of which the optimizer would make constants.

So it gets to see, in their place, references to something outside of the query: it moves conditions with
them to where they belong, and leaves them as they are.
"""

from collections.abc import Callable, Iterator

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from tidemill.pipeline.errors import Refused
from tidemill.sql.catalyst.expression import expressions_of, items, kind_of, place_of
from tidemill.sql.catalyst.origin import written
from tidemill.sql.catalyst.session import jvm

CLOCKS = {
    "CurrentTimestamp": "current_timestamp()",
    "Now": "now()",
    "CurrentDate": "current_date()",
    "LocalTimestamp": "localtimestamp()",
}
"""By Catalyst's class, how SQL writes it."""
MOMENTS = {
    "CurrentTimestamp": "timestamp_micros({}L)",
    "Now": "timestamp_micros({}L)",
    "CurrentDate": "CAST(timestamp_micros({}L) AS DATE)",
    "LocalTimestamp": "CAST(timestamp_micros({}L) AS TIMESTAMP_NTZ)",
}
"""By Catalyst's class, its value at a moment in microseconds since 1970."""
SUBQUERIES = {"ScalarSubquery", "Exists", "ListQuery", "LateralSubquery"}
"""What has a plan of its own."""


StandIn = Callable[[SparkSession, JavaObject], JavaObject]
"""What is put in place of a function of the clock."""


def with_references(spark: SparkSession, plan: JavaObject) -> JavaObject:
    """The plan with references for the functions of the clock in a WHERE. Raises `Refused` for others."""
    return _replaced(spark, plan, _reference)


def with_moment(spark: SparkSession, plan: JavaObject, clock_ms: int) -> JavaObject:
    """The plan as if the clock showed this. Raises `Refused` as `with_references`."""
    parser = spark._jsparkSession.sessionState().sqlParser()
    return _replaced(
        spark, plan, lambda _, node: parser.parseExpression(MOMENTS[kind_of(node)].format(clock_ms * 1000))
    )


def _replaced(spark: SparkSession, plan: JavaObject, stand_in: StandIn) -> JavaObject:
    children = items(plan.children())
    if children:
        plan = plan.withNewChildren(
            _sequence(spark, [_replaced(spark, child, stand_in) for child in children])
        )
    if kind_of(plan) != "Filter":
        for node in items(plan.expressions()):
            _refuse(_clocks(node))
        return plan
    condition = _in_condition(spark, plan.condition(), stand_in)
    return jvm(spark).org.apache.spark.sql.catalyst.plans.logical.Filter(condition, plan.child())


def _in_condition(spark: SparkSession, node: JavaObject, stand_in: StandIn) -> JavaObject:
    kind = kind_of(node)
    if kind in CLOCKS:
        return stand_in(spark, node)
    if kind in SUBQUERIES:
        _refuse(_clocks(node))  # there a reference would be one to the query around it
        return node
    children = items(node.children())
    if not children:
        return node
    return node.withNewChildren(
        _sequence(spark, [_in_condition(spark, child, stand_in) for child in children])
    )


def _reference(spark: SparkSession, clock: JavaObject) -> JavaObject:
    name, kind = CLOCKS[kind_of(clock)], clock.dataType()
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
            f"{written(node) or CLOCKS[kind_of(node)]} gives another value each time: compare a column with "
            "it in a WHERE, or compute it before the rows are inserted",
            place=place_of(node),
        )


def _sequence(spark: SparkSession, nodes: list[JavaObject]) -> JavaObject:
    return jvm(spark).org.apache.spark.api.python.PythonUtils.toSeq(nodes)

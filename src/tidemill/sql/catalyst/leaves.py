"""Plans over other leaves: in place of the tables and views of a pipeline, something that has their rows."""

from collections.abc import Callable
from typing import Any

from py4j.java_gateway import JavaObject, is_instance_of
from pyspark.sql import DataFrame

from tidemill.sql.catalyst.clocks import SUBQUERIES
from tidemill.sql.catalyst.expression import EXPRESSION, items, kind_of
from tidemill.sql.catalyst.session import Frames, jvm

Named = Callable[[str], DataFrame | None]


def with_rows(frames: Frames, plan: JavaObject, named: Named) -> JavaObject:
    """The analyzed plan of a frame over what is `named` by the tables and views in it, also in subqueries.

    None leaves a leaf alone. Each is asked for as often as it is there: a frame has numbers for its columns
    that may not come twice.
    """
    if kind_of(plan) == "LogicalRDD":
        name = frames.name_of(plan)
        rows = None if name is None else named(name)
        return plan if rows is None else _renumbered(frames, rows, plan)
    children = items(plan.children())
    if children:
        plan = plan.withNewChildren(_sequence(frames, [with_rows(frames, each, named) for each in children]))
    if plan.innerChildren().isEmpty():
        return plan
    parts = _gateway(frames).new_array(jvm(frames.spark).Object, plan.productArity())
    for at in range(plan.productArity()):
        parts[at] = _in_part(frames, plan.productElement(at), named)
    return plan.makeCopy(parts)


def _renumbered(frames: Frames, rows: DataFrame, leaf: JavaObject) -> JavaObject:
    """The rows, with the numbers by which the plan above the leaf knows its columns."""
    classes, plan = jvm(frames.spark).org.apache.spark.sql.catalyst, rows._jdf.queryExecution().analyzed()
    nothing = getattr(getattr(jvm(frames.spark).scala, "None$"), "MODULE$")
    nobody = _sequence(frames, [])
    columns = [
        classes.expressions.Alias(column, known.name(), known.exprId(), nobody, nothing, nobody)
        for known, column in zip(items(leaf.output()), items(plan.output()), strict=True)
    ]
    return classes.plans.logical.Project(_sequence(frames, columns), plan)


def _in_part(frames: Frames, part: Any, named: Named) -> Any:
    """Of what a plan is made of: an expression, an option or a sequence of them, or whatever else."""
    if _is(frames, part, EXPRESSION):
        return _in_expression(frames, part, named)
    if _is(frames, part, "scala.Some"):
        return jvm(frames.spark).scala.Some(_in_part(frames, part.get(), named))
    if _is(frames, part, "scala.collection.immutable.Seq"):
        return _sequence(frames, [_in_part(frames, each, named) for each in items(part)])
    return part


def _in_expression(frames: Frames, node: JavaObject, named: Named) -> JavaObject:
    if kind_of(node) in SUBQUERIES:
        return node.withNewPlan(with_rows(frames, node.plan(), named))
    children = items(node.children())
    if not children:
        return node
    return node.withNewChildren(_sequence(frames, [_in_expression(frames, each, named) for each in children]))


def _is(frames: Frames, part: Any, kind: str) -> bool:
    return isinstance(part, JavaObject) and is_instance_of(_gateway(frames), part, kind)


def _gateway(frames: Frames) -> Any:
    return frames.spark.sparkContext._gateway


def _sequence(frames: Frames, nodes: list[Any]) -> JavaObject:
    return jvm(frames.spark).org.apache.spark.api.python.PythonUtils.toSeq(nodes)

"""From a tree to a function of record batches."""

from collections.abc import Callable

import pyarrow as pa

from tidemill.pipeline import types
from tidemill.pipeline.errors import StepAborted
from tidemill.pipeline.expressions import proved
from tidemill.pipeline.expressions.evaluation import Node, array_of, column, constant
from tidemill.pipeline.plan.expression import Call, Column, Expression, Literal, Tree, walk


def compile(expression: Tree) -> Callable[[pa.RecordBatch], pa.Array]:  # noqa: A001
    """A function that gives the value of the expression for each row of a batch, of the expression's type.

    Raises `ValueError` for a tree that `supports` names a function of. The function raises `StepAborted`
    exactly when Spark would fail on those rows; its message begins with Spark's error condition in brackets.
    """
    node = _compile(expression)
    fast, strict = node.fast, node.strict

    def evaluate(batch: pa.RecordBatch) -> pa.Array:
        try:
            value = fast(batch)
        except StepAborted:
            value = strict(batch)
        return array_of(value, batch.num_rows)

    return evaluate


def supports(expression: Tree) -> str | None:
    """None if every function in the tree is proved for its arguments; else the first that is not."""
    unproved = (node for node in walk(expression) if isinstance(node, Call) and proved.find(node) is None)
    return next((_signature(call) for call in unproved), None)


def _signature(call: Call) -> str:
    arguments = ", ".join(types.sql_name(argument.type) for argument in call.arguments)
    options = "".join(f", {name}={value}" for name, value in sorted(call.options.items()))
    to = f" as {types.sql_name(call.type)}" if call.function == "Cast" else ""
    return f"{call.function}({arguments}{to}{options})"


def _compile(expression: Expression) -> Node:
    if isinstance(expression, Column):
        return column(expression.index, expression.type)
    if isinstance(expression, Literal):
        return constant(expression.value)
    assert isinstance(expression, Call)
    entry = proved.find(expression)
    if entry is None:
        raise ValueError(f"not proved equal to Spark: {_signature(expression)}")
    return entry.form(expression, tuple(_compile(argument) for argument in expression.arguments))

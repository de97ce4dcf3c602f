"""Conditionals: a branch is evaluated for the rows that take it, and only there may it raise."""

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.pipeline.expressions.evaluation import Kernel, Node, Value, array_of, assemble
from tidemill.pipeline.expressions.kernels import FALSE
from tidemill.pipeline.plan.expression import Call


def if_(call: Call, nodes: tuple[Node, ...]) -> Node:
    """If(condition, then, else): a condition that is NULL takes the else branch."""
    return case_when(call, nodes)


def case_when(call: Call, nodes: tuple[Node, ...]) -> Node:
    """CaseWhen(condition, value, condition, value, ..., [else]): without else, NULL."""
    kind = call.type
    pairs, last = (nodes[:-1], nodes[-1]) if len(nodes) % 2 else (nodes, None)
    branches = list(zip(pairs[::2], pairs[1::2], strict=True))
    nothing = pa.scalar(None, kind)

    def fast(batch: pa.RecordBatch) -> pa.Array:
        result = nothing if last is None else _as(last.fast(batch), kind)
        for condition, value in reversed(branches):
            taken = array_of(condition.fast(batch), batch.num_rows)
            result = pc.if_else(pc.coalesce(taken, FALSE), _as(value.fast(batch), kind), result)
        return result

    def strict(batch: pa.RecordBatch) -> pa.Array:
        pieces, left, rows = [], batch, _all(batch)
        for condition, value in branches:
            taken = pc.coalesce(array_of(condition.strict(left), left.num_rows), FALSE)
            here = left.filter(taken)
            pieces.append((_as(array_of(value.strict(here), here.num_rows), kind), rows.filter(taken)))
            left, rows = left.filter(pc.invert(taken)), rows.filter(pc.invert(taken))
        rest = nothing if last is None else last.strict(left)
        pieces.append((_as(array_of(rest, left.num_rows), kind), rows))
        return assemble(pieces, batch.num_rows)

    return Node(kind, fast, strict)


def first_that(
    holds: Callable[[pa.Array], pa.Array], combine: Kernel, call: Call, nodes: tuple[Node, ...]
) -> Node:
    """The first argument of which that holds, otherwise the last; those after it are not evaluated."""
    kind = call.type

    def fast(batch: pa.RecordBatch) -> Value:
        return combine(*[_as(node.fast(batch), kind) for node in nodes])

    def strict(batch: pa.RecordBatch) -> pa.Array:
        pieces, left, rows = [], batch, _all(batch)
        for node in nodes[:-1]:
            value = _as(array_of(node.strict(left), left.num_rows), kind)
            good = holds(value)
            pieces.append((value.filter(good), rows.filter(good)))
            left, rows = left.filter(pc.invert(good)), rows.filter(pc.invert(good))
        pieces.append((_as(array_of(nodes[-1].strict(left), left.num_rows), kind), rows))
        return assemble(pieces, batch.num_rows)

    return Node(kind, fast, strict)


def _all(batch: pa.RecordBatch) -> pa.Array:
    return pc.indices_nonzero(pa.repeat(pa.scalar(True), batch.num_rows))


def _as(value: Value, kind: pa.DataType) -> Value:
    """Branches may differ in the nullability of what they contain; the result has one type."""
    return value if value.type == kind else value.cast(kind)

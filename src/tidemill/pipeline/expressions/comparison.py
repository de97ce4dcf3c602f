"""Comparison and boolean logic.

Spark orders floats totally: NaN equals NaN and is greater than all others; -0.0 equals 0.0. Text and binary
are ordered by their bytes. AND and OR are Kleene's.
"""

from collections.abc import Callable
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.pipeline.expressions.evaluation import Kernel, Node, Value, array_of, intolerant, spread
from tidemill.pipeline.expressions.kernels import FALSE, null_where
from tidemill.pipeline.plan.expression import Call


def equal_to(call: Call) -> Kernel:
    return _equal if _floating(call) else pc.equal


def less_than(call: Call) -> Kernel:
    return _less if _floating(call) else pc.less


def greater_than(call: Call) -> Kernel:
    return _swapped(_less) if _floating(call) else pc.greater


def less_than_or_equal(call: Call) -> Kernel:
    return _negated(_swapped(_less)) if _floating(call) else pc.less_equal


def greater_than_or_equal(call: Call) -> Kernel:
    return _negated(_less) if _floating(call) else pc.greater_equal


def equal_null_safe(call: Call) -> Kernel:
    equal = equal_to(call)

    def kernel(left: Value, right: Value) -> pa.Array:
        same = pc.coalesce(equal(left, right), FALSE)
        return pc.or_(same, pc.and_(pc.is_null(left), pc.is_null(right)))

    return kernel


def _floating(call: Call) -> bool:
    return bool(pa.types.is_floating(call.arguments[0].type))


def _equal(left: Value, right: Value) -> pa.Array:
    return pc.or_(pc.equal(left, right), pc.and_(pc.is_nan(left), pc.is_nan(right)))


def _less(left: Value, right: Value) -> pa.Array:
    return pc.or_(pc.less(left, right), pc.and_not(pc.is_nan(right), pc.is_nan(left)))


def _swapped(kernel: Kernel) -> Kernel:
    return lambda left, right: kernel(right, left)


def _negated(kernel: Kernel) -> Kernel:
    return lambda left, right: pc.invert(kernel(left, right))


def greatest(call: Call) -> Kernel:
    """Greatest: NULL arguments are skipped; of equals the first."""
    return _extreme(less_than(call))


def least(call: Call) -> Kernel:
    return _extreme(greater_than(call))


def _extreme(worse: Kernel) -> Kernel:
    def better(best: Value, other: Value) -> pa.Array:
        return pc.if_else(pc.coalesce(worse(best, other), pc.is_null(best)), other, best)

    return lambda *values: reduce(better, values)


def both(_: Call, nodes: tuple[Node, ...]) -> Node:
    """And: where the left side is false, the right side is not evaluated."""
    return _logic(nodes, pc.and_kleene, decided=False)


def one_of(_: Call, nodes: tuple[Node, ...]) -> Node:
    """Or: where the left side is true, the right side is not evaluated."""
    return _logic(nodes, pc.or_kleene, decided=True)


def _logic(nodes: tuple[Node, ...], combine: Kernel, *, decided: bool) -> Node:
    left, right = nodes

    def fast(batch: pa.RecordBatch) -> Value:
        return combine(left.fast(batch), right.fast(batch))

    def strict(batch: pa.RecordBatch) -> Value:
        known = array_of(left.strict(batch), batch.num_rows)
        open_ = pc.not_equal(pc.coalesce(known, pa.scalar(not decided)), pa.scalar(decided))
        inner = batch.filter(open_)
        rest = array_of(right.strict(inner), inner.num_rows)
        return combine(known, spread(rest, pc.indices_nonzero(open_), batch.num_rows))

    return Node(pa.bool_(), fast, strict)


def member(call: Call, nodes: tuple[Node, ...]) -> Node:
    """In: the value equals one of the others; NULL if none does but one of them is NULL.

    Members are compared from left to right until one is equal; those after it are not evaluated.
    """
    value, *others = nodes
    if all(node.constant is not None for node in others):
        return member_of_set(call, nodes)
    compare = intolerant(equal_to)
    tests = [
        compare(Call(call.spark_type, "EqualTo", (call.arguments[0], other)), (value, node))
        for other, node in zip(call.arguments[1:], others, strict=True)
    ]
    return reduce(lambda found, test: one_of(call, (found, test)), tests)


def member_of_set(_: Call, nodes: tuple[Node, ...]) -> Node:
    """InSet: as In, all members constants."""
    value, *others = nodes
    members = [node.constant for node in others if node.constant is not None]
    known = [member for member in members if member.is_valid]
    absent = pa.scalar(None if len(known) < len(members) else False, pa.bool_())
    test = _tester(pa.array(known, value.type))

    def judge(values: Value, rows: int) -> pa.Array:
        values = array_of(values, rows)
        found = pc.if_else(test(values), pa.scalar(True), absent)
        return null_where(values.is_null(), found) if values.null_count else found

    return Node(
        pa.bool_(),
        lambda batch: judge(value.fast(batch), batch.num_rows),
        lambda batch: judge(value.strict(batch), batch.num_rows),
    )


def _tester(members: pa.Array) -> Callable[[pa.Array], pa.Array]:
    """Whether a value is among the members; -0.0 is 0.0, which `is_in` would tell apart."""
    if not pa.types.is_floating(members.type):
        return lambda values: pc.is_in(values, value_set=members)
    zero = pa.scalar(0.0, members.type)
    members = pc.add(members, zero)
    return lambda values: pc.is_in(pc.add(values, zero), value_set=members)

"""NULL and NaN: tests for them and replacements of them."""

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.pipeline.expressions.conditionals import first_that
from tidemill.pipeline.expressions.evaluation import Kernel, Node, Value
from tidemill.pipeline.expressions.kernels import FALSE
from tidemill.pipeline.plan.expression import Call


def itself(value: Value) -> Value:
    """Marks a fact for Spark's optimizer (KnownNotNull, KnownFloatingPointNormalized), changes no value."""
    return value


def normalize(call: Call) -> Kernel:
    """NormalizeNaNAndZero: one NaN and one zero, so that equal values have equal bytes."""
    zero = pa.scalar(0.0, call.type)
    nan = pa.scalar(float("nan"), call.type)
    return lambda value: pc.if_else(pc.is_nan(value), nan, pc.add(value, zero))


def coalesce(call: Call, nodes: tuple[Node, ...]) -> Node:
    """Coalesce: arguments after the first that is not NULL are not evaluated."""
    return first_that(pc.is_valid, pc.coalesce, call, nodes)


def not_nan(call: Call, nodes: tuple[Node, ...]) -> Node:
    """NaNvl: the second argument where the first is NaN; elsewhere it is not evaluated."""
    return first_that(_is_no_nan, _replace_nan, call, nodes)


def _is_no_nan(value: pa.Array) -> pa.Array:
    return pc.invert(is_nan(value))


def is_nan(value: Value) -> pa.Array:
    """IsNaN: of NULL it is false."""
    return pc.coalesce(pc.is_nan(value), FALSE)


def _replace_nan(value: Value, other: Value) -> pa.Array:
    return pc.if_else(is_nan(value), other, value)


def at_least_non_null(call: Call) -> Kernel:
    """AtLeastNNonNulls, option `n`: whether that many arguments are neither NULL nor NaN."""
    wanted = int(call.options["n"])
    tests = [_present_float if pa.types.is_floating(a.type) else pc.is_valid for a in call.arguments]

    def kernel(*values: Value) -> pa.Array:
        counts = [test(value).cast(pa.int32()) for test, value in zip(tests, values, strict=True)]
        found = counts[0]
        for count in counts[1:]:
            found = pc.add(found, count)
        return pc.greater_equal(found, pa.scalar(wanted, pa.int32()))

    return kernel


def _present_float(value: Value) -> pa.Array:
    return pc.coalesce(pc.invert(pc.is_nan(value)), FALSE)

"""Cast among numbers and booleans. Options: `mode`.

A number that does not fit raises in ANSI mode and is NULL in TRY. In LEGACY mode integers wrap around,
floats saturate (NaN is 0), and decimals are NULL.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.pipeline.errors import StepAborted
from tidemill.pipeline.expressions import decimals
from tidemill.pipeline.expressions.evaluation import Kernel, Value
from tidemill.pipeline.expressions.kernels import (
    abort,
    array,
    dtype,
    either,
    null_where,
    nulls,
    numbers,
    refuse_or_null,
)
from tidemill.pipeline.plan.expression import Call

WHOLE_DIGITS = 19
"""Decimal digits of the widest integer."""
DOUBLE_DIGITS = 40
"""Enough after the point for the digits of a double that a short decimal does not round to zero."""


def cast_overflow() -> StepAborted:
    return abort("CAST_OVERFLOW", "The value does not fit the type that it is cast to.")


def unchecked(call: Call) -> Kernel:
    """To a float, or to a wider integer: rounds to the nearest, never fails."""
    options = pc.CastOptions.unsafe(call.type)
    return lambda value: pc.cast(value, options=options)


def to_boolean(call: Call) -> Kernel:
    zero = pa.scalar(0, pa.int8()).cast(call.arguments[0].type)
    return lambda value: pc.not_equal(value, zero)


def integer_to_integer(call: Call) -> Kernel:
    target = dtype(call.type)
    mode = call.options["mode"]
    if np.can_cast(dtype(call.arguments[0].type), target) or mode == "LEGACY":
        return unchecked(call)
    lowest, highest = np.iinfo(target).min, np.iinfo(target).max

    def kernel(value: Value) -> pa.Array:
        missing, given = nulls(value), numbers(value)
        missing = refuse_or_null(mode, (given < lowest) | (given > highest), missing, cast_overflow)
        return array(given.astype(target), call.type, missing)

    return kernel


def float_to_integer(call: Call) -> Kernel:
    target = dtype(call.type)
    mode = call.options["mode"]
    return _saturating(call, target) if mode == "LEGACY" else _exact_range(call, target, mode)


def _exact_range(call: Call, target: type[np.signedinteger[Any]], mode: str) -> Kernel:
    bounds = np.iinfo(target)
    # The limits of a long are no doubles: 2**63 is the first that is too large, and -2**63 itself fits.
    below, above = float(bounds.min) - 1, float(bounds.max) + 1
    lowest = float(bounds.min)

    def kernel(value: Value) -> pa.Array:
        missing, given = nulls(value), numbers(value).astype(np.float64)
        fits = ((given > below) | (given == lowest)) & (given < above)
        missing = refuse_or_null(mode, ~fits, missing, cast_overflow)
        return array(np.where(fits, given, 0).astype(target), call.type, missing)

    return kernel


def _saturating(call: Call, target: type[np.signedinteger[Any]]) -> Kernel:
    # Java narrows a float to int first, and that to byte or short by dropping bits.
    through = np.int64 if target is np.int64 else np.int32
    bounds = np.iinfo(through)
    above = float(bounds.max) + (1 if through is np.int64 else 0)

    def kernel(value: Value) -> pa.Array:
        given = numbers(value).astype(np.float64)
        inside = np.where((given > bounds.min) & (given < above), given, 0).astype(through)
        whole = np.where(given >= above, bounds.max, np.where(given <= bounds.min, bounds.min, inside))
        return array(whole.astype(through).astype(target), call.type, nulls(value))

    return kernel


def plain(call: Call) -> Kernel:
    """Where Arrow's cast is Spark's."""
    return lambda value: value.cast(call.type)


def integer_to_decimal(call: Call) -> Kernel:
    exact = pa.decimal128(WHOLE_DIGITS, 0)
    return _to_decimal(call, lambda value: value.cast(exact), 0)


def boolean_to_decimal(call: Call) -> Kernel:
    exact = pa.decimal128(WHOLE_DIGITS, 0)
    return _to_decimal(call, lambda value: value.cast(pa.int8()).cast(exact), 0)


def decimal_to_decimal(call: Call) -> Kernel:
    source, target = call.arguments[0].type, call.type
    if target.scale >= source.scale and target.precision - target.scale >= source.precision - source.scale:
        return lambda value: value.cast(target)
    return _to_decimal(call, lambda value: value, source.scale)


def double_to_decimal(call: Call) -> Kernel:
    """The shortest digits that tell a double from all others, rounded half up. What is not finite is NULL."""
    kind, mode = call.type, call.options["mode"]
    # Within these bounds a double has few digits; beyond, it does not fit or is zero.
    highest, lowest = 10.0 ** (kind.precision - kind.scale + 1), 10.0 ** -(kind.scale + 2)
    exact = pa.decimal256(decimals.MOST_DIGITS, DOUBLE_DIGITS)

    def kernel(value: Value) -> pa.Array:
        given, missing = numbers(value), nulls(value)
        finite = np.isfinite(given)
        size = np.abs(np.where(finite, given, 0))
        bounded = np.where(finite & (size >= lowest), np.clip(given, -highest, highest), 0)
        missing = either(missing, ~finite)
        digits = pa.array(bounded, mask=missing).cast(pa.large_string()).cast(exact)
        return decimals.fit(decimals.relabel(digits, decimals.MOST_DIGITS, 0), DOUBLE_DIGITS, kind, mode)

    return kernel


def short_decimal(call: Call) -> bool:
    """Whether a double has all digits of the type, so that digits beyond decide nothing but ties."""
    return bool(call.type.precision <= 15)


def _to_decimal(call: Call, prepare: Callable[[Value], pa.Array], scale: int) -> Kernel:
    def kernel(value: Value) -> pa.Array:
        return decimals.fit(decimals.integers(prepare(value), 38), scale, call.type, call.options["mode"])

    return kernel


def decimal_to_integer(call: Call) -> Kernel:
    """Cut off towards zero; in LEGACY mode the low bits of what remains."""
    mode = call.options["mode"]
    through, target = pc.CastOptions.unsafe(pa.int64()), pc.CastOptions.unsafe(call.type)
    if mode == "LEGACY":
        return lambda value: pc.cast(pc.cast(value, options=through), options=target)
    kind = pa.decimal128(38, 0)
    whole = pc.CastOptions.unsafe(kind)
    bounds = np.iinfo(dtype(call.type))
    lowest, highest = (pa.scalar(int(bound), kind) for bound in (bounds.min, bounds.max))

    def kernel(value: Value) -> pa.Array:
        cut = pc.cast(value, options=whole)
        wrong = pc.or_(pc.less(cut, lowest), pc.greater(cut, highest))
        if pc.any(wrong).as_py():
            if mode == "ANSI":
                raise cast_overflow()
            cut = null_where(wrong, cut)
        return pc.cast(cut, options=target)

    return kernel


def cut_exactly(call: Call) -> bool:
    """Spark may cut off the fraction in a double, so only decimals that a double tells apart are proved."""
    kind = call.arguments[0].type
    return bool(kind.precision <= 15 or kind.scale == 0)


def decimal_to_boolean(call: Call) -> Kernel:
    zero = pa.scalar(0, call.arguments[0].type)
    return lambda value: pc.not_equal(value, zero)


def decimal_to_float(call: Call) -> Kernel:
    """By way of text: reading digits rounds to the nearest float, scaling a binary approximation may not."""
    return lambda value: value.cast(pa.large_string()).cast(call.type)

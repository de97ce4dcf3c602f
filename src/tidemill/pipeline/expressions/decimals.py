"""Arithmetic of decimals: exact, then rounded half up to the scale of Spark's result type.

A result with too many digits raises in ANSI mode and is NULL otherwise (option `mode`).

The exact value is computed in 256 bits. Arrow derives the type of a result from the types of the arguments
and refuses more than 76 digits even where the values need fewer; so arguments are *relabelled*: the same
integers under another precision and scale, at no cost. The arithmetic here is thus of plain integers, and
scales are ours to track.
"""

from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.pipeline.errors import StepAborted
from tidemill.pipeline.expressions.evaluation import Kernel, Value
from tidemill.pipeline.expressions.kernels import abort, null_where
from tidemill.pipeline.plan.expression import Call

MOST_DIGITS = 76


def out_of_range() -> StepAborted:
    return abort(
        "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION", "The result has more digits than its decimal type."
    )


def relabel(values: pa.Array, precision: int, scale: int) -> pa.Array:
    """The same integers under another precision and scale; to be undone before anyone sees the values."""
    make = pa.decimal256 if pa.types.is_decimal256(values.type) else pa.decimal128
    return pa.Array.from_buffers(
        make(precision, scale), len(values), values.buffers(), values.null_count, values.offset
    )


def integers(value: Value, precision: int) -> pa.Array:
    """The unscaled integers in 256 bits, labelled with that precision and scale 0."""
    if isinstance(value, pa.Scalar):
        value = pa.repeat(value, 1)
    wide = value.cast(pa.decimal256(value.type.precision, value.type.scale))
    return relabel(wide, precision, 0)


def power_of_ten(exponent: int) -> pa.Scalar:
    return pa.scalar(Decimal(10) ** exponent, pa.decimal256(exponent + 1, 0))


def scaled(values: pa.Array, digits: int, exponent: int) -> pa.Array:
    """Integers of so many digits, times ten to that power."""
    if not exponent:
        return values
    label = min(digits, MOST_DIGITS - exponent - 2)
    return pc.multiply(relabel(values, label, 0), power_of_ten(exponent))


def fit(values: pa.Array, scale: int, kind: pa.DataType, mode: str) -> pa.Array:
    """The 256-bit integers of that scale as the decimal type: rounded half up, judged by their digits."""
    if scale > kind.scale:
        values = _rounded(values, scale, kind.scale)
    elif scale < kind.scale:
        values = scaled(values, MOST_DIGITS, kind.scale - scale)
    return _narrowed(relabel(values, MOST_DIGITS, kind.scale), kind, mode)


def _rounded(values: pa.Array, scale: int, to: int) -> pa.Array:
    """Half up: half a unit is added away from zero, then the digits are cut off.

    `pc.round` is no choice: on decimals of 256 bits it loses a carry.
    """
    label = pa.decimal256(MOST_DIGITS - 1, 0)
    half = Decimal(5) * Decimal(10) ** (scale - to - 1)
    values = relabel(values, label.precision, 0)
    away = pc.if_else(pc.less(values, pa.scalar(0, label)), pa.scalar(-half, label), pa.scalar(half, label))
    moved = relabel(pc.add(values, away), MOST_DIGITS, scale)
    return relabel(moved.cast(pa.decimal256(MOST_DIGITS, to), safe=False), MOST_DIGITS, 0)


def _narrowed(values: pa.Array, kind: pa.DataType, mode: str) -> pa.Array:
    bound = pa.scalar(Decimal(10) ** (kind.precision - kind.scale), pa.decimal256(MOST_DIGITS, kind.scale))
    wrong = pc.greater_equal(pc.abs(values), bound)
    if pc.any(wrong).as_py():
        if mode == "ANSI":
            raise out_of_range()
        values = null_where(wrong, values)
    return values.cast(kind)


def add(call: Call) -> Kernel:
    return _aligned(call, pc.add)


def subtract(call: Call) -> Kernel:
    return _aligned(call, pc.subtract)


def _fits_always(call: Call, operation: Kernel) -> bool:
    """Whether Spark's type has room for every exact result: then Arrow's type is the same."""
    try:
        return bool(
            operation(*(pa.array([], argument.type) for argument in call.arguments)).type == call.type
        )
    except pa.ArrowInvalid:  # more digits than Arrow allows
        return False


def _aligned(call: Call, combine: Kernel) -> Kernel:
    if _fits_always(call, combine):
        return combine
    left_kind, right_kind = (argument.type for argument in call.arguments)
    scale = max(left_kind.scale, right_kind.scale)

    def aligned(value: Value, kind: pa.DataType) -> pa.Array:
        return relabel(scaled(integers(value, kind.precision), kind.precision, scale - kind.scale), 75, 0)

    def kernel(left: Value, right: Value) -> pa.Array:
        exact = combine(_one(aligned(left, left_kind), left), _one(aligned(right, right_kind), right))
        return fit(exact, scale, call.type, call.options["mode"])

    return kernel


def _one(values: pa.Array, source: Value) -> Value:
    """A scalar again, if it was one."""
    return values[0] if isinstance(source, pa.Scalar) else values


def multiply(call: Call) -> Kernel:
    plain: Kernel = pc.multiply
    if _fits_always(call, plain):
        return plain
    left_kind, right_kind = (argument.type for argument in call.arguments)
    scale = left_kind.scale + right_kind.scale

    def kernel(left: Value, right: Value) -> pa.Array:
        exact = pc.multiply(_one(integers(left, 37), left), _one(integers(right, 38), right))
        return fit(exact, scale, call.type, call.options["mode"])

    return kernel


def divisible(call: Call) -> bool:
    """Whether dividend and divisor, moved as far as the quotient's digits ask, have at most 76 digits."""
    left, right = (argument.type for argument in call.arguments)
    shift = _shift(call)
    return bool(
        left.precision + max(4, shift) <= MOST_DIGITS and right.precision + max(0, 4 - shift) <= MOST_DIGITS
    )


def _shift(call: Call) -> int:
    left, right = (argument.type for argument in call.arguments)
    return int(call.type.scale + 1 + right.scale - left.scale)


def divide(call: Call) -> Kernel:
    """Divide: one digit more than wanted, cut off, decides how to round."""
    shift = _shift(call)

    def kernel(left: Value, right: Value) -> pa.Array:
        quotient = quotients(left, right, shift)
        return fit(quotient, call.type.scale + 1, call.type, call.options["mode"])

    return kernel


def quotients(left: Value, right: Value, shift: int) -> pa.Array:
    """The unscaled integers divided, times ten to the power of `shift`, cut off towards zero.

    Arrow adds four digits to a quotient whose divisor is labelled as one digit wide.
    """
    dividend = scaled(integers(left, 38), 38, max(0, shift - 4))
    divisor = scaled(integers(right, 38), 38, max(0, 4 - shift))
    exact = pc.divide(_one(relabel(dividend, MOST_DIGITS - 4, 0), left), _one(relabel(divisor, 1, 0), right))
    return relabel(exact, MOST_DIGITS, 0)


def unscaled(value: Value) -> pa.Array:
    """UnscaledValue: the integer of a decimal of at most 18 digits."""
    return relabel(value, 38, 0).cast(pa.int64())


def make(call: Call) -> Kernel:
    """MakeDecimal of an unscaled long. Options: `mode`, LEGACY if it is to be NULL on overflow."""
    exact = pa.decimal128(19, 0)
    return lambda value: fit(
        integers(value.cast(exact), 38), call.type.scale, call.type, call.options["mode"]
    )


def compact(call: Call) -> bool:
    """Whether the unscaled integers fit a long."""
    return bool(call.arguments[0].type.precision <= 18)


def short(call: Call) -> bool:
    """Spark negates in 34 digits: a longer decimal is rounded."""
    return bool(call.arguments[0].type.precision <= 34)

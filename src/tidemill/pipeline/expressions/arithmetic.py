"""Arithmetic of integers and floats.

Options of the calls: `mode`. An integer that overflows raises in ANSI mode, wraps around in LEGACY, is NULL
in TRY. A zero divisor raises in ANSI mode, floats included, and gives NULL otherwise.
"""

from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.pipeline.errors import StepAborted
from tidemill.pipeline.expressions.evaluation import Build, Form, Kernel, Node, Value, always, intolerant
from tidemill.pipeline.expressions.kernels import (
    Numbers,
    abort,
    any_valid,
    array,
    dtype,
    null_where,
    nulls,
    numbers,
)
from tidemill.pipeline.plan.expression import Call


def overflow() -> StepAborted:
    return abort("ARITHMETIC_OVERFLOW", "The result does not fit its integer type.")


def narrow_overflow() -> StepAborted:
    return abort("BINARY_ARITHMETIC_OVERFLOW", "The result does not fit its integer type.")


def divided_by_zero() -> StepAborted:
    return abort("DIVIDE_BY_ZERO", "Division by zero.")


def remainder_by_zero() -> StepAborted:
    return abort("REMAINDER_BY_ZERO", "Remainder by zero.")


def _narrow(kind: pa.DataType) -> bool:
    return kind in (pa.int8(), pa.int16())


def add(call: Call) -> Kernel:
    return _operation(call, pc.add, pc.add_checked, _sum_overflows)


def subtract(call: Call) -> Kernel:
    return _operation(call, pc.subtract, pc.subtract_checked, _difference_overflows)


def multiply(call: Call) -> Kernel:
    return _operation(call, pc.multiply, pc.multiply_checked, _product_overflows)


def shift(shifted: Callable[[Numbers, Numbers], Numbers]) -> Build:
    """ShiftLeft and ShiftRight: the number of bits counts modulo the value's width, as in Java."""

    def build(call: Call) -> Kernel:
        kind, most = dtype(call.type), call.type.bit_width - 1

        def kernel(value: Value, bits: Value) -> pa.Array:
            found = shifted(numbers(value), (numbers(bits) & most).astype(kind))
            return array(found, call.type, nulls(value, bits))

        return kernel

    return build


def negate(call: Call) -> Kernel:
    """UnaryMinus: the smallest integer has no negative. Options: `mode`, ANSI or LEGACY."""
    return _checked(call, pc.negate, pc.negate_checked, overflow)


def absolute(call: Call) -> Kernel:
    """Abs: the smallest integer has no absolute value. Options: `mode`, ANSI or LEGACY."""
    return _checked(call, pc.abs, pc.abs_checked, overflow)


def _operation(call: Call, plain: Kernel, checked: Kernel, overflows: Callable[..., Numbers]) -> Kernel:
    if call.options["mode"] == "TRY" and pa.types.is_integer(call.type):
        return _null_on_overflow(plain, overflows)
    return _checked(call, plain, checked, narrow_overflow if _narrow(call.type) else overflow)


def _checked(call: Call, plain: Kernel, checked: Kernel, error: Callable[[], StepAborted]) -> Kernel:
    if call.options["mode"] != "ANSI" or pa.types.is_floating(call.type):
        return plain

    def kernel(*values: Value) -> pa.Array:
        try:
            return checked(*values)
        except pa.ArrowInvalid:
            raise error() from None

    return kernel


def _null_on_overflow(plain: Kernel, overflows: Callable[..., Numbers]) -> Kernel:
    def kernel(left: Value, right: Value) -> pa.Array:
        result = plain(left, right)
        wrong = overflows(numbers(left), numbers(right), numbers(result))
        return null_where(pa.array(wrong), result) if wrong.any() else result

    return kernel


def _sum_overflows(left: Numbers, right: Numbers, result: Numbers) -> Numbers:
    return ((left ^ result) & (right ^ result)) < 0


def _difference_overflows(left: Numbers, right: Numbers, result: Numbers) -> Numbers:
    return ((left ^ right) & (left ^ result)) < 0


def _product_overflows(left: Numbers, right: Numbers, result: Numbers) -> Numbers:
    """A product is right if dividing it gives the other factor back; -1 times the smallest would hide it."""
    smallest = np.iinfo(result.dtype).min
    divisor = np.where(right == 0, 1, right)
    with np.errstate(over="ignore"):
        differs = (right != 0) & (result // divisor != left)
    return differs | ((right == -1) & (left == smallest))


# Division: Spark evaluates the divisor first, and where it is NULL (or zero, outside ANSI) not the dividend.

Divide = Callable[[Numbers, Numbers], Numbers]


def division(build: Build, zero: Callable[[], StepAborted]) -> Form:
    """The form of all that divide: `build` gives the kernel for divisors that are not zero."""
    inner = intolerant(build, order=(1, 0))

    def form(call: Call, nodes: tuple[Node, ...]) -> Node:
        if call.options["mode"] == "ANSI":
            return intolerant(lambda call: _refusing_zero(build(call), zero), order=(1, 0))(call, nodes)
        dividend, divisor = nodes
        return inner(call, (dividend, _null_for_zero(call, divisor)))

    return form


def _null_for_zero(call: Call, divisor: Node) -> Node:
    zero = _zero(divisor.type)

    def kernel(value: Value) -> pa.Array:
        return null_where(pc.equal(value, zero), value)

    if divisor.constant is not None and divisor.constant.is_valid and divisor.constant != zero:
        return divisor
    marked = Call(call.arguments[1].spark_type, "NullIf", call.arguments[1:])
    return intolerant(always(kernel))(marked, (divisor,))


def _refusing_zero(divide: Kernel, error: Callable[[], StepAborted]) -> Kernel:
    def kernel(left: Value, right: Value) -> pa.Array:
        zero = _zero(right.type)
        if isinstance(right, pa.Scalar):
            wrong = right == zero and len(left) > left.null_count
        else:
            wrong = pc.any(pc.and_(pc.equal(right, zero), pc.is_valid(left))).as_py()
        if wrong:
            raise error()
        return divide(left, right)

    return kernel


def _zero(kind: pa.DataType) -> pa.Scalar:
    return pa.scalar(Decimal(0) if pa.types.is_decimal(kind) else 0, kind)


def integral_divide(call: Call) -> Kernel:
    """IntegralDivide, of longs: rounds towards zero; the smallest by -1 overflows in ANSI, else wraps."""
    smallest = np.iinfo(np.int64).min

    def kernel(left: Value, right: Value) -> pa.Array:
        missing, dividend, divisor = nulls(left, right), numbers(left), numbers(right)
        if call.options["mode"] == "ANSI" and any_valid((dividend == smallest) & (divisor == -1), missing):
            raise overflow()
        # Dividing by -1 is negating, which wraps as Java does; what is under a NULL must not be divided by.
        safe = np.where((divisor == 0) | (divisor == -1), 1, divisor)
        quotient = dividend // safe
        quotient += (dividend % safe != 0) & ((dividend < 0) != (safe < 0))
        return array(np.where(divisor == -1, -dividend, quotient), call.type, missing)

    return kernel


def remainder(call: Call) -> Kernel:
    """Remainder: has the sign of the dividend, as in Java."""
    return _modulo(call, np.fmod)


def positive_modulo(call: Call) -> Kernel:
    """Pmod: the remainder, moved once by the divisor if it is negative."""
    kind = dtype(call.type)
    # Java adds bytes and shorts as ints, so they do not wrap.
    wide = np.int32 if kind in (np.int8, np.int16) else kind

    def modulo(left: Numbers, right: Numbers) -> Numbers:
        first = np.fmod(left, right).astype(wide)
        again = np.fmod(first + right.astype(wide), right.astype(wide))
        return np.where(first < 0, again, first).astype(kind)

    return _modulo(call, modulo)


def _modulo(call: Call, modulo: Divide) -> Kernel:
    whole = pa.types.is_integer(call.type)

    def kernel(left: Value, right: Value) -> pa.Array:
        dividend, divisor = numbers(left), numbers(right)
        if whole:  # fmod of the smallest by -1 traps; by 1 the remainder is 0 as well
            divisor = np.where((divisor == 0) | (divisor == -1), 1, divisor)
        with np.errstate(invalid="ignore", over="ignore"):
            return array(modulo(dividend, divisor), call.type, nulls(left, right))

    return kernel

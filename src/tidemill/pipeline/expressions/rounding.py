"""Floor, Ceil and Round. Options: `mode`; a result that does not fit raises in ANSI mode."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.pipeline.expressions.arithmetic import overflow
from tidemill.pipeline.expressions.decimals import fit, integers
from tidemill.pipeline.expressions.evaluation import Kernel, Value
from tidemill.pipeline.expressions.kernels import Numbers, any_valid, array, nulls, numbers
from tidemill.pipeline.expressions.strings import number
from tidemill.pipeline.plan.expression import Call


def floor(call: Call) -> Kernel:
    return _to_long(call, np.floor)


def ceil(call: Call) -> Kernel:
    return _to_long(call, np.ceil)


def _to_long(call: Call, toward: Callable[[Numbers], Numbers]) -> Kernel:
    """Of doubles: NaN is 0; what does not fit raises in ANSI mode, else it is the nearest long."""

    def kernel(value: Value) -> pa.Array:
        whole, missing = toward(numbers(value)), nulls(value)
        above, below = whole >= 2.0**63, whole < -(2.0**63)
        if call.options["mode"] == "ANSI" and any_valid(above | below, missing):
            raise overflow()
        inside = np.where(above | below | np.isnan(whole), 0, whole).astype(np.int64)
        return array(np.where(above, 2**63 - 1, np.where(below, -(2**63), inside)), call.type, missing)

    return kernel


def floor_decimal(call: Call) -> Kernel:
    return lambda value: pc.floor(value.cast(pa.decimal256(76, call.arguments[0].type.scale))).cast(call.type)


def ceil_decimal(call: Call) -> Kernel:
    return lambda value: pc.ceil(value.cast(pa.decimal256(76, call.arguments[0].type.scale))).cast(call.type)


def keeps_digits(call: Call) -> bool:
    return number(call, 1) >= 0


def whole(value: Value, _: Value) -> Value:
    """Round(integer, digits): there is nothing to round."""
    return value


def round_decimal(call: Call) -> Kernel:
    """Round(decimal, digits), half up, the digits constant and not negative."""
    scale = call.arguments[0].type.scale
    return lambda value, _: fit(integers(value, 38), scale, call.type, call.options["mode"])

"""SUM and AVG of decimals: exact, then rounded half up to the scale of the result, as Spark does.

A result with too many digits raises in ANSI mode and is NULL otherwise; a sum on the way may have more.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.pipeline.expressions.decimals import MOST_DIGITS, fit, quotients
from tidemill.pipeline.operators.aggregates.counts import Rows
from tidemill.pipeline.operators.aggregates.limbs import Limbs, wide
from tidemill.pipeline.operators.aggregates.measure import Function, Integers
from tidemill.pipeline.plan.node import AggregateCall
from tidemill.pipeline.zset.value import Mask


class _OverDecimals(Function):
    def __init__(self, call: AggregateCall, arguments: Sequence[pa.Field]) -> None:
        super().__init__(call, arguments)
        self.scale = arguments[0].type.scale
        self.measures = (Rows(self.counted), Limbs(self.chosen, arguments[0].type))

    @classmethod
    def takes(cls, *kinds: pa.DataType) -> bool:
        return len(kinds) == 1 and bool(pa.types.is_decimal(kinds[0]))


class DecimalSum(_OverDecimals):
    def value(self, *found: Any) -> pa.Array:
        count, sums = found
        return fit(_exact(sums, count > 0), self.scale, self.type, self.mode)


class DecimalAverage(_OverDecimals):
    def value(self, *found: Any) -> pa.Array:
        count, sums = found
        divisor = pa.array(np.maximum(count, 1)).cast(pa.decimal128(19, 0))
        digits = self.type.scale + 1  # one more than wanted decides how to round
        quotient = quotients(_exact(sums, count > 0), divisor, digits - self.scale)
        return fit(quotient, digits, self.type, self.mode)


def _exact(sums: Integers, valid: Mask) -> pa.Array:
    """The unscaled sums in 256 bits, NULL where not valid."""
    bits = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    kind = pa.decimal256(MOST_DIGITS, 0)
    return pa.Array.from_buffers(kind, len(valid), [bits, pa.py_buffer(wide(sums))])

"""SUM and AVG of integers: exact, however large the sums on the way."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.pipeline.errors import StepAborted
from tidemill.pipeline.operators.aggregates.counts import Rows
from tidemill.pipeline.operators.aggregates.limbs import Limbs, fits_64, wide
from tidemill.pipeline.operators.aggregates.measure import Function, masked
from tidemill.pipeline.operators.aggregates.rounding import nearest
from tidemill.pipeline.plan.node import AggregateCall


class _OverIntegers(Function):
    def __init__(self, call: AggregateCall, arguments: Sequence[pa.Field]) -> None:
        super().__init__(call, arguments)
        self.measures = (Rows(self.counted), Limbs(self.chosen, arguments[0].type))

    @classmethod
    def takes(cls, *kinds: pa.DataType) -> bool:
        return len(kinds) == 1 and bool(pa.types.is_integer(kinds[0]))


class IntegerSum(_OverIntegers):
    """A sum beyond 64 bits raises in ANSI mode, is NULL in TRY mode, and wraps otherwise."""

    def value(self, *found: Any) -> pa.Array:
        count, sums = found
        words, valid = wide(sums), count > 0
        if self.mode != "LEGACY":
            fits = fits_64(words)
            if self.mode == "ANSI" and not (fits | ~valid).all():
                raise StepAborted("[ARITHMETIC_OVERFLOW] the sum of integers does not fit in 64 bits")
            valid = valid & fits
        return masked(words.view(np.int64)[:, 0], valid, self.type)


class IntegerAverage(_OverIntegers):
    """The double nearest to the exact sum, divided by the count."""

    def value(self, *found: Any) -> pa.Array:
        count, sums = found
        total = nearest(np.atleast_2d(sums.T), 0)
        return masked(total / np.maximum(count, 1), count > 0, self.type)

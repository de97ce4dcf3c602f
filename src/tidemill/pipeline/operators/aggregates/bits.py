"""BIT_AND, BIT_OR and BIT_XOR: from how many values have each bit."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.pipeline.operators.aggregates.counts import Rows
from tidemill.pipeline.operators.aggregates.measure import Counters, Function, Integers, masked
from tidemill.pipeline.plan.node import AggregateCall
from tidemill.pipeline.zset.hashing import fixed_values
from tidemill.pipeline.zset.value import Mask


@dataclass(frozen=True, slots=True)
class Bits(Counters):
    """For each bit of a column of integers, how many values have it, the lowest first."""

    width: int

    def amounts(self, rows: pa.RecordBatch) -> list[Integers | None]:
        values, mask = fixed_values(rows.column(self.chosen.columns[0])), self.chosen.mask(rows)
        if mask is not None:
            values = np.where(mask, values, 0)
        return [((values >> place) & 1).astype(np.int64) for place in range(self.width)]


class _OverBits(Function):
    def __init__(self, call: AggregateCall, arguments: Sequence[pa.Field]) -> None:
        super().__init__(call, arguments)
        self.bits = arguments[0].type.bit_width
        self.measures = (Rows(self.counted), Bits(self.chosen, self.bits))

    @classmethod
    def takes(cls, *kinds: pa.DataType) -> bool:
        return len(kinds) == 1 and bool(pa.types.is_signed_integer(kinds[0]))

    @abstractmethod
    def is_set(self, having: Integers, count: Integers) -> Mask:
        """Which bits of the result are set, given how many of `count` values have them."""

    def value(self, *found: Any) -> pa.Array:
        count, having = found
        words = np.packbits(self.is_set(having, count[:, None]), axis=1, bitorder="little")
        return masked(words.view(f"<i{self.bits // 8}")[:, 0], count > 0, self.type)


class BitAnd(_OverBits):
    def is_set(self, having: Integers, count: Integers) -> Mask:
        return np.asarray(having == count)


class BitOr(_OverBits):
    def is_set(self, having: Integers, count: Integers) -> Mask:  # noqa: ARG002
        return np.asarray(having > 0)


class BitXor(_OverBits):
    def is_set(self, having: Integers, count: Integers) -> Mask:  # noqa: ARG002
        return np.asarray(having % 2 != 0)

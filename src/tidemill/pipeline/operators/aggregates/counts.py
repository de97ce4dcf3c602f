"""COUNT, and the counts that other functions need."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.pipeline.operators.aggregates.measure import Chosen, Counters, Function, Integers
from tidemill.pipeline.plan.node import AggregateCall


@dataclass(frozen=True, slots=True)
class Rows(Counters):
    """How many rows are chosen."""

    @property
    def width(self) -> int:
        return 1

    def amounts(self, rows: pa.RecordBatch) -> list[Integers | None]:
        mask = self.chosen.mask(rows)
        return [None if mask is None else mask.astype(np.int64)]


ALL_ROWS = Rows(Chosen((), None))


class Count(Function):
    """COUNT(*) and COUNT of columns."""

    def __init__(self, call: AggregateCall, arguments: Sequence[pa.Field]) -> None:
        super().__init__(call, arguments)
        self.measures = (Rows(self.counted),)

    @classmethod
    def takes(cls, *kinds: pa.DataType) -> bool:  # noqa: ARG003
        return True

    def value(self, *found: Any) -> pa.Array:
        (count,) = found
        return pa.array(count, self.type)

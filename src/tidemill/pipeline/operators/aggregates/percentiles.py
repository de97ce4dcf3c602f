"""PERCENTILE, PERCENTILE_CONT and _DISC, MEDIAN, MODE: from how often each value of a group is there.

All are exact: Spark's own formulas over the same counts.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.pipeline.errors import StepAborted
from tidemill.pipeline.operators.aggregates.extremes import Values
from tidemill.pipeline.operators.aggregates.measure import Function, Integers, masked
from tidemill.pipeline.operators.aggregates.rounding import Floats
from tidemill.pipeline.operators.aggregates.whole import Held, Whole
from tidemill.pipeline.plan.node import AggregateCall
from tidemill.pipeline.zset import multiply_checked
from tidemill.pipeline.zset.hashing import fixed_values


class _Percentile(Function):
    """Of a column of numbers: at one share of the rows, or at each of an array of them.

    A second column says how often each row counts. The first constant is the share, a further one how often
    every row counts.
    """

    def __init__(self, call: AggregateCall, arguments: Sequence[pa.Field]) -> None:
        super().__init__(call, arguments)
        shares, *times = call.constants
        given = shares.value.as_py()
        self.several = isinstance(given, list)
        self.shares: list[float] = list(map(float, given if self.several else [given]))
        self.times = times[0].value.as_py() if times else 1
        self.reverse = call.options.get("reverse") == "true"
        self.measures = (Whole(Values(self.chosen, call.columns)),)

    @classmethod
    def takes(cls, *kinds: pa.DataType) -> bool:
        numbers = pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal
        return len(kinds) <= 2 and any(test(kinds[0]) for test in numbers)

    def value(self, *found: Any) -> pa.Array:
        held = self._counted(found[0])
        if not self.shares:
            return pa.nulls(len(held), self.type)
        numbers = _doubles(held.columns[0])
        ends = np.cumsum(held.weights)
        first = held.before()
        counts = np.diff(first)
        some = counts > 0

        def at(rank: Integers) -> Floats:
            """For each group the value that so many come before."""
            rank = counts - 1 - rank if self.reverse else rank
            place = np.searchsorted(ends, first[:-1] + np.where(some, rank, 0), side="right")
            return (
                numbers[np.minimum(place, max(len(numbers) - 1, 0))] if len(numbers) else np.zeros(len(held))
            )

        values = [self.percentile(share, counts, at) for share in self.shares]
        if not self.several:
            return masked(values[0], some, self.type)
        table = np.stack(values, axis=1)[some]
        offsets = np.append(0, np.cumsum(some)) * len(values)
        valid = None if some.all() else pa.array(~some)
        return pa.LargeListArray.from_arrays(
            pa.array(offsets), pa.array(table.ravel()), self.type, mask=valid
        )

    @abstractmethod
    def percentile(self, share: float, counts: Integers, at: Any) -> Floats:
        """For groups of so many values, given what is `at` a rank."""

    def _counted(self, held: Held) -> Held:
        """With the weights by which values count."""
        if len(held.columns) == 2:
            times = fixed_values(held.columns[1]).astype(np.int64)
        else:
            times = np.full(len(held.weights), self.times or 0)
        if (times < 0).any():
            raise StepAborted(f"[NEGATIVE_VALUES_IN_FREQUENCY_EXPRESSION] a frequency of {times.min()}")
        return Held(held.columns, multiply_checked(times, held.weights), held.starts)


class Percentile(_Percentile):
    """Between the two nearest values in proportion."""

    def percentile(self, share: float, counts: Integers, at: Any) -> Floats:
        position = np.maximum(counts - 1, 0) * share
        below, above = np.floor(position), np.ceil(position)
        low, high = at(below.astype(np.int64)), at(above.astype(np.int64))
        with np.errstate(invalid="ignore", over="ignore"):
            between = low + (position - below) * (high - low)
        return np.asarray(np.where((below == above) | (low == high), low, between))


class PercentileDisc(_Percentile):
    """The first value that has at least that share of the rows up to it."""

    def percentile(self, share: float, counts: Integers, at: Any) -> Floats:
        rank = np.ceil(counts * share).astype(np.int64) - 1
        found: Floats = at(np.maximum(rank, 0))
        return found


class Mode(Function):
    """The value that is there most often; of several such the least, or the greatest where so asked."""

    def __init__(self, call: AggregateCall, arguments: Sequence[pa.Field]) -> None:
        super().__init__(call, arguments)
        # Catalyst reverses the order in which the greatest is taken.
        self.greatest = call.options.get("reverseOpt") == "false"
        self.measures = (Whole(Values(self.chosen, call.columns)),)

    def value(self, *found: Any) -> pa.Array:
        held: Held = found[0]
        some = held.some
        most = np.zeros(len(held), np.int64)
        most[some] = np.maximum.reduceat(held.weights, held.starts[:-1][some]) if some.any() else 0
        number = held.number()
        best = np.flatnonzero(held.weights == most[number])
        place = np.full(len(held), -1, np.int64)
        best = best if self.greatest else best[::-1]  # the last of a group stays
        place[number[best]] = best
        return held.columns[0].take(pa.array(place, mask=place < 0))


def _doubles(array: pa.Array) -> Floats:
    if pa.types.is_decimal(array.type):  # by way of text: reading digits rounds to the nearest
        array = array.cast(pa.large_string()).cast(pa.float64())
    return fixed_values(array).astype(np.float64)

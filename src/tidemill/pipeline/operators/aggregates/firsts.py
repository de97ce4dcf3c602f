"""FIRST, LAST and ANY_VALUE, and the function that Catalyst makes of PIVOT.

Rows of a group have no order but that of their values: the first is the least, the last the greatest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from tidemill.pipeline.operators.aggregates.extremes import Outermost, Values
from tidemill.pipeline.operators.aggregates.measure import Chosen, Function, Integers
from tidemill.pipeline.operators.aggregates.whole import Held, Whole
from tidemill.pipeline.plan.node import AggregateCall
from tidemill.pipeline.zset import Groups
from tidemill.pipeline.zset.equality import equal_arrays, valid_mask
from tidemill.pipeline.zset.hashing import fixed_values, hash_array
from tidemill.pipeline.zset.value import Weights


class First(Function):
    """What the first row has in one of its columns, the one that the option `place` says.

    The columns are those that all such functions of an aggregation ask for, so that all see the same row.
    """

    last: ClassVar[bool] = False

    def __init__(self, call: AggregateCall, arguments: Sequence[pa.Field]) -> None:
        super().__init__(call, arguments)
        skips = call.options.get("ignoreNulls") == "true"
        chosen = Chosen(call.columns if skips else (), call.filter)
        place = int(call.options.get("place", "0"))
        self.measures = (Outermost(Values(chosen, call.columns), self.last, place),)

    @classmethod
    def takes(cls, *kinds: pa.DataType) -> bool:
        return len(kinds) > 0

    def value(self, *found: Any) -> pa.Array:
        return found[0]


class Last(First):
    last = True


@dataclass(frozen=True, slots=True)
class Placed(Values):
    """The values of the second column, each with its place: where the value of the first is among some.

    `names` are those: an array of them, as bytes.
    """

    names: bytes

    def fields(self, schema: pa.Schema) -> list[pa.Field]:
        return [pa.field("place", pa.int64()), pa.field("value", schema.field(self.columns[1]).type)]

    def combine(
        self, rows: pa.RecordBatch, weights: Weights, groups: Groups
    ) -> tuple[Integers, list[pa.Array], Weights]:
        name, value = map(rows.column, self.columns)
        place = places(name, names_of(self.names))
        placed = pa.RecordBatch.from_arrays([pa.array(place, mask=place < 0), value], ["place", "value"])
        return Values(Chosen((0, 1), None), (0, 1)).combine(placed, weights, groups)


class PivotFirst(Function):
    """An array with a place for each of some values: what the second column has where the first is that."""

    def __init__(self, call: AggregateCall, arguments: Sequence[pa.Field]) -> None:
        super().__init__(call, arguments)
        (names,) = call.constants
        self.count = len(names.value)
        self.measures = (Whole(Placed(Chosen((), None), call.columns, names.ipc)),)

    @classmethod
    def takes(cls, *kinds: pa.DataType) -> bool:
        return len(kinds) == 2

    def value(self, *found: Any) -> pa.Array:
        held: Held = found[0]
        place, values = held.columns
        at = np.full(len(held) * self.count, -1, np.int64)
        at[held.number() * self.count + place.to_numpy()] = np.arange(len(place))
        offsets = pa.array(np.arange(len(held) + 1) * self.count)
        return pa.LargeListArray.from_arrays(offsets, values.take(pa.array(at, mask=at < 0)), self.type)


def names_of(ipc: bytes) -> pa.Array:
    """The elements of a constant array."""
    with pa.ipc.open_stream(ipc) as reader:
        return reader.read_next_batch().column(0).flatten()


def places(values: pa.Array, names: pa.Array) -> Integers:
    """For each value where it is among the names, NULL among them too; -1 if it is not there.

    A NaN is nowhere: here Spark compares plain floats as Java does.
    """
    hashes, known = hash_array(values), hash_array(names)
    order = np.argsort(known, kind="stable")
    place = order[np.minimum(np.searchsorted(known[order], hashes), len(names) - 1)]
    found = equal_arrays(values, names.take(pa.array(place)))
    if pa.types.is_floating(values.type):
        found &= ~np.isnan(fixed_values(values)) | ~valid_mask(values)
    return np.where(found, place, -1)

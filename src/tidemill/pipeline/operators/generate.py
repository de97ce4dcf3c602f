"""Functions that make rows: linear, since what they make of a row depends on that row alone."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tidemill.pipeline.expressions.nested import offsets
from tidemill.pipeline.operators.operator import Access, Flow, Operator
from tidemill.pipeline.operators.rows import settled, shaped
from tidemill.pipeline.plan.node import Generate, Replicate
from tidemill.pipeline.zset import ZSet, multiply_checked, pick
from tidemill.pipeline.zset.value import Indices, take_rows


class GenerateOperator(Operator):
    """Repeats each row for the elements of its collection, with its weight."""

    node: Generate
    cost = "O(change + elements)"

    def step(self, inputs: Sequence[Flow], access: Access) -> Flow:  # noqa: ARG002
        ((change,),) = inputs
        if not len(change):
            return (ZSet.empty(self.node.schema),)
        collection = change.rows.column(change.rows.num_columns - 1)
        row, place, missing = self._places(collection)
        columns: list[pa.Array] = []
        if self.node.function == "PosExplode":
            columns.append(pa.array(place.astype(np.int32), mask=missing))
        first = offsets(collection)[:-1].astype(np.int64)
        element = pa.array(first[row] + place, mask=missing)
        for part in _parts(collection):
            found = part.take(element)
            columns += found.flatten() if self.node.function == "Inline" else [found]
        carried = take_rows(pick(change.rows, range(change.rows.num_columns - 1)), row)
        rows = shaped([*carried.columns, *columns], self.node.schema, len(row))
        return (ZSet(rows, change.weights[row]),)

    def _places(self, collection: pa.Array) -> tuple[Indices, Indices, Indices | None]:
        """For each row to come: of which row, of which element in it; and where there is no element."""
        lengths = np.diff(offsets(collection)).astype(np.int64)
        if collection.null_count:
            lengths[np.asarray(collection.is_null())] = 0
        counts = np.maximum(lengths, 1) if self.node.outer else lengths
        row = np.repeat(np.arange(len(counts)), counts)
        place = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        missing = lengths[row] == 0
        return row, place, missing if missing.any() else None


def _parts(collection: pa.Array) -> list[pa.Array]:
    """The elements of all rows: those of an array, or the keys and values of a map."""
    if pa.types.is_map(collection.type):
        return [collection.keys, collection.items]
    return [collection.values]


class ReplicateOperator(Operator):
    """Multiplies the weight of each row by a number in it."""

    node: Replicate
    cost = "O(change)"

    def step(self, inputs: Sequence[Flow], access: Access) -> Flow:  # noqa: ARG002
        ((change,),) = inputs
        last = change.rows.num_columns - 1
        counts = change.rows.column(last).fill_null(0).to_numpy()
        kept = change.filter(counts > 0)
        rows = shaped(kept.rows.columns[:last], self.node.schema, len(kept))
        return (settled(ZSet(rows, multiply_checked(kept.weights, counts[counts > 0]))),)

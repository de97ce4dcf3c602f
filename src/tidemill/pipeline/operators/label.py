"""Labels: columns that lead rows to shards, so that a small relation can be met on all of them."""

from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.pipeline.operators.operator import Access, Flow, Operator
from tidemill.pipeline.operators.rows import shaped
from tidemill.pipeline.plan.node import Label
from tidemill.pipeline.zset import SHARDS, hash_rows, shard_of

_TRIED = 1 << 12
"""The label of each shard is below this."""


class LabelOperator(Operator):
    """Adds the label of the shard that a row's key belongs to, or repeats the row with every label.

    Keeps nothing. A label is a number whose hash belongs to the shard: rows that are spread by the key lie
    where their label would send them.
    """

    node: Label
    cost = "O(change)"

    def step(self, inputs: Sequence[Flow], access: Access) -> Flow:  # noqa: ARG002
        ((change,),) = inputs
        if self.node.key is None:
            change = change.take(np.repeat(np.arange(len(change)), SHARDS))
            found = np.tile(labels(), len(change) // SHARDS)
        else:
            found = labels()[shard_of(hash_rows(change.rows, self.node.key))]
        columns = [*change.rows.columns, pa.array(found)]
        return (change.with_rows(shaped(columns, self.node.schema, len(change))),)


@cache
def labels() -> npt.NDArray[np.int32]:
    """For each shard the least number that belongs to it."""
    numbers = np.arange(_TRIED, dtype=np.int32)
    shards = shard_of(hash_rows(pa.record_batch([pa.array(numbers)], names=["label"])))
    found, first = np.unique(shards, return_index=True)
    assert len(found) == SHARDS
    return np.asarray(numbers[first])

"""MIN and MAX over frames that slide."""

import numpy as np
import pyarrow as pa

from tidemill.pipeline.operators.aggregates.measure import Chosen
from tidemill.pipeline.operators.windows.frames import Frames
from tidemill.pipeline.operators.windows.partitions import Partitions
from tidemill.pipeline.plan.node import AggregateCall
from tidemill.pipeline.state.order import Direction, dense_ranks, order_codes
from tidemill.pipeline.zset.value import Indices


def least(rows: Partitions, frames: Frames, call: AggregateCall) -> pa.Array:
    return _extreme(rows, frames, call, Direction())


def greatest(rows: Partitions, frames: Frames, call: AggregateCall) -> pa.Array:
    return _extreme(rows, frames, call, Direction(descending=True))


def _extreme(rows: Partitions, frames: Frames, call: AggregateCall, way: Direction) -> pa.Array:
    """The value that comes first in this direction."""
    count, column = len(rows), rows.rows.column(call.columns[0])
    ranks = dense_ranks(order_codes(rows.rows, call.columns[:1], (way,)), count)
    holder = np.zeros(count + 1, np.int64)  # of each rank some row
    holder[ranks] = np.arange(count)
    mask = Chosen(call.columns[:1], call.filter).mask(rows.rows)
    found = least_between(ranks if mask is None else np.where(mask, ranks, count), frames, count)
    return column.take(pa.array(holder[found], mask=found == count))


def least_between(numbers: Indices, frames: Frames, nothing: int) -> Indices:
    """The least number of each frame; `nothing`, which is above all, for an empty one.

    Two stretches of a power of two cover a frame. The least of all such stretches is found from that of those
    half as long, one length after the other: it costs rows * log(longest frame).
    """
    found = np.full(len(numbers), nothing, np.int64)
    size = frames.size
    width, table = 1, numbers
    while len(numbers) and width <= size.max():
        mine = np.flatnonzero((size >= width) & (size < 2 * width))
        found[mine] = np.minimum(table[frames.start[mine]], table[frames.stop[mine] - width])
        table = np.minimum(table[:-width], table[width:]) if width < len(table) else table
        width *= 2
    return found

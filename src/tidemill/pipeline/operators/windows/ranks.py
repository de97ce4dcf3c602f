"""Functions of the place of a row in its partition."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from tidemill.pipeline.operators.windows.partitions import Partitions
from tidemill.pipeline.plan.node import AggregateCall

Rank = Callable[[Partitions, AggregateCall], pa.Array]


def row_number(rows: Partitions, call: AggregateCall) -> pa.Array:
    return pa.array(np.arange(len(rows)) - rows.start + 1).cast(call.type)


def rank(rows: Partitions, call: AggregateCall) -> pa.Array:
    return pa.array(rows.peer_start - rows.start + 1).cast(call.type)


def dense_rank(rows: Partitions, call: AggregateCall) -> pa.Array:
    return pa.array(rows.peers - rows.peers[rows.start] + 1).cast(call.type)


def percent_rank(rows: Partitions, call: AggregateCall) -> pa.Array:  # noqa: ARG001
    others = rows.stop - rows.start - 1
    return pa.array((rows.peer_start - rows.start) / np.maximum(others, 1))


def cume_dist(rows: Partitions, call: AggregateCall) -> pa.Array:  # noqa: ARG001
    return pa.array((rows.peer_stop - rows.start) / (rows.stop - rows.start))


def ntile(rows: Partitions, call: AggregateCall) -> pa.Array:
    """The first buckets have one row more where the rows cannot be shared out evenly."""
    buckets = int(call.options["buckets"])
    place = np.arange(len(rows)) - rows.start
    size, larger = np.divmod(rows.stop - rows.start, buckets)
    rows_in_larger = larger * (size + 1)
    rest = larger + (place - rows_in_larger) // np.maximum(size, 1)
    return pa.array(np.where(place < rows_in_larger, place // (size + 1), rest) + 1).cast(call.type)


RANKS: dict[str, Rank] = {
    "RowNumber": row_number,
    "Rank": rank,
    "DenseRank": dense_rank,
    "PercentRank": percent_rank,
    "CumeDist": cume_dist,
    "NTile": ntile,
}
"""By Catalyst's name."""

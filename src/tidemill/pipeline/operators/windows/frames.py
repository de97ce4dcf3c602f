"""Frames: from which row to which a function sees its partition."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidemill.pipeline.operators.windows.partitions import Ordering, Partitions
from tidemill.pipeline.plan.node import Bound
from tidemill.pipeline.state.order import dense_ranks, order_codes
from tidemill.pipeline.zset.value import Indices


@dataclass(frozen=True, slots=True, eq=False)
class Frames:
    """For each row the first row of its frame and the one past its last; both within its partition."""

    start: Indices
    stop: Indices

    @property
    def size(self) -> Indices:
        return self.stop - self.start


def frames(rows: Partitions, low: Bound, high: Bound, ordering: Ordering) -> Frames:
    start = _edge(rows, low, ordering, upper=False)
    stop = _edge(rows, high, ordering, upper=True)
    start = np.clip(start, rows.start, rows.stop)
    stop = np.clip(stop, start, np.maximum(start, rows.stop))
    # Nothing of a row that is not wanted: a part of its frame may have a sum that does not fit.
    return Frames(start, stop if rows.wanted is None else np.where(rows.wanted, stop, start))


def _edge(rows: Partitions, bound: Bound, ordering: Ordering, *, upper: bool) -> Indices:
    if bound.kind == "rows":
        return np.arange(len(rows)) + bound.at + upper
    if bound.kind == "peers":
        return rows.peer_stop if upper else rows.peer_start
    if bound.kind == "value":
        return _beside(rows, bound.at, ordering, upper=upper)
    return rows.stop if upper else rows.start


def _beside(rows: Partitions, bound: int, ordering: Ordering, *, upper: bool) -> Indices:
    """The place right before the rows whose order is that of the bound, or after them.

    A bound of NULL or NaN is where such rows are.
    """
    (column,) = ordering.columns
    bounds, values = rows.rows.column(bound), rows.rows.column(column)
    # Decimals that were added to have more digits.
    both = pa.chunked_array([values.cast(bounds.type), bounds]).combine_chunks()
    codes = order_codes(pa.record_batch([both], ["value"]), (0,), ordering.directions)
    ranks = dense_ranks(codes, 2 * len(rows))
    base = rows.number * (2 * len(rows))
    places, wanted = base + ranks[: len(rows)], base + ranks[len(rows) :]
    return np.searchsorted(places, wanted, "right") if upper else np.searchsorted(places, wanted, "left")

"""Rows grouped by their values: sorted by hash, then told apart by the values themselves."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.pipeline.zset import hashing
from tidemill.pipeline.zset.equality import equal_rows
from tidemill.pipeline.zset.hashing import Hashes
from tidemill.pipeline.zset.value import Indices, Weights, ZSet, pick, take_rows
from tidemill.pipeline.zset.weights import sum_groups


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """`order` lists the rows group by group, in the order of their hashes; each group keeps the rows' order.

    `starts` says where in `order` each group begins, `hashes` is the hash of each group.
    """

    order: Indices
    starts: Indices
    hashes: Hashes

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def first(self) -> Indices:
        """The first row of each group."""
        return self.order[self.starts]

    @property
    def last(self) -> Indices:
        """The last row of each group."""
        return np.asarray(self.order[np.append(self.starts[1:], len(self.order)) - 1])

    @property
    def sizes(self) -> Indices:
        """How many rows each group has."""
        return np.diff(self.starts, append=len(self.order))

    def sum(self, weights: Weights) -> Weights:
        """For each group the sum of its rows' weights."""
        return sum_groups(weights[self.order], self.starts)

    def number(self) -> Indices:
        """For each row the number of its group."""
        numbers = np.empty(len(self.order), np.int64)
        numbers[self.order] = np.repeat(np.arange(len(self)), self.sizes)
        return numbers


def group_rows(
    rows: pa.RecordBatch, columns: Sequence[int] | None = None, hashes: Hashes | None = None
) -> Groups:
    """Group rows by their values in these columns (by default, all). `hashes` are theirs, when known."""
    chosen = range(rows.num_columns) if columns is None else columns
    hashes = hashing.hash_rows(rows, chosen) if hashes is None else hashes
    order = hashing.ascending(hashes)
    in_order = hashes[order]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = in_order[1:] != in_order[:-1]
    same_hash = np.flatnonzero(~begins)
    keys = pick(rows, list(chosen))
    if not _equal_at(keys, order[same_hash], order[same_hash - 1]).all():
        order, begins = _split_collisions(keys, order, begins)
        in_order = hashes[order]
    starts = np.flatnonzero(begins)
    return Groups(order, starts, in_order[starts])


def consolidate(z: ZSet) -> ZSet:
    """Equal rows added up, rows of weight zero dropped. The order of rows is not kept."""
    groups = group_rows(z.rows)
    if len(groups) == len(z):
        nonzero = _nonzero(z.weights)
        return z.filter(nonzero)
    weights = groups.sum(z.weights)
    nonzero = _nonzero(weights)
    return ZSet(take_rows(z.rows, groups.first[nonzero]), weights[nonzero])


def _nonzero(weights: Weights) -> npt.NDArray[np.bool_]:
    return np.asarray(weights != 0 if weights.ndim == 1 else weights.any(axis=1))


def _equal_at(keys: pa.RecordBatch, left: Indices, right: Indices) -> npt.NDArray[np.bool_]:
    if not len(left):
        return np.ones(0, np.bool_)
    return equal_rows(take_rows(keys, left), take_rows(keys, right))


def _split_collisions(
    keys: pa.RecordBatch, order: Indices, begins: npt.NDArray[np.bool_]
) -> tuple[Indices, npt.NDArray[np.bool_]]:
    """Regroup where different values share a hash: each round takes the equals of each hash's first."""
    bucket = np.cumsum(begins) - 1
    turn = np.zeros(len(order), np.int64)
    left = np.arange(len(order))
    while len(left):
        turn[left] += 1
        leads = np.flatnonzero(np.append(True, bucket[left][1:] != bucket[left][:-1]))
        sizes = np.diff(np.append(leads, len(left)))
        equal = _equal_at(keys, order[left], order[np.repeat(left[leads], sizes)])
        left = left[~equal]
    by_turn = np.lexsort((turn, bucket))
    bucket, turn = bucket[by_turn], turn[by_turn]
    begins = np.append(True, (bucket[1:] != bucket[:-1]) | (turn[1:] != turn[:-1]))
    return order[by_turn], begins

"""Rows of many partitions, one after the other, each in its order; a row that is there twice comes twice."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidemill.pipeline.operators.aggregates.measure import stretches
from tidemill.pipeline.state.order import Direction, dense_ranks, order_codes
from tidemill.pipeline.zset import ZSet, group_rows, sum_groups
from tidemill.pipeline.zset.value import Indices, Mask, take_rows


@dataclass(frozen=True, slots=True)
class Ordering:
    """The columns that order the rows of a partition, and which way."""

    columns: tuple[int, ...]
    directions: tuple[Direction, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Partitions:
    """For each row whose it is, the number of its partition, where that starts and stops; as of its peers."""

    rows: pa.RecordBatch
    owner: Indices
    number: Indices
    start: Indices
    stop: Indices
    peers: Indices
    peer_start: Indices
    peer_stop: Indices
    wanted: Mask | None = None
    """For which rows values are asked, if not for all; those of others mean nothing."""

    def __len__(self) -> int:
        return len(self.number)


def sort_rows(found: ZSet, owner: Indices, ordering: Ordering) -> Partitions:
    """The rows, of which each belongs to the partition of its owner, in order.

    What is found may lie in parts that are to be added up; what then is not there a positive number of times
    is left out. Peers go by their hash.
    """
    groups = group_rows(found.rows)
    row = groups.number()
    order = np.lexsort((row, owner))  # the same row may belong to several owners
    starts = np.flatnonzero(_changes(owner[order]) | _changes(row[order]))
    copies = sum_groups(found.weights[order], starts)
    first, copies = order[starts[copies > 0]], copies[copies > 0]
    rows = take_rows(found.rows, first)
    codes = order_codes(rows, ordering.columns, ordering.directions)
    order = np.lexsort([groups.hashes[row[first]], *codes[::-1], owner[first]])
    copy = np.repeat(order, copies[order])
    peer = dense_ranks([owner[first], *codes], len(first))[copy]
    number = dense_ranks([owner[first]], len(first))[copy]
    return Partitions(take_rows(rows, copy), owner[first][copy], number, *_ends(number), peer, *_ends(peer))


def _changes(numbers: Indices) -> Mask:
    changes = np.ones(len(numbers), np.bool_)
    changes[1:] = numbers[1:] != numbers[:-1]
    return changes


def _ends(number: Indices) -> tuple[Indices, Indices]:
    """For each row where the stretch of equal numbers starts and stops that it is in."""
    starts = stretches(number)
    stops = np.append(starts[1:], len(number))[: len(starts)]
    sizes = stops - starts
    return np.repeat(starts, sizes), np.repeat(stops, sizes)

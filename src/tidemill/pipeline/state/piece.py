"""A piece: rows of a state in the order of their key hash, in memory or in mapped memory.

Sorted by (hash of the key, order columns, hash of the row) and consolidated: no row appears twice, none has
weight zero.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidemill.pipeline.state.order import Codes, order_codes
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.zset import ZSet, concat, equal_rows, group_rows, hashing, sum_groups
from tidemill.pipeline.zset.hashing import Hashes
from tidemill.pipeline.zset.value import Indices, take_rows


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Rows with the hash of their key and of the whole row; where the key is the row, these are the same."""

    hashes: Hashes
    row_hashes: Hashes
    z: ZSet

    def __len__(self) -> int:
        return len(self.hashes)

    @property
    def bytes(self) -> int:
        columns = 1 if self.row_hashes is self.hashes else 2
        return int(self.z.rows.nbytes) + self.z.weights.nbytes + 8 * columns * len(self)

    def take(self, indices: Indices) -> "Piece":
        hashes = self.hashes[indices]
        same = self.row_hashes is self.hashes
        return Piece(hashes, hashes if same else self.row_hashes[indices], self.z.take(indices))

    def slice(self, start: int, stop: int) -> "Piece":
        if start == 0 and stop == len(self):
            return self
        hashes = self.hashes[start:stop]
        same = self.row_hashes is self.hashes
        return Piece(
            hashes, hashes if same else self.row_hashes[start:stop], self.z.slice(start, stop - start)
        )


def hash_change(change: ZSet, spec: StateSpec) -> Piece:
    """The rows with their hashes, in any order: what `arrange` makes a piece of."""
    hashes = hashing.hash_rows(change.rows, spec.key)
    return Piece(hashes, hashes if spec.key_is_row else hashing.hash_rows(change.rows), change)


def join(pieces: Sequence[Piece], spec: StateSpec) -> Piece:
    """All rows one after the other, in any order."""
    if len(pieces) == 1:
        return pieces[0]
    hashes = np.concatenate([piece.hashes for piece in pieces])
    row_hashes = hashes if spec.key_is_row else np.concatenate([piece.row_hashes for piece in pieces])
    return Piece(hashes, row_hashes, concat([piece.z for piece in pieces], spec.schema, spec.width))


def arrange(piece: Piece, spec: StateSpec) -> Piece:
    """The rows sorted and consolidated. Raises `StepAborted` when a weight does not fit."""
    if not len(piece):
        return piece
    order = _sorting(piece, spec)
    hashes, row_hashes = piece.hashes[order], piece.row_hashes[order]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (hashes[1:] != hashes[:-1]) | (row_hashes[1:] != row_hashes[:-1])
    again = np.flatnonzero(~begins)
    weights = piece.z.weights[order]
    if len(again):
        rows = piece.z.rows
        if not equal_rows(take_rows(rows, order[again]), take_rows(rows, order[again - 1])).all():
            return _arrange_colliding(piece, spec)
        starts = np.flatnonzero(begins)
        order, weights = order[starts], sum_groups(weights, starts)
    nonzero = weights != 0 if weights.ndim == 1 else weights.any(axis=1)
    if not nonzero.all():
        order, weights = order[nonzero], weights[nonzero]
    hashes = piece.hashes[order]
    row_hashes = hashes if piece.row_hashes is piece.hashes else piece.row_hashes[order]
    return Piece(hashes, row_hashes, ZSet(take_rows(piece.z.rows, order), weights))


def _arrange_colliding(piece: Piece, spec: StateSpec) -> Piece:
    """Different rows have equal hashes: add up by value, then sort."""
    groups = group_rows(piece.z.rows, None, piece.row_hashes)
    weights = groups.sum(piece.z.weights)
    kept = np.flatnonzero(weights if weights.ndim == 1 else weights.any(axis=1))
    summed = _with_weights(piece.take(groups.first[kept]), weights[kept])
    return summed.take(_sorting(summed, spec))


def _with_weights(piece: Piece, weights: npt.NDArray[np.int64]) -> Piece:
    return Piece(piece.hashes, piece.row_hashes, ZSet(piece.z.rows, weights))


def _sorting(piece: Piece, spec: StateSpec) -> Indices:
    """The indices that sort the rows."""
    # Stable is a merge sort: quick on runs laid end to end, which is what it mostly gets.
    order = np.argsort(piece.hashes, kind="stable")
    if piece.row_hashes is piece.hashes and not spec.order:
        return order
    hashes = piece.hashes[order]
    tied = np.zeros(len(order), np.bool_)
    tied[1:] = hashes[1:] == hashes[:-1]
    group: Indices = np.cumsum(~tied, dtype=np.int64)
    tied[:-1] |= tied[1:]
    places = np.flatnonzero(tied)
    if len(places):
        ties = order[places]
        rows = take_rows(piece.z.rows, ties) if spec.order else piece.z.rows
        codes = order_codes(rows, spec.order, spec.directions)
        order[places] = ties[_sort_ties(group[places], codes, piece.row_hashes[ties])]
    return order


def _sort_ties(group: Indices, codes: Codes, row_hashes: Hashes) -> Indices:
    """The indices that sort by (group, codes, row hash); the groups ascend already."""
    if not codes:
        # One number of both sorts in a third of the time. Its half of the hash nearly always tells.
        upper = row_hashes >> np.uint64(32)
        order = np.argsort(group.astype(np.uint64) << np.uint64(32) | upper, kind="stable")
        again, sorted_hashes = group[order], row_hashes[order]
        if not ((again[1:] == again[:-1]) & (sorted_hashes[1:] < sorted_hashes[:-1])).any():
            return order
    return np.lexsort([row_hashes, *codes[::-1], group])

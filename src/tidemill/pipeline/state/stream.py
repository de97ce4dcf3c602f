"""Several runs read as one: their sum, in ascending hash, a bounded stretch at a time."""

from collections.abc import Iterator, Sequence

import numpy as np

from tidemill.pipeline.state.piece import Piece, arrange, join
from tidemill.pipeline.state.run import PIECE_BYTES, PIECE_ROWS, Run
from tidemill.pipeline.state.spec import HASHES, StateSpec


def stream(
    runs: Sequence[Run], spec: StateSpec, lo: int = 0, hi: int = HASHES, *, check: bool = False
) -> Iterator[Piece]:
    """The sum of the runs over lo <= hash < hi, in pieces that are held one at a time.

    A piece has about `PIECE_ROWS` rows before equal ones are added up; more only in a state with an order,
    where all rows of one key are one piece. With `check`, mapped runs are compared with their digests as they
    are read: raises `BlobDamaged`.
    """
    for at, parts in _stretches(runs, lo, hi):
        if check:
            for part in parts:
                part.check()
        if len(parts) == 1:  # sorted and added up already
            yield from parts[0].pieces
        elif at is None or spec.order or spec.key_is_row:
            yield from _added_up(parts, spec)
        else:
            yield from _of_one_hash(parts, spec, at)


def _stretches(runs: Sequence[Run], lo: int, hi: int) -> Iterator[tuple[int | None, list[Run]]]:
    """Cut the runs into stretches of bounded size; one that is larger is of a single hash, which is said."""
    runs = [part for run in runs if (part := run.between(lo, hi)).pieces]
    limit = _row_limit(runs)
    while len(runs) > 1:
        cut = _cut(runs, lo, hi, limit)
        parts = [part for run in runs if (part := run.between(lo, cut)).pieces]
        if parts:
            large = sum(part.rows for part in parts) > limit
            yield lo if large else None, parts
        runs = [part for run in runs if (part := run.between(cut, hi)).pieces]
        lo = cut
    if runs:
        yield None, runs


def _added_up(parts: Sequence[Run], spec: StateSpec) -> Iterator[Piece]:
    piece = arrange(join([piece for part in parts for piece in part.pieces], spec), spec)
    if len(piece):
        yield piece


def _of_one_hash(parts: Sequence[Run], spec: StateSpec, key_hash: int) -> Iterator[Piece]:
    """As `_added_up` for too many rows of one key hash: by stretches of their row hash, by which they lie."""
    by_row = [Run([Piece(p.row_hashes, p.row_hashes, p.z) for p in part.pieces]) for part in parts]
    for _, stretch in _stretches(by_row, 0, HASHES):
        for piece in stretch[0].pieces if len(stretch) == 1 else _added_up(stretch, spec):
            yield Piece(np.full(len(piece), key_hash, np.uint64), piece.row_hashes, piece.z)


def _row_limit(runs: Sequence[Run]) -> int:
    rows, size = sum(run.rows for run in runs), sum(run.bytes for run in runs)
    return max(1, min(PIECE_ROWS, PIECE_BYTES * rows // max(1, size)))


def _cut(runs: Sequence[Run], lo: int, hi: int, limit: int) -> int:
    """A hash below which there are nearly `limit` rows, or the end; past `lo` in any case.

    All rows are at `lo` or above.
    """
    if sum(run.rows for run in runs) <= limit:
        return hi
    few, many = lo, hi  # at most the limit below the one, more below the other
    while many - few > 1:
        middle = (few + many) // 2
        rows = sum(run.rank(middle) for run in runs)
        if rows > limit:
            many = middle
        else:
            few = middle
            if rows > limit - limit // 4:
                break
    return few if few > lo else many

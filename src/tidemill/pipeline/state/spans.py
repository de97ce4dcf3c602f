"""Where the rows of each probe lie in the pieces of a spine, cut to those between two places of the order.

The rows of one hash lie sorted in each run. So a place is found by binary search, and what is left out is
never read.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from tidemill.pipeline.state.order import ASCENDING, comes_before, numbers
from tidemill.pipeline.state.piece import Piece, join
from tidemill.pipeline.state.run import Run, expand
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.zset.hashing import Hashes
from tidemill.pipeline.zset.value import Indices, Mask, pick, take_rows


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """For each probe a place between the rows of its key: right before those with these values, or `after`.

    `values` are of the leading columns of the state's order, as many as it has columns; or, in the same
    directions, of other `columns` that ascend whenever those do. With `row_hashes`, which needs values of
    all order columns, the place is beside that one row among its equals.
    """

    values: pa.RecordBatch
    after: bool = False
    row_hashes: Hashes | None = None
    columns: tuple[int, ...] | None = None

    def take(self, probes: Indices) -> "Place":
        hashes = None if self.row_hashes is None else self.row_hashes[probes]
        return Place(take_rows(self.values, probes), self.after, hashes, self.columns)


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Where rows of each probe lie: `count` rows from `start` on, in a piece."""

    probe: Indices
    piece: Indices
    start: Indices
    count: Indices

    def __len__(self) -> int:
        return len(self.probe)

    def of(self, mask: Mask) -> "Spans":
        return Spans(self.probe[mask], self.piece[mask], self.start[mask], self.count[mask])

    def take(self, pieces: Sequence[Piece], spec: StateSpec) -> tuple[Indices, Piece]:
        """All their rows: of which span each is, and the rows."""
        parts, ids = [], []
        for number in np.unique(self.piece):
            mine = np.flatnonzero(self.piece == number)
            span, rows = expand(mine, self.start[mine], self.count[mine])
            ids.append(span)
            parts.append(pieces[number].take(rows))
        return np.concatenate(ids), join(parts, spec)


def find_spans(runs: Sequence[Run], hashes: Hashes) -> tuple[list[Piece], Spans]:
    """The rows with these ascending hashes."""
    pieces: list[Piece] = []
    parts: list[tuple[Indices, Indices, Indices, Indices]] = []
    for run in runs:
        for piece, probe, start, count in run.spans(hashes):
            parts.append((probe, np.full(len(probe), len(pieces)), start, count))
            pieces.append(piece)
    if not parts:
        return [], Spans(*[np.zeros(0, np.int64)] * 4)
    return pieces, Spans(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def clip(
    pieces: Sequence[Piece], spans: Spans, spec: StateSpec, low: Place | None, high: Place | None
) -> Spans:
    """What of the spans lies between the places of their probes. Costs spans * log(rows)."""
    if high is not None:
        spans = replace(spans, count=_rows_before(pieces, spans, spec, high))
    if low is not None:
        skipped = _rows_before(pieces, spans, spec, low)
        spans = replace(spans, start=spans.start + skipped, count=spans.count - skipped)
    return spans.of(spans.count > 0)


def narrow(pieces: Sequence[Piece], spans: Spans, row_hashes: Hashes) -> Spans:
    """What of the spans has the row hash of its probe, in a state without order. Costs spans * log(rows)."""
    kept = []
    for number in np.unique(spans.piece):
        mine = spans.of(spans.piece == number)
        wanted, there = row_hashes[mine.probe], pieces[number].row_hashes
        start = _search(there, mine.start, mine.start + mine.count, wanted, or_equal=False)
        stop = _search(there, start, mine.start + mine.count, wanted, or_equal=True)
        kept.append(replace(mine, start=start, count=stop - start))
    columns = zip(*((one.probe, one.piece, one.start, one.count) for one in kept), strict=True)
    found = Spans(*(np.concatenate(column) for column in columns)) if kept else spans
    return found.of(found.count > 0)


def _search(there: Hashes, first: Indices, last: Indices, wanted: Hashes, *, or_equal: bool) -> Indices:
    """For each stretch of ascending hashes, where those end that are less than the wanted one."""
    low, high = first.copy(), last.copy()
    while len(open_ := np.flatnonzero(low < high)):
        middle = (low[open_] + high[open_]) // 2
        hashes, limit = there[middle], wanted[open_]
        before = hashes <= limit if or_equal else hashes < limit
        low[open_[before]] = middle[before] + 1
        high[open_[~before]] = middle[~before]
    return low


def _rows_before(pieces: Sequence[Piece], spans: Spans, spec: StateSpec, place: Place) -> Indices:
    """How many rows of each span come before the place of its probe."""
    found = np.zeros(len(spans), np.int64)
    for number in np.unique(spans.piece):
        mine = np.flatnonzero(spans.piece == number)
        before = _comparison(pieces[number], spec, place)
        probe, low = spans.probe[mine], spans.start[mine].copy()
        high = low + spans.count[mine]
        while len(open_ := np.flatnonzero(low < high)):
            middle = (low[open_] + high[open_]) // 2
            is_before = before(middle, probe[open_])
            low[open_[is_before]] = middle[is_before] + 1
            high[open_[~is_before]] = middle[~is_before]
        found[mine] = low - spans.start[mine]
    return found


Comparison = Callable[[Indices, Indices], Mask]
"""Whether rows of a piece come before the places of as many probes."""


def _comparison(piece: Piece, spec: StateSpec, place: Place) -> Comparison:
    ways = spec.directions[: place.values.num_columns] or (ASCENDING,) * place.values.num_columns
    there = pick(piece.z.rows, place.columns or spec.order[: len(ways)])
    columns = [numbers(one) for one in there.columns]
    wanted = [numbers(one) for one in place.values.columns]
    if any(column is None for column in (*columns, *wanted)):

        def by_value(rows: Indices, probes: Indices) -> Mask:
            equal = _beside(piece, place, rows, probes)
            return comes_before(take_rows(there, rows), take_rows(place.values, probes), ways, or_equal=equal)

        return by_value

    # Numbers need no copy of the rows, which is most of the cost of a search among a few.
    def by_number(rows: Indices, probes: Indices) -> Mask:
        found = np.broadcast_to(_beside(piece, place, rows, probes), len(rows))
        for column, others, way in zip(reversed(columns), reversed(wanted), reversed(ways), strict=True):
            assert column is not None
            assert others is not None
            mine, other = column[rows], others[probes]
            less = mine > other if way.descending else mine < other
            found = less | ((mine == other) & found)
        return found

    return by_number


def _beside(piece: Piece, place: Place, rows: Indices, probes: Indices) -> Mask | bool:
    """Whether those rows that are equal to the place's values come before it."""
    if place.row_hashes is None:
        return place.after
    hashes, other = piece.row_hashes[rows], place.row_hashes[probes]
    return hashes <= other if place.after else hashes < other

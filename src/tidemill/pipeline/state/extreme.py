"""The first or last row of each key, from the ends of the groups instead of the whole of them.

The rows of one hash lie sorted in each run. So of each run the outermost few are taken and added up. A row
is decided if it lies further out than everything that was left behind in any run: all its weights are known.
While no decided row of a key has a positive weight, more rows are taken for that key.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.pipeline.state.order import dense_ranks, order_codes
from tidemill.pipeline.state.piece import Piece, join
from tidemill.pipeline.state.run import Run, expand
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.zset import ZSet, concat, equal_rows, group_rows, sum_groups
from tidemill.pipeline.zset.hashing import Hashes
from tidemill.pipeline.zset.value import Indices, take_rows

Decided = npt.NDArray[np.bool_]
"""For each probe, whether its answer is known."""

_FIRST_WINDOW = 2  # at least 2: the innermost row that is taken is never decided
_NOTHING_LEFT = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True, eq=False)
class _Spans:
    """Where the rows of each probe's hash lie: `count` rows from `start` on, in a piece."""

    probe: Indices
    piece: Indices
    start: Indices
    count: Indices

    def __len__(self) -> int:
        return len(self.probe)

    def of(self, mask: npt.NDArray[np.bool_]) -> "_Spans":
        return _Spans(self.probe[mask], self.piece[mask], self.start[mask], self.count[mask])


def find_extremes(
    runs: Sequence[Run], spec: StateSpec, keys: pa.RecordBatch, hashes: Hashes, *, last: bool
) -> tuple[Indices, ZSet]:
    """For each key the outermost row of positive weight, if any: which key, and the row. Hashes ascend."""
    pieces, spans = _find_spans(runs, hashes)
    decided, probe, rows = _decide_simple(pieces, spans, spec, keys, last)
    probes, found = [probe], [rows]
    window = _FIRST_WINDOW
    while len(spans := spans.of(~decided[spans.probe])):
        decided, probe, rows = _decide(pieces, spans, spec, keys, window, last)
        probes.append(probe)
        found.append(rows)
        window *= 4
    return np.concatenate(probes), concat(found, spec.schema)


def _find_spans(runs: Sequence[Run], hashes: Hashes) -> tuple[list[Piece], _Spans]:
    pieces: list[Piece] = []
    parts: list[tuple[Indices, Indices, Indices, Indices]] = []
    for run in runs:
        for piece, probe, start, count in run.spans(hashes):
            parts.append((probe, np.full(len(probe), len(pieces)), start, count))
            pieces.append(piece)
    if not parts:
        return [], _Spans(*[np.zeros(0, np.int64)] * 4)
    return pieces, _Spans(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _decide_simple(
    pieces: Sequence[Piece], spans: _Spans, spec: StateSpec, keys: pa.RecordBatch, last: bool
) -> tuple[Decided, Indices, ZSet]:
    """Settle the probes whose hash lies in one run only, if its outermost row will do: the common case."""
    settled = np.zeros(keys.num_rows, np.bool_)
    alone = spans.of(np.bincount(spans.probe, minlength=1)[spans.probe] == 1)
    if not len(alone):
        return settled, np.zeros(0, np.int64), ZSet.empty(spec.schema)
    span, taken = _take(pieces, alone, spec, 1, last)
    probe = alone.probe[span]
    good = (taken.z.weights > 0) & equal_rows(take_rows(keys, probe), taken.z.rows, None, spec.key)
    settled[probe[good]] = True
    return settled, probe[good], taken.z.filter(good)


def _decide(
    pieces: Sequence[Piece], spans: _Spans, spec: StateSpec, keys: pa.RecordBatch, window: int, last: bool
) -> tuple[Decided, Indices, ZSet]:
    """Look at the outermost `window` rows: which probes are settled, and the rows of those that have one."""
    span, taken = _take(pieces, spans, spec, window, last)
    probe = spans.probe[span]
    rank = dense_ranks([*order_codes(taken.z.rows, spec.order), taken.row_hashes], len(taken))
    outward = rank if last else -rank

    # The innermost row taken of a span that has more: from there on inward, weights may be missing.
    left = np.full(keys.num_rows, _NOTHING_LEFT)
    inner = np.full(len(spans.probe), np.iinfo(np.int64).max)
    np.minimum.at(inner, span, outward)
    more = spans.count > window
    np.maximum.at(left, spans.probe[more], inner[more])

    row = group_rows(taken.z.rows, None, taken.row_hashes).number()
    order = np.lexsort((row, outward, probe))
    starts = np.flatnonzero(_changes(probe[order]) | _changes(row[order]))
    first = order[starts]
    weights = sum_groups(taken.z.weights[order], starts)
    good = np.flatnonzero((weights > 0) & (outward[first] > left[probe[first]]))
    own = equal_rows(
        take_rows(keys, probe[first[good]]), take_rows(taken.z.rows, first[good]), None, spec.key
    )
    good = good[own]
    # Ascending outward within each probe: the last one wins.
    winner = good[np.append(_changes(probe[first[good]])[1:], True)] if len(good) else good

    settled = left == _NOTHING_LEFT
    settled[probe[first[winner]]] = True
    return settled, probe[first[winner]], ZSet(take_rows(taken.z.rows, first[winner]), weights[winner])


def _take(
    pieces: Sequence[Piece], spans: _Spans, spec: StateSpec, window: int, last: bool
) -> tuple[Indices, Piece]:
    """The outermost rows of each span: which span, and the rows."""
    counts = np.minimum(spans.count, window)
    starts = spans.start + spans.count - counts if last else spans.start
    parts, ids = [], []
    for number in np.unique(spans.piece):
        mine = np.flatnonzero(spans.piece == number)
        span, rows = expand(mine, starts[mine], counts[mine])
        ids.append(span)
        parts.append(pieces[number].take(rows))
    return np.concatenate(ids), join(parts, spec)


def _changes(values: Indices) -> npt.NDArray[np.bool_]:
    """Where a value differs from the one before; true for the first."""
    return np.append(True, values[1:] != values[:-1]) if len(values) else np.zeros(0, np.bool_)

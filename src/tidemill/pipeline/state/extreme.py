"""The outermost rows of each key, from the ends of the groups instead of the whole of them.

The rows of one hash lie sorted in each run. So of each run the outermost few are taken and added up. A row
is decided if it lies further out than everything that was left behind in any run: all its weights are known.
While the decided rows of a key with a positive weight are too few, more rows are taken for that key.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.pipeline.state.order import dense_ranks, order_codes
from tidemill.pipeline.state.piece import Piece
from tidemill.pipeline.state.run import Run
from tidemill.pipeline.state.spans import Place, Spans, clip, find_spans
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.zset import ZSet, concat, equal_rows, group_rows, sum_groups
from tidemill.pipeline.zset.hashing import Hashes
from tidemill.pipeline.zset.value import Indices, Weights, take_rows

Decided = npt.NDArray[np.bool_]
"""For each probe, whether its answer is known."""

Ranking = Literal["row_number", "rank", "dense_rank"]
"""How rows are numbered from the end: each copy by itself, or equals (by the order) together."""

_FIRST_WINDOW = 2  # at least 2: the innermost row that is taken is never decided
_NOTHING_LEFT = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Reach:
    """Which rows are wanted: those numbered 1 to `count`, from the first on or from the `last`."""

    last: bool = False
    count: int = 1
    ranking: Ranking = "row_number"


def find_extremes(
    runs: Sequence[Run],
    spec: StateSpec,
    keys: pa.RecordBatch,
    hashes: Hashes,
    reach: Reach,
    low: Place | None = None,
    high: Place | None = None,
) -> tuple[Indices, ZSet]:
    """For each key its outermost rows of positive weight between two places, the outermost first.

    Which key, and the row. Hashes ascend.
    """
    pieces, spans = find_spans(runs, hashes)
    spans = clip(pieces, spans, spec, low, high)
    probes, found = [np.zeros(0, np.int64)], [ZSet.empty(spec.schema)]
    decided = np.zeros(keys.num_rows, np.bool_)
    if reach.count == 1 and reach.ranking == "row_number":
        decided, probe, rows = _decide_simple(pieces, spans, spec, keys, reach)
        probes.append(probe)
        found.append(rows)
    window = max(_FIRST_WINDOW, reach.count + 1)
    while len(spans := spans.of(~decided[spans.probe])):
        decided, probe, rows = _decide(pieces, spans, spec, keys, reach, window)
        probes.append(probe)
        found.append(rows)
        window *= 4
    return np.concatenate(probes), concat(found, spec.schema)


def _decide_simple(
    pieces: Sequence[Piece], spans: Spans, spec: StateSpec, keys: pa.RecordBatch, reach: Reach
) -> tuple[Decided, Indices, ZSet]:
    """Settle the probes whose hash lies in one run only, if its outermost row will do: the common case."""
    settled = np.zeros(keys.num_rows, np.bool_)
    alone = spans.of(np.bincount(spans.probe, minlength=1)[spans.probe] == 1)
    if not len(alone):
        return settled, np.zeros(0, np.int64), ZSet.empty(spec.schema)
    span, taken = _take(pieces, alone, spec, 1, last=reach.last)
    probe = alone.probe[span]
    good = (taken.z.weights > 0) & equal_rows(take_rows(keys, probe), taken.z.rows, None, spec.key)
    settled[probe[good]] = True
    return settled, probe[good], taken.z.filter(good)


def _decide(
    pieces: Sequence[Piece], spans: Spans, spec: StateSpec, keys: pa.RecordBatch, reach: Reach, window: int
) -> tuple[Decided, Indices, ZSet]:
    """Look at the outermost `window` rows: which probes are settled, and their rows."""
    span, taken = _take(pieces, spans, spec, window, last=reach.last)
    probe = spans.probe[span]
    codes = order_codes(taken.z.rows, spec.order, spec.directions)
    rank = dense_ranks([*codes, taken.row_hashes], len(taken))
    inward = -rank if reach.last else rank

    # The innermost row taken of a span that has more: from there on inward, weights may be missing.
    left = np.full(keys.num_rows, _NOTHING_LEFT)
    inner = np.full(len(spans), np.iinfo(np.int64).min)
    np.maximum.at(inner, span, inward)
    more = spans.count > window
    np.minimum.at(left, spans.probe[more], inner[more])

    row = group_rows(taken.z.rows, None, taken.row_hashes).number()
    order = np.lexsort((row, inward, probe))
    starts = np.flatnonzero(_changes(probe[order]) | _changes(row[order]))
    first = order[starts]
    weights = sum_groups(taken.z.weights[order], starts)
    good = np.flatnonzero((weights > 0) & (inward[first] < left[probe[first]]))
    own = equal_rows(
        take_rows(keys, probe[first[good]]), take_rows(taken.z.rows, first[good]), None, spec.key
    )
    first, weights = first[good[own]], weights[good[own]]
    owner = probe[first]

    number, total = _numbered(owner, weights, dense_ranks(codes, len(taken))[first], reach)
    settled = left == _NOTHING_LEFT
    settled[owner[number > reach.count]] = True
    if reach.ranking == "row_number":
        settled[owner[total >= reach.count]] = True
    kept = settled[owner] & (number <= reach.count)
    return settled, owner[kept], ZSet(take_rows(taken.z.rows, first[kept]), weights[kept])


def _numbered(owner: Indices, weights: Weights, value: Indices, reach: Reach) -> tuple[Indices, Indices]:
    """The number of each row among those of its owner, and of the last copy of it; in the order given."""
    if not len(owner):
        return owner, owner
    new_owner = np.flatnonzero(_changes(owner))
    sizes = np.diff(np.append(new_owner, len(owner)))
    ends = np.cumsum(np.minimum(weights, reach.count))  # more copies than that make no difference
    ends -= np.repeat(np.append(0, ends)[new_owner], sizes)
    begins = ends - np.minimum(weights, reach.count) + 1
    if reach.ranking == "row_number":
        return begins, ends
    leads = _changes(owner) | _changes(value)
    if reach.ranking == "rank":
        return begins[np.flatnonzero(leads)][np.cumsum(leads) - 1], ends
    number = np.cumsum(leads)
    return np.asarray(number - np.repeat(number[new_owner], sizes) + 1), ends


def _take(
    pieces: Sequence[Piece], spans: Spans, spec: StateSpec, window: int, *, last: bool
) -> tuple[Indices, Piece]:
    """The outermost rows of each span: which span, and the rows."""
    counts = np.minimum(spans.count, window)
    starts = spans.start + spans.count - counts if last else spans.start
    return replace(spans, start=starts, count=counts).take(pieces, spec)


def _changes(values: Indices) -> npt.NDArray[np.bool_]:
    """Where a value differs from the one before; true for the first."""
    return np.append(True, values[1:] != values[:-1]) if len(values) else np.zeros(0, np.bool_)

"""Inner joins: each side's change meets the other side's rows."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.pipeline.operators.arrange import arranged_by, first_in_order
from tidemill.pipeline.operators.operator import Access, Flow, Operator
from tidemill.pipeline.operators.rows import shaped
from tidemill.pipeline.operators.select import condition
from tidemill.pipeline.plan.expression import columns_of, shift
from tidemill.pipeline.plan.node import Join, Node
from tidemill.pipeline.state.spans import Place
from tidemill.pipeline.zset import (
    ZSet,
    concat,
    consolidate,
    group_rows,
    hash_rows,
    multiply_checked,
    null_mask,
    pick,
)
from tidemill.pipeline.zset.hashing import Hashes
from tidemill.pipeline.zset.value import Indices, Mask, batch, take_rows

_KEYS = 1 << 18
"""So many keys are looked up at a time."""
_PAIRS = 1 << 20
"""About so many pairs are formed at a time; only those that pass the condition stay."""

_FIRST = 64
"""So many ranges are looked up at first; then as many as may find about `_PAIRS` rows."""


_END = {"<": "low", "<=": "low", ">": "high", ">=": "high"}
"""Which end of what is found the asking side's column is: what it is less than lies above it."""
_AFTER = {"<": True, "<=": False, ">": False, ">=": True}
"""Whether the place is after the rows with the same value."""
_TURNED = {">": "<", ">=": "<=", "<": ">", "<=": ">="}


@dataclass(frozen=True, slots=True)
class _Ask:
    """How rows of one side find those of the other: by key, and between places of its order.

    A place is a column of the asking side and whether rows with its very value come before the place.
    """

    key: tuple[int, ...]
    low: tuple[int, bool] | None = None
    high: tuple[int, bool] | None = None

    @property
    def ends(self) -> list[int]:
        """The columns that bound what is found."""
        return [end[0] for end in (self.low, self.high) if end is not None]

    @property
    def by(self) -> tuple[int, ...]:
        """What tells one question from another."""
        return tuple(dict.fromkeys((*self.key, *self.ends)))

    def count_after(self, count: int, found: int) -> int:
        """How many to look up next, when so many found so much: a key is asked once, but a range is not."""
        if not self.ends:
            return _KEYS
        return min(_KEYS, max(1, count * min(8, _PAIRS // max(found, 1))))

    def matches(self, spine: Any, rows: pa.RecordBatch, *, before: bool) -> Any:
        keys = pick(rows, self.key)
        if not self.ends:
            return spine.lookup(keys, hash_rows(keys), before=before)
        low, high = (
            None if end is None else Place(pick(rows, [end[0]]), after=end[1])
            for end in (self.low, self.high)
        )
        return spine.between(keys, hash_rows(keys), low, high, before=before)


def _asks(node: Join, inputs: Sequence[Node]) -> tuple[_Ask, _Ask]:
    """How the left asks for rows of the right, and the right for those of the left."""
    left, right = map(arranged_by, inputs)
    mine, theirs = map(first_in_order, inputs)
    of_left = {
        _END[one.compare]: (one.left, _AFTER[one.compare]) for one in node.bounds if one.right == theirs
    }
    of_right = {
        _END[_TURNED[one.compare]]: (one.right, _AFTER[_TURNED[one.compare]])
        for one in node.bounds
        if one.left == mine
    }
    return _Ask(left, **of_left), _Ask(right, **of_right)


@dataclass(frozen=True, slots=True, eq=False)
class _Probe:
    """Rows of one side, with the hashes of their join keys; nothing that they ask by is NULL."""

    rows: ZSet
    ask: _Ask
    hashes: Hashes

    def filter(self, mask: Mask) -> "_Probe":
        return _Probe(self.rows.filter(mask), self.ask, self.hashes[mask])


@dataclass(frozen=True, slots=True, eq=False)
class _Pairs:
    """Rows of the left with rows of the right, by their positions."""

    left: ZSet
    right: ZSet
    left_at: Indices
    right_at: Indices

    def filter(self, mask: Mask) -> "_Pairs":
        return _Pairs(self.left, self.right, self.left_at[mask], self.right_at[mask])

    def columns(self, chosen: Iterable[int]) -> list[pa.Array]:
        width = self.left.rows.num_columns
        left_at, right_at = pa.array(self.left_at), pa.array(self.right_at)
        return [
            self.left.rows.column(index).take(left_at)
            if index < width
            else self.right.rows.column(index - width).take(right_at)
            for index in chosen
        ]

    def weights(self) -> npt.NDArray[np.int64]:
        return multiply_checked(self.left.weights[self.left_at], self.right.weights[self.right_at])


class JoinOperator(Operator):
    """Puts out left-before ⋈ right-change + left-change ⋈ right-after; the inputs keep the spines.

    The sum over all rounds is left ⋈ right, also for a join with itself, as long as at the first round one
    side has no rows yet. A join that is created over two older inputs gets the rows of the left as changes,
    and none of the right, whose spine has them all.

    A pair that is there neither before nor after may be in both terms, and cancel out. It is gone before the
    condition, or what comes next, could raise because of it.
    """

    node: Join
    cost = "O(change · log state + pairs)"

    def __init__(self, node: Join, inputs: Sequence[Node]) -> None:
        super().__init__(node, inputs)
        self._asks = _asks(node, inputs)
        self._used: list[int] = []
        self._where: Callable[[pa.RecordBatch], Mask] | None = None
        if node.condition is not None:
            self._used = sorted(columns_of(node.condition))
            positions = {column: place for place, column in enumerate(self._used)}
            self._where = condition(shift(node.condition, positions))

    def step(self, inputs: Sequence[Flow], access: Access) -> Flow:
        left, right = (_probe(change, ask) for (change,), ask in zip(inputs, self._asks, strict=True))
        contested = _contested(left, right)
        sure: list[ZSet] = []
        unsure: list[ZSet] = []
        for side, probe in ((1, right), (0, left)):
            if not len(probe.rows):
                continue
            lookup = partial(probe.ask.matches, access.of(1 - side), before=side == 1)
            doubtful = np.isin(probe.hashes, contested)
            sure += self._passing(_pairs(probe.filter(~doubtful), lookup, flipped=side == 1))
            unsure += map(self._joined, _pairs(probe.filter(doubtful), lookup, flipped=side == 1))
        if unsure:
            sure.append(self._passing_rows(consolidate(concat(unsure, self.node.schema))))
        return (concat(sure, self.node.schema),)

    def _joined(self, pairs: _Pairs) -> ZSet:
        schema = self.node.schema
        rows = shaped(pairs.columns(range(len(schema))), schema, len(pairs.left_at))
        return ZSet(rows, pairs.weights())

    def _passing(self, pieces: Iterable[_Pairs]) -> Iterator[ZSet]:
        """The pairs for which the condition is true; first only its columns are put together."""
        for pairs in pieces:
            if self._where is not None:
                schema = pa.schema([self.node.schema.field(index) for index in self._used])
                rows = shaped(pairs.columns(self._used), schema, len(pairs.left_at))
                pairs = pairs.filter(self._where(rows))
            yield self._joined(pairs)

    def _passing_rows(self, joined: ZSet) -> ZSet:
        if self._where is None:
            return joined
        return joined.filter(self._where(pick(joined.rows, self._used)))


def _probe(change: ZSet, ask: _Ask) -> _Probe:
    change = change.filter(~null_mask(change.rows, ask.by))
    return _Probe(change, ask, hash_rows(change.rows, ask.key))


def _contested(left: _Probe, right: _Probe) -> Hashes:
    """The keys for which the two terms may cancel out: those that both sides change, unless all is added."""
    if (left.rows.weights > 0).all() and (right.rows.weights > 0).all():
        return np.zeros(0, np.uint64)
    return np.intersect1d(left.hashes, right.hashes)


def _pairs(probe: _Probe, lookup: Callable[[pa.RecordBatch], Any], *, flipped: bool) -> Iterator[_Pairs]:
    """The rows of a change with the rows of the other side, piece by piece; flipped if the change is right.

    What is the same for several rows is looked up once, so a frequent key costs no more than its pairs.
    """
    ask = probe.ask
    groups = group_rows(probe.rows.rows, ask.by, None if ask.ends else probe.hashes)
    first = take_rows(probe.rows.rows, groups.first)
    sizes = np.diff(np.append(groups.starts, len(probe.rows)))
    start, count = 0, _FIRST if ask.ends else _KEYS
    while start < len(groups):
        matches = lookup(first.slice(start, count))
        asked, found = _added_up(matches.probe + start, matches.found)
        for begin, end in _cuts(sizes[asked]):
            counts = sizes[asked[begin:end]]
            found_at = np.repeat(np.arange(begin, end), counts)
            place = np.arange(len(found_at)) - np.repeat(np.cumsum(counts) - counts, counts)
            probe_at = groups.order[groups.starts[asked[found_at]] + place]
            if flipped:
                yield _Pairs(found, probe.rows, found_at, probe_at)
            else:
                yield _Pairs(probe.rows, found, probe_at, found_at)
        start += count
        count = ask.count_after(count, len(found))


def _added_up(asked: Indices, found: ZSet) -> tuple[Indices, ZSet]:
    """Without the rows that one run adds and another takes away."""
    if (found.weights > 0).all():
        return asked, found
    schema = found.schema.append(pa.field("asked", pa.int64()))
    groups = group_rows(batch([*found.rows.columns, pa.array(asked)], schema, len(found)))
    weights = groups.sum(found.weights)
    rows = groups.first[weights != 0]
    return asked[rows], ZSet(take_rows(found.rows, rows), weights[weights != 0])


def _cuts(counts: Indices) -> Iterator[tuple[int, int]]:
    """Stretches of about `_PAIRS` in sum, as (first, end)."""
    if not len(counts):
        return
    ends = np.cumsum(counts)
    inner = np.unique(np.searchsorted(ends, np.arange(_PAIRS, ends[-1], _PAIRS)) + 1)
    edges = [0, *(int(edge) for edge in inner if edge < len(counts)), len(counts)]
    yield from pairwise(edges)

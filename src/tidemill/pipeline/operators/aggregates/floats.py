"""Exact sums of floats and of their products: rows may come and go in any order and leave no trace.

The exact sum of a group is kept as limbs (see `rounding`), to which each row adds its own, times its weight.
All sums of a node lie side by side, so that a group is looked up once. Where there are NaN or infinities,
their counts decide.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.pipeline.operators.aggregates.counts import ALL_ROWS, Rows
from tidemill.pipeline.operators.aggregates.doubles import Doubles, spread
from tidemill.pipeline.operators.aggregates.measure import (
    Chosen,
    Detail,
    ExactSum,
    Function,
    Integers,
    Touched,
    masked,
)
from tidemill.pipeline.operators.aggregates.products import Large
from tidemill.pipeline.operators.aggregates.rounding import Floats
from tidemill.pipeline.plan.node import AggregateCall
from tidemill.pipeline.zset import Groups, sum_at
from tidemill.pipeline.zset.hashing import fixed_values
from tidemill.pipeline.zset.value import Mask, Weights

_LIMBS = 4
"""So many of each sum are in a row: block b has those from 4 b on."""
_ODD = 2**15 - 1
"""The block with counts of what is not finite: its first limb counts NaN, then infinity, minus infinity."""

_CHUNK_ROWS = 8192
"""So many are added up together, as what is computed of them lies in a cache."""


@dataclass(frozen=True, slots=True)
class Accumulators(Detail):
    """Exact sums: rows are (group, block), the weights are the limbs of that block, sum by sum."""

    sums: tuple[ExactSum, ...]

    @property
    def width(self) -> int:
        return _LIMBS * len(self.sums)

    def fields(self, schema: pa.Schema) -> list[pa.Field]:  # noqa: ARG002
        return [pa.field("block", pa.int16())]

    def combine(
        self, rows: pa.RecordBatch, weights: Weights, groups: Groups
    ) -> tuple[Integers, list[pa.Array], Weights]:
        """As of any detail, but what a large group adds may come in several rows."""
        masks = {one.chosen: one.chosen.mask(rows) for one in self.sums}
        # Sums that differ by which rows are chosen are often the same: when all are.
        same = [one if masks[one.chosen] is not None else replace(one, chosen=_ALL) for one in self.sums]
        sums = list(dict.fromkeys(same))
        places = [sums.index(one) for one in same]
        columns = {column: _doubles(rows.column(column)) for one in sums for column in one.factors}
        chosen = {one.chosen: _weighed(weights, masks.get(one.chosen)) for one in sums}
        number = np.repeat(np.arange(len(groups)), groups.sizes)
        parts: list[Part] = []
        for chunk in _chunks(groups):
            at = groups.order[chunk]
            values = {column: found[at] for column, found in columns.items()}
            amounts = {which: found[at] for which, found in chosen.items()}
            for group, block, limbs in _added_up(sums, number[chunk], values, amounts):
                parts.append((group, block, limbs[:, places].reshape(len(group), self.width)))
        group, block, limbs = (np.concatenate(part) for part in zip(*parts, strict=True))
        return group, [pa.array(block, pa.int16())], limbs

    def read(self, spine: Any, groups: Touched, *, before: bool) -> "list[Sums]":
        """Each of the sums, of these groups; `before` is without this round's change."""
        matches = spine.lookup(groups.keys, groups.hashes, before=before)
        block = fixed_values(matches.found.rows.column(groups.keys.num_columns)).astype(np.int64)
        rows, finite = (matches.probe, block, matches.found.weights), block != _ODD
        odd = np.zeros((len(self.sums), _LIMBS, len(groups)), np.int64)
        if not finite.all():
            _, odd = self._limbs(len(groups), *(part[~finite] for part in rows))
            rows = tuple(part[finite] for part in rows)
        first, limbs = self._limbs(len(groups), *rows)
        return [Sums(Large(each, first), special[:3] > 0) for each, special in zip(limbs, odd, strict=True)]

    def _limbs(self, count: int, group: Integers, block: Integers, weights: Weights) -> tuple[int, Weights]:
        """What rows hold of so many groups: the lowest limb, and (sums, limbs, groups) from that one on."""
        first, last = (int(block.min()), int(block.max())) if len(block) else (0, 0)
        shape = (len(self.sums), (last - first + 1) * _LIMBS, count)
        row = (block - first) * (_LIMBS * count) + group
        column = np.arange(shape[0])[:, None] * (shape[1] * count) + np.arange(_LIMBS) * count
        places = row[:, None] + column.ravel()
        return first * _LIMBS, sum_at(places.ravel(), weights.ravel(), math.prod(shape)).reshape(shape)


_ALL = ALL_ROWS.chosen


def _chunks(groups: Groups) -> Iterator[slice]:
    """Stretches of the rows in order: of whole groups, or of a part of one."""
    start, rows = 0, len(groups.order)
    while start < rows:
        stop = start + _CHUNK_ROWS
        if stop < rows:
            begun = int(groups.starts[np.searchsorted(groups.starts, stop, "right") - 1])
            stop = begun if begun > start else stop
        yield slice(start, stop)
        start = stop


def _doubles(column: pa.Array) -> Floats:
    """The values, zero where NULL."""
    return fixed_values(column.fill_null(0) if column.null_count else column).astype(np.float64)


def _weighed(weights: Weights, mask: Mask | None) -> Weights:
    return weights if mask is None else np.where(mask, weights, 0)


Part = tuple[Integers, Integers, Weights]
"""Rows of accumulators: groups, blocks, and limbs of the shape (rows, sums, limbs)."""


def _added_up(
    sums: Sequence[ExactSum],
    group: Integers,
    values: Mapping[int, Floats],
    weights: Mapping[Chosen, Weights],
) -> Iterator[Part]:
    """What some rows add to each sum. Their groups ascend."""
    finite = {column: np.isfinite(found) for column, found in values.items()}
    # Zeros add nothing, and in no limb: one far below all others would make the table large.
    exact = {column: finite[column] & (found != 0) for column, found in values.items()}
    doubles = {column: Doubles.of(np.where(exact[column], found, 1.0)) for column, found in values.items()}
    entries = []
    for one in sums:
        used = np.logical_and.reduce([exact[column] for column in one.factors])
        amount = np.where(used, weights[one.chosen], 0)
        lowest, amounts = spread([doubles[column] for column in one.factors], amount)
        entries.append((lowest + np.arange(len(amounts))[:, None], amounts))
    yield _table(group, entries)
    if not all(mask.all() for mask in finite.values()):
        yield _table(
            group, [_odd(values[one.factors[0]], weights[one.chosen], len(one.factors)) for one in sums]
        )


def _odd(values: Floats, weights: Weights, factors: int) -> tuple[Integers, Weights]:
    """What is added to the counts of values that are not finite: by a column, not by products."""
    limb = np.where(np.isnan(values), 0, np.where(values > 0, 1, 2)) + _LIMBS * _ODD
    return limb, np.where(np.isfinite(values) | (factors > 1), 0, weights)


def _table(group: Integers, entries: Sequence[tuple[Integers, Weights]]) -> Part:
    """The rows that hold, for each sum, what is added to which limb."""
    start, count = group[0], group[-1] - group[0] + 1
    first = min(int(limb.min()) for limb, _ in entries) // _LIMBS
    blocks = max(int(limb.max()) for limb, _ in entries) // _LIMBS - first + 1
    cells = (group - start) * (blocks * _LIMBS) - first * _LIMBS
    size = count * blocks * _LIMBS
    sums = [sum_at((cells + limb).ravel(), amounts.ravel(), size) for limb, amounts in entries]
    table = np.stack(sums).reshape(len(entries), -1, _LIMBS).swapaxes(0, 1)
    some = np.flatnonzero(table.any(axis=(1, 2)))
    return start + some // blocks, first + some % blocks, table[some]


@dataclass(frozen=True, eq=False)
class Sums:
    """Exact sums: all that is finite, and which of them have NaN, infinity, minus infinity beside it."""

    finite: Large
    special: Mask

    @cached_property
    def rounded(self) -> Floats:
        """The double nearest to each; NaN or infinite as its addends say."""
        nan, plus, minus = self.special
        found = self.finite.rounded()
        found[plus] = np.inf
        found[minus] = -np.inf
        found[nan | (plus & minus)] = np.nan
        return found


class _OverFloats(Function):
    def __init__(self, call: AggregateCall, arguments: Sequence[pa.Field]) -> None:
        super().__init__(call, arguments)
        self.measures = (Rows(self.counted), ExactSum(self.chosen, call.columns))

    @classmethod
    def takes(cls, *kinds: pa.DataType) -> bool:
        return len(kinds) == 1 and bool(pa.types.is_floating(kinds[0]))


class FloatSum(_OverFloats):
    """The double nearest to the exact sum."""

    def value(self, *found: Any) -> pa.Array:
        count, sums = found
        return masked(sums.rounded, count > 0, self.type)


class FloatAverage(_OverFloats):
    """That sum divided by the count."""

    def value(self, *found: Any) -> pa.Array:
        count, sums = found
        return masked(sums.rounded / np.maximum(count, 1), count > 0, self.type)

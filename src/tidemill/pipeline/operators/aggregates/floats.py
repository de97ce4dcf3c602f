"""SUM and AVG of floats, by the exact sum: rows may come and go in any order and leave no trace.

The exact sum of a group is kept as limbs (see `rounding`): a double is spread over three of them at most, and
its weight times each is added up. Where there are NaN or infinities, their counts decide.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.pipeline.operators.aggregates.counts import Rows
from tidemill.pipeline.operators.aggregates.measure import (
    Chosen,
    Detail,
    Function,
    Integers,
    Looked,
    Touched,
    masked,
    stretches,
)
from tidemill.pipeline.operators.aggregates.rounding import Floats, nearest
from tidemill.pipeline.plan.node import AggregateCall
from tidemill.pipeline.zset import Groups, multiply_checked, sum_groups
from tidemill.pipeline.zset.hashing import fixed_values
from tidemill.pipeline.zset.value import Weights

_NAN, _PLUS, _MINUS = -1, -2, -3
"""Limbs that are counts of values that are not finite."""

_LOWEST = _MINUS
_SPAN = 80  # more than there are limbs
_MANTISSA = np.uint64((1 << 52) - 1)
_LOW = np.uint64(0xFFFF_FFFF)
_BITS = np.uint64(32)
_CHUNK_GROUPS = 16_384
_NOTHING = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Superaccumulator(Detail):
    """The exact sum of a float column: rows are (group, limb), the weight is the limb's value."""

    chosen: Chosen

    def fields(self, schema: pa.Schema) -> list[pa.Field]:  # noqa: ARG002
        return [pa.field("limb", pa.int32())]

    def combine(
        self, rows: pa.RecordBatch, weights: Weights, groups: Groups
    ) -> tuple[Integers, list[pa.Array], Weights]:
        values = fixed_values(rows.column(self.chosen.columns[0])).astype(np.float64)
        mask = self.chosen.mask(rows)
        if mask is not None:
            values = np.where(mask, values, 0.0)
        number = np.repeat(np.arange(len(groups)), np.diff(np.append(groups.starts, len(groups.order))))
        values = values[groups.order]
        adds = np.flatnonzero(values)
        lowest, amounts = spread(values[adds], weights[groups.order[adds]])
        found = [_sum_limb(limb, number[adds], lowest, amounts) for limb in _limbs_within(lowest)]
        group, limb, total = (np.concatenate(parts) for parts in zip((_NOTHING,) * 3, *found, strict=True))
        return group, [pa.array(limb, pa.int32())], total


def spread(values: Floats, weights: Weights) -> tuple[Integers, list[Weights]]:
    """For each value the lowest of its limbs, and what it adds to that one and to the two above."""
    bits = values.view(np.uint64)
    exponent = (bits >> np.uint64(52)) & np.uint64(0x7FF)
    normal = exponent > 0
    shift = exponent - normal  # of the mantissa as an integer, in multiples of the least double
    mantissa = (bits & _MANTISSA) | (normal.astype(np.uint64) << np.uint64(52))
    low = mantissa << (shift & np.uint64(31))
    high = (mantissa >> _BITS) >> (_BITS - (shift & np.uint64(31)))
    limbs = [low & _LOW, low >> _BITS, high]
    lowest = (shift >> np.uint64(5)).astype(np.int64)
    special = exponent == 0x7FF
    if special.any():
        code = np.where(np.isnan(values), _NAN, np.where(values > 0, _PLUS, _MINUS))
        lowest = np.where(special, code, lowest)
        limbs = [
            np.where(special, np.uint64(alone), limb) for limb, alone in zip(limbs, (1, 0, 0), strict=True)
        ]
    signed = np.where((values < 0) & ~special, -weights, weights)
    return lowest, [multiply_checked(limb.view(np.int64), signed) for limb in limbs]


def _limbs_within(lowest: Integers) -> Integers:
    """All limbs that have something added, given the lowest of each value."""
    used = np.zeros(_SPAN, np.bool_)
    used[lowest - _LOWEST] = True
    finite = used.copy()
    finite[:-_LOWEST] = False
    used[1:] |= finite[:-1]
    used[2:] |= finite[:-2]
    return np.flatnonzero(used) + _LOWEST


def _sum_limb(
    limb: int, number: Integers, lowest: Integers, amounts: list[Weights]
) -> tuple[Integers, Integers, Weights]:
    """What is added to one limb, for each group that adds something: its number, the limb, the sum."""
    picked = np.flatnonzero((lowest <= limb) & (lowest >= (limb if limb < 0 else max(limb - 2, 0))))
    above = limb - lowest[picked]
    added = np.choose(above, [amount[picked] for amount in amounts])
    starts = stretches(number[picked])
    sums = sum_groups(added, starts)
    nonzero = sums != 0
    return number[picked[starts]][nonzero], np.full(nonzero.sum(), limb), sums[nonzero]


@dataclass(frozen=True, slots=True)
class ExactSum(Looked):
    """The sum of each group, rounded once."""

    def read(self, spine: Any, groups: Touched, *, before: bool) -> Floats:
        matches = spine.lookup(groups.keys, groups.hashes, before=before)
        limb = fixed_values(matches.found.rows.column(groups.keys.num_columns)).astype(np.int64)
        place = matches.probe * _SPAN + (limb - _LOWEST)
        order = np.argsort(place, kind="stable")
        starts = stretches(place[order])
        weights = sum_groups(matches.found.weights[order], starts)
        return total(place[order[starts]], weights, len(groups))


def total(place: Integers, weights: Weights, count: int) -> Floats:
    """The double nearest to each of `count` sums. `place` ascends: it says which sum and limb a weight is."""
    sums = np.zeros(count)
    for first in range(0, count, _CHUNK_GROUPS):
        last = min(first + _CHUNK_GROUPS, count)
        lo, hi = np.searchsorted(place, (first * _SPAN, last * _SPAN))
        if lo < hi:
            group, limb = np.divmod(place[lo:hi], _SPAN)
            sums[first:last] = _dense_total(group - first, limb + _LOWEST, weights[lo:hi], last - first)
    return sums


def _dense_total(group: Integers, limb: Integers, weights: Weights, count: int) -> Floats:
    finite = limb >= 0
    first, last = (limb[finite].min(), limb[finite].max()) if finite.any() else (0, 0)
    limbs = np.zeros((last - first + 1, count), np.int64)
    limbs[limb[finite] - first, group[finite]] = weights[finite]
    sums = nearest(limbs, int(first))
    if not finite.all():
        there = np.zeros((-_LOWEST, count), np.bool_)
        there[limb[~finite] - _LOWEST, group[~finite]] = weights[~finite] > 0
        minus, plus, nan = there
        sums[plus] = np.inf
        sums[minus] = -np.inf
        sums[nan | (plus & minus)] = np.nan
    return sums


class _OverFloats(Function):
    def __init__(self, call: AggregateCall, arguments: Sequence[pa.Field]) -> None:
        super().__init__(call, arguments)
        self.measures = (Rows(self.counted), ExactSum(Superaccumulator(self.chosen)))

    @classmethod
    def takes(cls, *kinds: pa.DataType) -> bool:
        return len(kinds) == 1 and bool(pa.types.is_floating(kinds[0]))


class FloatSum(_OverFloats):
    """The double nearest to the exact sum."""

    def value(self, *found: Any) -> pa.Array:
        count, sums = found
        return masked(sums, count > 0, self.type)


class FloatAverage(_OverFloats):
    """That sum divided by the count."""

    def value(self, *found: Any) -> pa.Array:
        count, sums = found
        return masked(sums / np.maximum(count, 1), count > 0, self.type)

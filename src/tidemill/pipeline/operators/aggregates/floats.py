"""Exact sums of floats and of their products: rows may come and go in any order and leave no trace.

The exact sum of a group is kept as limbs (see `rounding`): a double is spread over three of them at most, a
product of two over five, and its weight times each is added up. Where there are NaN or infinities, their
counts decide.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
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
from tidemill.pipeline.operators.aggregates.products import Large
from tidemill.pipeline.operators.aggregates.rounding import Floats, nearest
from tidemill.pipeline.plan.node import AggregateCall
from tidemill.pipeline.zset import Groups, multiply_checked, sum_groups
from tidemill.pipeline.zset.hashing import fixed_values
from tidemill.pipeline.zset.value import Mask, Weights

_NAN, _PLUS, _MINUS = -1, -2, -3
"""Limbs that are counts of values that are not finite."""

_LOWEST = _MINUS
_SPAN = 80  # more than there are limbs, for each factor
_MANTISSA = np.uint64((1 << 52) - 1)
_LOW = np.uint64(0xFFFF_FFFF)
_BITS = np.uint64(32)
_CHUNK_GROUPS = 16_384
_NOTHING = np.zeros(0, np.int64)
Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Superaccumulator(Detail):
    """The exact sum of the products of float columns: rows are (group, limb), the weight is the limb's value.

    Products with a factor that is not finite are left out: the sum of that column alone knows of it.
    """

    chosen: Chosen
    factors: tuple[int, ...]

    def fields(self, schema: pa.Schema) -> list[pa.Field]:  # noqa: ARG002
        return [pa.field("limb", pa.int32())]

    def combine(
        self, rows: pa.RecordBatch, weights: Weights, groups: Groups
    ) -> tuple[Integers, list[pa.Array], Weights]:
        factors = {column: fixed_values(rows.column(column)).astype(np.float64) for column in self.factors}
        mask = self.chosen.mask(rows)
        used = np.ones(len(weights), np.bool_) if mask is None else mask
        for values in factors.values():
            used = used & (values != 0)
            if len(self.factors) > 1:
                used &= np.isfinite(values)
        number = np.repeat(np.arange(len(groups)), np.diff(np.append(groups.starts, len(groups.order))))
        kept = np.flatnonzero(used[groups.order])
        order = groups.order[kept]
        lowest, amounts = spread([factors[column][order] for column in self.factors], weights[order])
        limbs = _limbs_within(lowest, len(amounts))
        found = [_sum_limb(limb, number[kept], lowest, amounts) for limb in limbs]
        group, limb, total = (np.concatenate(parts) for parts in zip((_NOTHING,) * 3, *found, strict=True))
        return group, [pa.array(limb, pa.int32())], total


def spread(factors: Sequence[Floats], weights: Weights) -> tuple[Integers, list[Weights]]:
    """For each product the lowest of its limbs, and what it adds to that one and to those above.

    A single factor may be NaN or infinite.
    """
    mantissa, shift = _parts(factors[0])
    product, negative = [mantissa & _LOW, mantissa >> _BITS], factors[0] < 0
    for values in factors[1:]:
        mantissa, more = _parts(values)
        product, shift, negative = _times(product, mantissa), shift + more, negative ^ (values < 0)
    limbs = _shifted(product, shift & np.uint64(31))
    lowest = (shift >> np.uint64(5)).astype(np.int64)
    special = ~np.isfinite(factors[0])
    if special.any():
        (values,) = factors
        lowest = np.where(
            special, np.where(np.isnan(values), _NAN, np.where(negative, _MINUS, _PLUS)), lowest
        )
        limbs = [np.where(special, np.uint64(place == 0), limb) for place, limb in enumerate(limbs)]
        negative = negative & ~special
    signed = np.where(negative, -weights, weights)
    return lowest, [multiply_checked(limb.view(np.int64), signed) for limb in limbs]


def _parts(values: Floats) -> tuple[Words, Words]:
    """The mantissa of each as an integer, and by how much to shift it, in multiples of the least double."""
    bits = values.view(np.uint64)
    exponent = (bits >> np.uint64(52)) & np.uint64(0x7FF)
    normal = exponent > 0
    return (bits & _MANTISSA) | (normal.astype(np.uint64) << np.uint64(52)), exponent - normal


def _times(product: list[Words], mantissa: Words) -> list[Words]:
    """Limbs of 32 bits, times an integer of up to 64."""
    found = [np.zeros(len(mantissa), np.uint64) for _ in range(len(product) + 2)]
    for place, part in enumerate((mantissa & _LOW, mantissa >> _BITS)):
        carried = np.zeros(len(mantissa), np.uint64)
        for at, limb in enumerate(product, place):
            total = limb * part + found[at] + carried  # at most 2^64 - 1
            found[at], carried = total & _LOW, total >> _BITS
        found[place + len(product)] += carried
    return found


def _shifted(limbs: list[Words], bits: Words) -> list[Words]:
    """The same shifted left by fewer than 32 bits, with one more limb at most."""
    above = [(limb << bits) & _LOW for limb in limbs]
    below = [limb >> (_BITS - bits) for limb in limbs]
    return [above[0], *(high | low for high, low in zip(above[1:], below, strict=False)), below[-1]]


def _limbs_within(lowest: Integers, count: int) -> Integers:
    """All limbs that have something added, given the lowest of each value, which has so many."""
    used = np.zeros(_SPAN * count, np.bool_)
    used[lowest - _LOWEST] = True
    finite = used.copy()
    finite[:-_LOWEST] = False
    for above in range(1, count):
        used[above:] |= finite[:-above]
    return np.flatnonzero(used) + _LOWEST


def _sum_limb(
    limb: int, number: Integers, lowest: Integers, amounts: list[Weights]
) -> tuple[Integers, Integers, Weights]:
    """What is added to one limb, for each group that adds something: its number, the limb, the sum."""
    picked = np.flatnonzero(
        (lowest <= limb) & (lowest >= (limb if limb < 0 else max(limb - len(amounts) + 1, 0)))
    )
    above = limb - lowest[picked]
    added = np.choose(above, [amount[picked] for amount in amounts])
    starts = stretches(number[picked])
    sums = sum_groups(added, starts)
    nonzero = sums != 0
    return number[picked[starts]][nonzero], np.full(nonzero.sum(), limb), sums[nonzero]


@dataclass(frozen=True, slots=True)
class ExactSum(Looked):
    """The exact sum of each group."""

    detail: Superaccumulator

    def read(self, spine: Any, groups: Touched, *, before: bool) -> "Sums":
        matches = spine.lookup(groups.keys, groups.hashes, before=before)
        limb = fixed_values(matches.found.rows.column(groups.keys.num_columns)).astype(np.int64)
        span = _SPAN * len(self.detail.factors)
        place = matches.probe * span + (limb - _LOWEST)
        order = np.argsort(place, kind="stable")
        starts = stretches(place[order])
        weights = sum_groups(matches.found.weights[order], starts)
        return Sums(place[order[starts]], weights, len(groups), span)


@dataclass(frozen=True, eq=False)
class Sums:
    """So many exact sums. `place` ascends: it says which sum, and which limb of it, a weight is."""

    place: Integers
    weights: Weights
    count: int
    span: int

    @cached_property
    def rounded(self) -> Floats:
        """The double nearest to each; NaN or infinite as its addends say."""
        sums = np.zeros(self.count)
        for chosen in self.chunks(self.count):
            minus, plus, nan = self.special(chosen)
            large = self.large(chosen)
            found = nearest(large.limbs, large.first)
            found[plus] = np.inf
            found[minus] = -np.inf
            found[nan | (plus & minus)] = np.nan
            sums[chosen] = found
        return sums

    @staticmethod
    def chunks(count: int) -> Iterator[slice]:
        """Ranges of sums that are best looked at together."""
        return (slice(first, min(first + _CHUNK_GROUPS, count)) for first in range(0, count, _CHUNK_GROUPS))

    def large(self, chosen: slice) -> Large:
        """Some of the sums, without what is not finite."""
        group, limb, weights = self._of(chosen)
        finite = limb >= 0
        first, last = (limb[finite].min(), limb[finite].max()) if finite.any() else (0, 0)
        limbs = np.zeros((last - first + 1, chosen.stop - chosen.start), np.int64)
        limbs[limb[finite] - first, group[finite]] = weights[finite]
        return Large(limbs, int(first))

    def special(self, chosen: slice) -> Mask:
        """Which of them have minus infinity, infinity, NaN: shape (3, sums)."""
        group, limb, weights = self._of(chosen)
        there = np.zeros((-_LOWEST, chosen.stop - chosen.start), np.bool_)
        codes = limb < 0
        there[limb[codes] - _LOWEST, group[codes]] = weights[codes] > 0
        return there

    def _of(self, chosen: slice) -> tuple[Integers, Integers, Weights]:
        low, high = np.searchsorted(self.place, (chosen.start * self.span, chosen.stop * self.span))
        group, limb = np.divmod(self.place[low:high], self.span)
        return group - chosen.start, limb + _LOWEST, self.weights[low:high]


class _OverFloats(Function):
    def __init__(self, call: AggregateCall, arguments: Sequence[pa.Field]) -> None:
        super().__init__(call, arguments)
        self.measures = (Rows(self.counted), ExactSum(Superaccumulator(self.chosen, call.columns)))

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

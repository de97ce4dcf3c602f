"""Aggregates that add up: over a frame they are the difference of two running totals, which is exact.

Running totals may wrap around; their difference does not, as that of a frame fits.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.pipeline.operators.aggregates.doubles import Doubles, spread
from tidemill.pipeline.operators.aggregates.floats import FloatAverage, FloatSum
from tidemill.pipeline.operators.aggregates.measure import Counters, ExactSum, Function, Integers, Measure
from tidemill.pipeline.operators.aggregates.rounding import Floats, nearest
from tidemill.pipeline.operators.windows.frames import Frames
from tidemill.pipeline.operators.windows.partitions import Partitions
from tidemill.pipeline.zset.hashing import fixed_values

_LIMBS = 3  # of a double


@dataclass(frozen=True, slots=True, eq=False)
class Rounded:
    """What a function over floats asks of `aggregates.floats.Sums`."""

    rounded: Floats


def adds_up(function: Function) -> bool:
    """Whether all that the function asks for can be found so."""
    if isinstance(function, FloatSum | FloatAverage):
        return True
    return all(isinstance(measure, Counters) for measure in function.measures)


def total(rows: Partitions, frames: Frames, function: Function) -> pa.Array:
    """The value of the function for each frame."""
    return function.value(*(_measured(rows, frames, measure) for measure in function.measures))


def _measured(rows: Partitions, frames: Frames, measure: Measure) -> Any:
    if isinstance(measure, Counters):
        ones = np.ones(len(rows), np.int64)
        amounts = [ones if one is None else one for one in measure.amounts(rows.rows)]
        sums = [_sums(amount, frames) for amount in amounts]
        return sums[0] if len(sums) == 1 else np.stack(sums, axis=1)
    assert isinstance(measure, ExactSum)
    values = fixed_values(rows.rows.column(measure.factors[0])).astype(np.float64)
    mask = measure.chosen.mask(rows.rows)
    return Rounded(_float_sums(values if mask is None else np.where(mask, values, 0.0), frames))


def _sums(amounts: Integers, frames: Frames) -> Integers:
    running = np.append(0, np.cumsum(amounts))
    return np.asarray(running[frames.stop] - running[frames.start])


def _float_sums(values: Floats, frames: Frames) -> Floats:
    """The double nearest to the exact sum of each frame, limb by limb (see `aggregates.rounding`)."""
    finite = np.isfinite(values)
    exact = np.where(finite, values, 0.0)
    lowest, parts = spread([Doubles.of(exact)], np.ones(len(values), np.int64))
    used = np.unique(lowest[exact != 0])
    sums = np.zeros(len(values))
    if len(used):
        limbs = range(int(used[0]), int(used[-1]) + _LIMBS)
        sums = nearest(np.stack([_sums(_at(limb, lowest, parts), frames) for limb in limbs]), limbs[0])
    if not finite.all():
        odd = (np.isnan(values), values == np.inf, values == -np.inf)
        nan, plus, minus = (_sums(one.astype(np.int64), frames) > 0 for one in odd)
        sums[plus] = np.inf
        sums[minus] = -np.inf
        sums[nan | (plus & minus)] = np.nan
    return sums


def _at(limb: int, lowest: Integers, parts: Integers) -> Integers:
    """What each value adds to a limb."""
    above = limb - lowest
    return np.asarray(np.select([above == place for place in range(_LIMBS)], list(parts), 0))

"""From the exact sum of doubles to the nearest double.

A sum is a column of limbs: limb q counts multiples of 2^(32 q). Every double is a multiple of 2^-1074.
"""

import numpy as np
import numpy.typing as npt

from tidemill.pipeline.operators.aggregates.measure import Integers
from tidemill.pipeline.zset.value import Mask
from tidemill.pipeline.zset.weights import overflow

Floats = npt.NDArray[np.float64]

_LOW = np.int64(0xFFFF_FFFF)
_BITS = np.int64(32)
_ONE = np.uint64(1)
_HALF = np.uint64(0x400)
SPARE = 2  # limbs above, for what is carried out of the highest, and below, so that there are always three


def nearest(limbs: Integers, first: int) -> Floats:
    """The double nearest to each sum, ties to even; infinite where too large.

    `limbs` is of shape (limbs, sums), the lowest first, which is limb number `first`.
    """
    negative, carried = unsigned(limbs)
    magnitude = _round(carried, first - SPARE)
    return np.where(negative, -magnitude, magnitude)


def unsigned(limbs: Integers) -> tuple[Mask, Integers]:
    """Which sums are negative, and all without sign: limbs in [0, 2^32), with `SPARE` more at either end."""
    if limbs.size and not -(2**62) < limbs.min() <= limbs.max() < 2**62:
        raise overflow()  # a carry could wrap
    padded = np.zeros((len(limbs) + 2 * SPARE, limbs.shape[1]), np.int64)
    padded[SPARE:-SPARE] = limbs
    _carry(padded)
    negative = padded[-1] < 0
    if negative.any():
        padded = np.where(negative, -padded, padded)
        _carry(padded)
    return negative, padded


def _carry(limbs: Integers) -> None:
    """Bring all limbs but the highest into [0, 2^32); the highest has the sign."""
    for place in range(len(limbs) - 1):
        limbs[place + 1] += limbs[place] >> _BITS
        limbs[place] &= _LOW


def _round(limbs: Integers, first: int) -> Floats:
    """As `nearest` of sums that are not negative and whose limbs were carried."""
    filled = limbs != 0
    top = len(limbs) - 1 - np.argmax(filled[::-1], axis=0)
    sums = np.arange(limbs.shape[1])
    high, middle, low = (limbs[top - place, sums].view(np.uint64) for place in range(3))
    # The 64 bits from the highest that is set, and whether anything is set below.
    size = np.frexp(high.astype(np.float64))[1].astype(np.uint64)
    bits = (high << (np.uint64(64) - size)) | (middle << (np.uint64(32) - size)) | (low >> size)
    below = (np.argmax(filled, axis=0) < top - 2) | ((low & ((_ONE << size) - _ONE)) != 0)
    # Of these a double keeps 53. One below the normal range has fewer, but so have sums of doubles.
    kept, rest = bits >> np.uint64(11), bits & np.uint64(0x7FF)
    up = (rest > _HALF) | ((rest == _HALF) & (below | ((kept & _ONE) != 0)))
    exponent = 11 + size.astype(np.int64) + 32 * (first + top - 2)
    with np.errstate(over="ignore"):
        return np.asarray(np.ldexp((kept + up).astype(np.float64), exponent))

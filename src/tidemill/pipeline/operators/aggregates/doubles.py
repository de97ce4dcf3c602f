"""Doubles and products of them as limbs, which `rounding` brings back.

A double is spread over three limbs at most, a product of two over five, and so on.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidemill.pipeline.operators.aggregates.measure import Integers
from tidemill.pipeline.operators.aggregates.rounding import Floats
from tidemill.pipeline.zset import multiply_checked
from tidemill.pipeline.zset.value import Mask, Weights

Words = npt.NDArray[np.uint64]

_LEAST = 34  # limb -34 has the last bit of the least double
_BELOW = np.uint64(32 * _LEAST - 1074)  # so many bits of it lie below that
_MANTISSA = np.uint64((1 << 52) - 1)
_LOW = np.uint64(0xFFFF_FFFF)
_BITS = np.uint64(32)


@dataclass(frozen=True, slots=True, eq=False)
class Doubles:
    """Finite numbers: an integer each, and by how many bits it is to be shifted up from limb -34."""

    mantissa: Words
    shift: Words
    negative: Mask

    @classmethod
    def of(cls, values: Floats) -> "Doubles":
        bits = values.view(np.uint64)
        exponent = (bits >> np.uint64(52)) & np.uint64(0x7FF)
        normal = exponent > 0
        mantissa = (bits & _MANTISSA) | (normal.astype(np.uint64) << np.uint64(52))
        return cls(mantissa, exponent - normal + _BELOW, values < 0)


def spread(factors: Sequence[Doubles], weights: Weights) -> tuple[Integers, Weights]:
    """For each product the lowest of its limbs; and by limb, what it adds to that one and to those above.

    Raises `StepAborted` when a number does not fit.
    """
    one, *others = factors
    product, shift, negative = [one.mantissa & _LOW, one.mantissa >> _BITS], one.shift, one.negative
    for other in others:
        product, shift = _times(product, other.mantissa), shift + other.shift
        negative = negative ^ other.negative
    limbs = np.stack(_shifted(product, shift & np.uint64(31))).view(np.int64)
    lowest = (shift >> np.uint64(5)).astype(np.int64) - _LEAST * len(factors)
    return lowest, multiply_checked(limbs, np.where(negative, -weights, weights))


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

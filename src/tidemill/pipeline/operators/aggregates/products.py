"""Numbers of any size, as columns of limbs: exact sums of products are computed with them.

Limb q counts multiples of 2^(32 q). Limbs may have either sign and be larger than 32 bits.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidemill.pipeline.operators.aggregates.measure import Integers
from tidemill.pipeline.operators.aggregates.rounding import SPARE, Floats, nearest, unsigned
from tidemill.pipeline.zset.value import Mask

_LOW = np.uint64(0xFFFF_FFFF)
_BITS = np.uint64(32)


@dataclass(frozen=True, slots=True, eq=False)
class Large:
    """Numbers. `limbs` has the shape (limbs, numbers), the lowest first, which is limb `first`."""

    limbs: Integers
    first: int

    @classmethod
    def of(cls, values: Integers) -> "Large":
        """Numbers that are not negative."""
        return cls(np.stack([values & np.int64(_LOW), values >> np.int64(_BITS)]), 0)

    def __mul__(self, other: "Large") -> "Large":
        (minus, low, left), (other_minus, other_low, right) = self._unsigned(), other._unsigned()
        found = np.zeros((len(left) + len(right), left.shape[1]), np.uint64)
        for place, limb in enumerate(left):
            product = limb * right
            found[place : place + len(right)] += product & _LOW
            found[place + 1 : place + 1 + len(right)] += product >> _BITS
        limbs = found.view(np.int64)
        return Large(np.where(minus != other_minus, -limbs, limbs), low + other_low)

    def __add__(self, other: "Large") -> "Large":
        first = min(self.first, other.first)
        last = max(one.first + len(one.limbs) for one in (self, other))
        limbs = np.zeros((last - first, self.limbs.shape[1]), np.int64)
        for one in (self, other):
            start = one.first - first
            limbs[start : start + len(one.limbs)] += one.limbs
        return Large(limbs, first)

    def __sub__(self, other: "Large") -> "Large":
        return self + other.times(-1)

    def times(self, factor: int) -> "Large":
        """All of them times one small number."""
        return Large(self.limbs * factor, self.first)

    def rounded(self) -> Floats:
        """The double nearest to each number."""
        return nearest(self.limbs, self.first)

    def _unsigned(self) -> tuple[Mask, int, npt.NDArray[np.uint64]]:
        """Which are negative; the lowest limb that any has, and all limbs from there on, in 32 bits."""
        minus, limbs = unsigned(self.limbs)
        used = np.flatnonzero(limbs.any(axis=1))
        low, high = (int(used[0]), int(used[-1])) if len(used) else (0, 0)
        return minus, self.first - SPARE + low, limbs[low : high + 1].view(np.uint64)

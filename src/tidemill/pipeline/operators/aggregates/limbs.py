"""Integers of up to 128 bits as sums of 32-bit limbs, which can be weighted and added up in 64 bits.

Limbs but the highest lie in [-2^31, 2^31), so that small numbers of either sign have small limbs and sums of
many stay small. A number has exactly one such form: what cancels adds up to zeros.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.pipeline.operators.aggregates.measure import Counters, Integers
from tidemill.pipeline.zset import add_checked
from tidemill.pipeline.zset.hashing import fixed_values

Words = npt.NDArray[np.uint64]

_LOW = np.int64(0xFFFF_FFFF)
_HALF = np.int64(1 << 31)
_BITS = np.int64(32)


@dataclass(frozen=True, slots=True)
class Limbs(Counters):
    """The sum of an integer or decimal column (unscaled), limb by limb, the lowest first."""

    kind: pa.DataType

    @property
    def width(self) -> int:
        return limb_count(self.kind)

    def amounts(self, rows: pa.RecordBatch) -> list[Integers | None]:
        column, mask = rows.column(self.chosen.columns[0]), self.chosen.mask(rows)
        limbs = split(column)
        return [limb if mask is None else np.where(mask, limb, 0) for limb in limbs]


def limb_count(kind: pa.DataType) -> int:
    """How many limbs hold any value of the type."""
    if pa.types.is_decimal(kind):
        return 1 if kind.precision <= 9 else 2 if kind.precision <= 18 else 4
    return 2 if kind.bit_width == 64 else 1


def split(array: pa.Array) -> list[Integers]:
    """The limbs of each value, anything where NULL."""
    count, values = limb_count(array.type), fixed_values(array)
    if not pa.types.is_decimal(array.type):
        low = values.astype(np.int64)
        return [low] if count == 1 else _balanced([low & _LOW, low >> _BITS])
    low, high = values[:, 0].view(np.int64), values[:, 1].view(np.int64)
    if count == 1:
        return [low]
    words = [low & _LOW, low >> _BITS]
    if count == 4:
        words = [low & _LOW, (low >> _BITS) & _LOW, high & _LOW, high >> _BITS]
    return _balanced(words)


def _balanced(limbs: list[Integers]) -> list[Integers]:
    """Bring all but the highest from [0, 2^32) to [-2^31, 2^31)."""
    for place in range(len(limbs) - 1):
        carry = (limbs[place] + _HALF) >> _BITS
        limbs[place] = limbs[place] - (carry << _BITS)
        limbs[place + 1] = limbs[place + 1] + carry
    return limbs


def wide(sums: Integers) -> Words:
    """The numbers in 256 bits: four words each, the lowest first, from sums of limbs, (n,) or (n, width)."""
    columns = [sums] if sums.ndim == 1 else list(sums.T)
    limbs, carry = [], np.zeros(len(sums), np.int64)
    for place in range(4):
        total = add_checked(columns[place], carry) if place < len(columns) else carry
        limbs.append(total & _LOW)
        carry = total >> _BITS
    words = [limbs[0] | (limbs[1] << _BITS), limbs[2] | (limbs[3] << _BITS), carry, carry >> np.int64(63)]
    return np.stack(words, axis=1).view(np.uint64)


def fits_64(words: Words) -> npt.NDArray[np.bool_]:
    """Which of the wide numbers are signed integers of 64 bits."""
    sign = words.view(np.int64)[:, 0] >> np.int64(63)
    return np.asarray((words.view(np.int64)[:, 1:] == sign[:, None]).all(axis=1))

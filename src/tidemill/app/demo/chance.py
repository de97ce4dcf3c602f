"""Chance that is the same each time: numbers that look random, by row and by what they are for."""

from zlib import crc32

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]

_WORD = 2**64 - 1
_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


def chance(numbers: Numbers, purpose: str, below: int) -> Numbers:
    """For each number one from 0 to `below` - 1, another for each purpose."""
    salt = np.uint64((crc32(purpose.encode()) * 0x9FB21C651E98DF25) & _WORD)
    word = (numbers.astype(np.uint64) + salt) * _STEP
    for shift, factor in _MIX:
        word = (word ^ (word >> np.uint64(shift))) * np.uint64(factor)
    word ^= word >> np.uint64(31)
    return (word % np.uint64(below)).astype(np.int64)


def one_in(numbers: Numbers, purpose: str, many: int) -> npt.NDArray[np.bool_]:
    """Which of the numbers are hit."""
    return np.asarray(chance(numbers, purpose, many) == 0)

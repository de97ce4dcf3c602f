"""Random values by number: seed, purpose and number say what the value is, in whatever order it is asked for.

Numbers are mixed as splitmix64 does it, on whole columns. Integers wrap around, which is what mixing wants.
"""

import zlib
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

Numbers: TypeAlias = Any
"""An array of numpy, one value for each event."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_WORD = 8
_BYTES = np.arange(256)
_LETTERS = (_BYTES * 26 // 256 + ord("a")).astype(np.uint8)
_SPACES = 256 // 13
_WORDS = np.where(_BYTES < _SPACES, ord(" "), (_BYTES - _SPACES) * 26 // (256 - _SPACES) + ord("a")).astype(
    np.uint8
)


@dataclass(frozen=True, slots=True)
class Chance:
    """Random values for a seed. `what` names the purpose, so that columns do not follow each other."""

    seed: int

    def bits(self, what: str, at: Numbers) -> Numbers:
        """64 random bits for each number."""
        salt = np.full(1, zlib.crc32(f"{self.seed} {what}".encode()), np.uint64) * _GOLDEN
        return _mixed(_mixed(at.astype(np.uint64)) + salt)

    def below(self, what: str, at: Numbers, limit: int | Numbers) -> Numbers:
        """An integer from 0 to below the limit, which is less than 2**32."""
        high = self.bits(what, at) >> np.uint64(32)
        return ((high * np.asarray(limit, np.uint64)) >> np.uint64(32)).astype(np.int64)

    def fraction(self, what: str, at: Numbers) -> Numbers:
        """A float from 0 to below 1."""
        return (self.bits(what, at) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def choice(self, what: str, at: Numbers, options: pa.Array) -> pa.Array:
        """One of the options."""
        return options.take(pa.array(self.below(what, at, len(options))))

    def text(self, what: str, at: Numbers, lengths: Numbers, *, spaces: bool = False) -> pa.Array:
        """Small letters, so many for each number; one in thirteen is a space if they may be."""
        words = -(-lengths // _WORD)
        row = np.repeat(np.arange(len(at)), words)
        within = np.arange(len(row)) - np.repeat(np.cumsum(words) - words, words)
        bits = _mixed(self.bits(what, at)[row] + within.astype(np.uint64) * _GOLDEN)
        signs = (_WORDS if spaces else _LETTERS)[bits.view(np.uint8)].reshape(-1, _WORD)
        kept = within[:, None] * _WORD + np.arange(_WORD) < lengths[row][:, None]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(signs[kept])]
        return pa.Array.from_buffers(pa.string(), len(at), buffers)


def _mixed(values: Numbers) -> Numbers:
    values = (values ^ (values >> np.uint64(30))) * _FIRST
    values = (values ^ (values >> np.uint64(27))) * _SECOND
    return values ^ (values >> np.uint64(31))

"""Text as code points: where each begins in the bytes, and cutting there, without a loop over rows."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidemill.pipeline.expressions.kernels import Numbers


@dataclass(frozen=True, slots=True)
class Points:
    """An array of text, its bytes laid open."""

    bytes: Numbers
    offsets: Numbers
    """Where each row begins in the bytes, and where the last ends."""
    starts: Numbers
    """Where each code point begins in the bytes, and where the last ends."""
    first: Numbers
    """The number of each row's first code point, and one past the last row's last."""

    def counts(self) -> Numbers:
        return np.diff(self.first)

    def numbers_at(self, places: Numbers) -> Numbers:
        """Which code point begins at each of these places in the bytes."""
        return np.searchsorted(self.starts, places)


def points(text: pa.Array) -> Points:
    _, offset_buffer, data = text.buffers()
    if offset_buffer is None:
        offsets = np.zeros(1, np.int64)
    else:
        offsets = np.frombuffer(offset_buffer, np.int64, len(text) + 1, text.offset * 8)
    codes = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)[: offsets[-1]]
    leading = np.flatnonzero((codes & 0xC0) != 0x80)
    starts = np.append(leading, len(codes))
    return Points(codes, offsets, starts, np.searchsorted(starts, offsets))


def cut(text: pa.Array, source: Points, begin: Numbers, end: Numbers, missing: Numbers | None) -> pa.Array:
    """Of each row the code points from `begin` to before `end`, counted in the row; both lie within it."""
    base = source.first[:-1]
    left, right = source.starts[base + begin], source.starts[base + end]
    sizes = right - left
    if missing is not None:
        sizes = np.where(missing, 0, sizes)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    places = np.repeat(left - offsets[:-1], sizes) + np.arange(offsets[-1])
    valid = None if missing is None else pa.array(~missing).buffers()[1]
    data = pa.py_buffer(source.bytes[places])
    return pa.Array.from_buffers(text.type, len(text), [valid, pa.py_buffer(offsets.astype(np.int64)), data])

"""A 64-bit hash for each row, over any columns of any type.

It decides the shard of a row and the order of runs, and so it lies in files: it must never change. Rows
that are equal have equal hashes, whatever the width of their integers and floats.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Hashes = npt.NDArray[np.uint64]

SHARDS = 64
_SHARD_SHIFT = np.uint64(58)

_START = np.uint64(0x9E3779B97F4A7C15)
_NULL = np.uint64(0x6A09E667F3BCC908)
_STEP = np.uint64(0xD6E8FEB86659FD93)
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)
_FEW = 1 << 13
_WORDS = 32
"""Longer text is hashed by the word up to here, the rest of it by a library."""


def hash_rows(rows: pa.RecordBatch, columns: Sequence[int] | None = None) -> Hashes:
    """The hash of each row over these columns, in this order (by default, all)."""
    chosen = range(rows.num_columns) if columns is None else columns
    hashes = np.full(rows.num_rows, _START)
    for index in chosen:
        hashes = _mix(hashes * _STEP ^ hash_array(rows.column(index)))
    return hashes


def shard_of(hashes: Hashes) -> npt.NDArray[np.int64]:
    """The shard that each hash belongs to: hashes in order have their shards in order."""
    return (hashes >> _SHARD_SHIFT).astype(np.int64)


def ascending(hashes: Hashes) -> npt.NDArray[np.int64]:
    """The indices that put hashes in ascending order; equal ones stay as they are."""
    if len(hashes) < _FEW or np.count_nonzero(hashes[1:] < hashes[:-1]) < len(hashes) // 16:
        return np.argsort(hashes, kind="stable")  # a merge sort, quick on what is nearly in order
    # By the upper half as two digits: a third of the time, and it rarely leaves anything to be sorted.
    order = np.argsort((hashes >> np.uint64(32)).astype(np.uint16), kind="stable")
    upper = (hashes >> np.uint64(48)).astype(np.uint16)
    order = order[np.argsort(upper[order], kind="stable")]
    in_order = hashes[order]
    if (in_order[1:] < in_order[:-1]).any():
        order = order[np.argsort(in_order, kind="stable")]
    return order


def hash_array(array: pa.Array) -> Hashes:
    """The hash of each value."""
    if not len(array):
        return np.zeros(0, np.uint64)
    if pa.types.is_null(array.type):
        return np.full(len(array), _NULL)
    hashes = _hash_values(array)
    if array.null_count:
        hashes[array.is_null().to_numpy(zero_copy_only=False)] = _NULL
    return hashes


def _hash_values(array: pa.Array) -> Hashes:
    """As `hash_array`; what it says of a NULL means nothing."""
    kind = array.type
    if pa.types.is_boolean(kind):
        return _mix(fixed_values(array.cast(pa.uint8())).astype(np.uint64))
    if pa.types.is_floating(kind):
        values = fixed_values(array).astype(np.float64) + 0.0  # -0.0 becomes 0.0
        values[np.isnan(values)] = np.nan
        return _mix(values.view(np.uint64))
    if pa.types.is_decimal(kind):
        words = fixed_values(array)
        return _mix(words[:, 0] ^ _mix(words[:, 1].copy()))
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return _hash_text(array)
    if pa.types.is_struct(kind):
        hashes = np.full(len(array), _START)
        for child in array.flatten():
            hashes = _mix(hashes * _STEP ^ hash_array(child))
        return hashes
    if pa.types.is_map(kind):
        return _hash_list(map_entries(array))
    if pa.types.is_large_list(kind):
        return _hash_list(array)
    return _mix(fixed_values(array).astype(np.int64).view(np.uint64))


def _mix(words: Hashes) -> Hashes:
    """Spread every bit over all bits, in place of a fresh array."""
    words = words ^ (words >> np.uint64(30))
    words *= _M1
    words ^= words >> np.uint64(27)
    words *= _M2
    words ^= words >> np.uint64(31)
    return words


def _hash_list(array: pa.Array) -> Hashes:
    lengths = list_lengths(array)
    hashes = _mix(lengths.astype(np.uint64))
    elements = hash_array(array.flatten())
    if len(elements):
        starts = np.cumsum(lengths) - lengths
        position = (np.arange(len(elements)) - np.repeat(starts, lengths)).astype(np.uint64)
        filled = np.flatnonzero(lengths)
        hashes[filled] ^= np.add.reduceat(_mix(elements + position * _STEP), starts[filled])
    return _mix(hashes)


def _hash_text(array: pa.Array) -> Hashes:
    """Eight bytes at a time for all values at once."""
    _, offset_buffer, data = array.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[array.offset : array.offset + len(array) + 1]
    first, lengths = offsets[:-1] - offsets[0], np.diff(offsets)
    size = int(offsets[-1] - offsets[0])
    padded = np.zeros(size + 8, np.uint8)  # so that a word may be read at any byte
    if size:
        padded[:size] = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    words = np.ndarray((size + 1,), np.uint64, padded.data, strides=(1,))
    hashes = _mix(lengths.astype(np.uint64) ^ _START)
    active = np.flatnonzero(lengths)
    for word in range(_WORDS):
        if not len(active):
            return hashes
        rest = np.minimum(lengths[active] - 8 * word, 8).astype(np.uint64)
        unused = (np.uint64(8) - rest) * np.uint64(8)
        found = words[first[active] + 8 * word] << unused  # the bytes of the next value fall out
        hashes[active] = _mix(hashes[active] * _STEP ^ found)
        active = active[lengths[active] > 8 * (word + 1)]
    for index in active:
        rest_bytes = padded[first[index] + 8 * _WORDS : first[index] + lengths[index]]
        digest = hashlib.blake2b(rest_bytes.data, digest_size=8).digest()
        hashes[index] ^= np.uint64(int.from_bytes(digest, "little"))
    return hashes


def fixed_values(array: pa.Array) -> npt.NDArray[Any]:
    """The values of a type of fixed width without a copy, any bits where NULL; decimals as two words each."""
    width = array.type.bit_width // 8
    if pa.types.is_decimal(array.type):
        words = np.frombuffer(array.buffers()[1], np.uint64).reshape(-1, 2)
        return words[array.offset : array.offset + len(array)]
    if pa.types.is_floating(array.type):
        kind = f"f{width}"
    else:
        kind = f"i{width}" if not pa.types.is_unsigned_integer(array.type) else f"u{width}"
    return np.frombuffer(array.buffers()[1], kind)[array.offset : array.offset + len(array)]


def list_lengths(array: pa.Array) -> npt.NDArray[np.int64]:
    """How many elements each list has; none where it is NULL."""
    lengths = pc.list_value_length(array)
    if lengths.null_count:
        lengths = lengths.fill_null(0)
    return np.asarray(lengths.to_numpy(zero_copy_only=False), np.int64)


def map_entries(array: pa.Array) -> pa.Array:
    """The same values as lists of structs of key and value."""
    offsets = pa.array(np.asarray(array.offsets).astype(np.int64))
    entries = pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"])
    mask = array.is_null() if array.null_count else None
    return pa.LargeListArray.from_arrays(offsets, entries, mask=mask)

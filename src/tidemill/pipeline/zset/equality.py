"""Which rows are equal, value by value, as Spark's GROUP BY sees it."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.pipeline.zset.hashing import fixed_values, list_lengths, map_entries

Mask = npt.NDArray[np.bool_]


def equal_rows(
    left: pa.RecordBatch,
    right: pa.RecordBatch,
    left_columns: Sequence[int] | None = None,
    right_columns: Sequence[int] | None = None,
) -> Mask:
    """Whether row i of the one equals row i of the other in these columns (by default, all)."""
    chosen_left = range(left.num_columns) if left_columns is None else left_columns
    chosen_right = range(right.num_columns) if right_columns is None else right_columns
    equal = np.ones(left.num_rows, np.bool_)
    for one, other in zip(chosen_left, chosen_right, strict=True):
        equal &= equal_arrays(left.column(one), right.column(other))
    return equal


def equal_arrays(left: pa.Array, right: pa.Array) -> Mask:
    """Whether value i of the one equals value i of the other; both are of one type and length."""
    if not len(left):
        return np.ones(0, np.bool_)
    if pa.types.is_null(left.type):
        return np.ones(len(left), np.bool_)
    if not left.null_count and not right.null_count:
        return _equal_values(left, right)
    valid_left, valid_right = valid_mask(left), valid_mask(right)
    return np.asarray((valid_left == valid_right) & (~valid_left | _equal_values(left, right)))


def null_mask(rows: pa.RecordBatch, columns: Sequence[int]) -> Mask:
    """Which rows have a NULL in any of these columns."""
    found = np.zeros(rows.num_rows, np.bool_)
    for index in columns:
        if rows.column(index).null_count:
            found |= ~valid_mask(rows.column(index))
    return found


def valid_mask(array: pa.Array) -> Mask:
    mask: Mask = array.is_valid().to_numpy(zero_copy_only=False)
    return mask


def _equal_values(left: pa.Array, right: pa.Array) -> Mask:
    """As `equal_arrays`; what it says where either is NULL means nothing."""
    kind = left.type
    if pa.types.is_struct(kind):
        parts = zip(left.flatten(), right.flatten(), strict=True)
        equal = np.ones(len(left), np.bool_)
        for one, other in parts:
            equal &= equal_arrays(one, other)
        return equal
    if pa.types.is_map(kind):
        return _equal_lists(map_entries(left), map_entries(right))
    if pa.types.is_large_list(kind):
        return _equal_lists(left, right)
    if pa.types.is_floating(kind):
        one, other = fixed_values(left), fixed_values(right)
        return np.asarray((one == other) | (np.isnan(one) & np.isnan(other)))
    if pa.types.is_primitive(kind) and not pa.types.is_boolean(kind) and not pa.types.is_decimal(kind):
        return np.asarray(fixed_values(left) == fixed_values(right))
    equal_or_null = pc.equal(left, right)
    if equal_or_null.null_count:
        equal_or_null = equal_or_null.fill_null(False)
    result: Mask = equal_or_null.to_numpy(zero_copy_only=False)
    return result


def _equal_lists(left: pa.Array, right: pa.Array) -> Mask:
    lengths = list_lengths(left)
    equal = lengths == list_lengths(right)
    # Only pairs of the same length can be compared element by element; a NULL is of length 0.
    same = np.flatnonzero(equal & (lengths > 0))
    if len(same):
        indices = pa.array(same)
        elements = equal_arrays(left.take(indices).flatten(), right.take(indices).flatten())
        starts = np.cumsum(lengths[same]) - lengths[same]
        equal[same] = np.logical_and.reduceat(elements, starts)
    return np.asarray(equal)

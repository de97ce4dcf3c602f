"""The columns of a group as Spark shows them: 0.0 for -0.0 and one NaN for all, also in arrays and structs.

Maps are left as they are: tables bring theirs in that form.
"""

import numpy as np
import pyarrow as pa

from tidemill.pipeline.zset.hashing import fixed_values, list_lengths


def has_floats(kind: pa.DataType) -> bool:
    """Whether values of the type may need to be normalised."""
    if pa.types.is_large_list(kind) or pa.types.is_struct(kind):
        return any(has_floats(kind.field(index).type) for index in range(kind.num_fields))
    return bool(pa.types.is_floating(kind))


def normalised(array: pa.Array) -> pa.Array:
    """The same values, each in the form that stands for all that are equal to it."""
    kind = array.type
    if not len(array) or not has_floats(kind):
        return array
    nulls = array.is_null() if array.null_count else None
    if pa.types.is_struct(kind):
        parts = [normalised(part) for part in array.flatten()]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=nulls)
    if pa.types.is_large_list(kind):
        offsets = pa.array(np.append(0, np.cumsum(list_lengths(array))))
        return pa.LargeListArray.from_arrays(offsets, normalised(array.flatten()), kind, mask=nulls)
    values = fixed_values(array)
    if not (np.isnan(values) | (np.signbit(values) & (values == 0))).any():
        return array
    values = values + values.dtype.type(0)  # -0.0 becomes 0.0
    values[np.isnan(values)] = np.nan
    return pa.array(values, kind, mask=None if nulls is None else nulls.to_numpy(zero_copy_only=False))

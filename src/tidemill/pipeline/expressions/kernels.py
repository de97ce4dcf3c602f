"""What all kernels are made of: numpy views of Arrow arrays, and Spark's errors.

A kernel sees rows in bulk. Under a NULL an array holds any value, so a kernel that judges values masks
those rows first.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.pipeline.errors import StepAborted
from tidemill.pipeline.expressions.evaluation import Value

Numbers: TypeAlias = Any
"""A numpy array; numpy's own types lose themselves in arithmetic."""
_NUMPY: dict[pa.DataType, type[Any]] = {
    pa.int8(): np.int8,
    pa.int16(): np.int16,
    pa.int32(): np.int32,
    pa.int64(): np.int64,
    pa.float32(): np.float32,
    pa.float64(): np.float64,
    pa.date32(): np.int32,
    pa.timestamp("us"): np.int64,
    pa.timestamp("us", "UTC"): np.int64,
}
FALSE = pa.scalar(False)


def abort(condition: str, message: str) -> StepAborted:
    """The error that Spark would raise: the condition is its own, the message says the same in short."""
    return StepAborted(f"[{condition}] {message}")


def dtype(kind: pa.DataType) -> type[Any]:
    """How numpy holds the values of a fixed-width type."""
    return _NUMPY[kind]


def numbers(value: Value) -> Numbers:
    """The values without regard to NULL, uncopied; of a scalar, an array of one."""
    if isinstance(value, pa.Scalar):
        value = pa.repeat(value, 1)
    kind = _NUMPY[value.type]
    data = value.buffers()[1]
    if data is None:
        return np.empty(0, kind)
    return np.frombuffer(data, kind, len(value), value.offset * np.dtype(kind).itemsize)


def nulls(*values: Value) -> Numbers | None:
    """Where any of them is NULL; None if nowhere."""
    found = None
    for value in values:
        if isinstance(value, pa.Array) and value.null_count:
            here = value.is_null().to_numpy(zero_copy_only=False)
            found = here if found is None else found | here
    return found


def array(values: Numbers, kind: pa.DataType, missing: Numbers | None) -> pa.Array:
    """An Arrow array of that type from numpy values that have its width already."""
    if pa.types.is_temporal(kind):
        width = pa.int32() if kind == pa.date32() else pa.int64()
        return pa.array(values, width, mask=missing).view(kind)
    return pa.array(values, kind, mask=missing)


def any_valid(flags: Numbers, missing: Numbers | None) -> bool:
    """Whether a flag is set in a row that is not NULL."""
    return bool(flags.any() if missing is None else (flags & ~missing).any())


def either(missing: Numbers | None, flags: Numbers) -> Numbers:
    return flags if missing is None else missing | flags


def refuse_or_null(
    mode: str, wrong: Numbers, missing: Numbers | None, error: Callable[[], StepAborted]
) -> Numbers | None:
    """What becomes of rows that have no result: ANSI raises, otherwise they are NULL. Gives the NULL rows."""
    if not any_valid(wrong, missing):
        return missing
    if mode == "ANSI":
        raise error()
    return either(missing, wrong)


def null_where(flags: pa.Array, values: pa.Array) -> pa.Array:
    return pc.if_else(flags, pa.scalar(None, values.type), values)

"""Structs and arrays: made, and taken apart."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.pipeline.errors import StepAborted
from tidemill.pipeline.expressions.evaluation import Kernel, Value, array_of
from tidemill.pipeline.expressions.kernels import Numbers, abort, array, nulls, numbers, refuse_or_null
from tidemill.pipeline.plan.expression import Call


def _outside() -> StepAborted:
    return abort("INVALID_ARRAY_INDEX", "The index is out of bounds.")


def get_field(call: Call) -> Kernel:
    """GetStructField. Options: `ordinal`, from 0."""
    ordinal = int(call.options["ordinal"])
    return lambda value: pc.struct_field(value, [ordinal])


def make_struct(call: Call) -> Kernel:
    """CreateNamedStruct(name, value, name, value, ...)."""
    fields = list(call.type)

    def kernel(*arguments: Value) -> pa.Array:
        rows = _rows(arguments)
        values = [
            array_of(value, rows).cast(field.type)
            for value, field in zip(arguments[1::2], fields, strict=True)
        ]
        return pa.StructArray.from_arrays(values, fields=fields)

    return kernel


def make_array(call: Call) -> Kernel:
    """CreateArray(element, ...)."""
    element = call.type.value_type

    def kernel(*arguments: Value) -> pa.Array:
        rows, width = _rows(arguments), len(arguments)
        columns = pa.concat_arrays([array_of(value, rows).cast(element) for value in arguments])
        by_row = np.arange(rows * width).reshape(width, rows).T.ravel()
        offsets = pa.array(np.arange(rows + 1) * width)
        return pa.LargeListArray.from_arrays(offsets, columns.take(pa.array(by_row)), type=call.type)

    return kernel


def _rows(arguments: tuple[Value, ...]) -> int:
    return next(len(value) for value in arguments if isinstance(value, pa.Array))


def get_item(call: Call) -> Kernel:
    """GetArrayItem(array, index from 0). Options: `mode`, ANSI raises out of bounds, LEGACY gives NULL."""
    mode = call.options["mode"]

    def kernel(value: Value, index: Value) -> pa.Array:
        value = array_of(value, _rows((value, index)))
        starts, at = offsets(value), numbers(index).astype(np.int64)
        wrong = (at < 0) | (at >= np.diff(starts))
        missing = refuse_or_null(mode, wrong, nulls(value, index), _outside)
        places = starts[:-1] + at
        return value.values.take(array(places, pa.int64(), missing))

    return kernel


def offsets(value: pa.Array) -> Numbers:
    """Where each row's elements begin; the offsets of a map are narrower than those of an array."""
    width = np.int32 if pa.types.is_map(value.type) else np.int64
    data = value.buffers()[1]
    if data is None:
        return np.zeros(1, width)
    return np.frombuffer(data, width, len(value) + 1, value.offset * np.dtype(width).itemsize)


def size(call: Call) -> Kernel:
    """Size of an array or map. Options: `legacySizeOfNull`, if true then NULL has the size -1."""
    minus_one = pa.scalar(-1, pa.int32())
    if call.options["legacySizeOfNull"] == "true":
        return lambda value: pc.coalesce(_length(value), minus_one)
    return _length


def _length(value: pa.Array) -> pa.Array:
    return array(np.diff(offsets(value)).astype(np.int32), pa.int32(), nulls(value))

"""What is in arrays and maps, and text cut into arrays."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.pipeline.errors import StepAborted
from tidemill.pipeline.expressions.evaluation import Kernel, Value, array_of
from tidemill.pipeline.expressions.kernels import Numbers, abort, array, either, nulls, refuse_or_null
from tidemill.pipeline.expressions.nested import offsets
from tidemill.pipeline.plan.expression import Call, Literal

_SPECIAL = set("\\.[]{}()<>*+-=!?^$|&~#:")
"""What may mean more than itself in a regular expression."""


def _outside() -> StepAborted:
    return abort("INVALID_ARRAY_INDEX_IN_ELEMENT_AT", "The index is out of bounds.")


def element_at(call: Call) -> Kernel:
    """ElementAt(array, constant index from 1, or from -1 backwards). Options: `mode`, ANSI raises outside."""
    mode, at = call.options["mode"], _constant(call, 1)

    def kernel(value: Value, index: Value) -> pa.Array:
        value = array_of(value, 1 if isinstance(index, pa.Scalar) else len(index))
        starts = offsets(value).astype(np.int64)
        lengths = np.diff(starts)
        missing = refuse_or_null(mode, lengths < abs(at), nulls(value, index), _outside)
        if at == 0 and (missing is None or not missing.all()) and len(value):
            raise abort("INVALID_INDEX_OF_ZERO", "The index 0 is invalid: the first element has index 1.")
        places = starts[:-1] + (at - 1 if at > 0 else lengths + at)
        return value.values.take(array(places, pa.int64(), missing))

    return kernel


def within_reach(call: Call) -> bool:
    """Spark takes the least integer for an index that is there."""
    return bool(_constant(call, 1) > -(2**31))


def _constant(call: Call, position: int) -> Any:
    argument = call.arguments[position]
    assert isinstance(argument, Literal)
    return argument.value.as_py()


def _laid_open(value: pa.Array, *parts: pa.Array) -> tuple[Numbers, list[pa.Array]]:
    """For each element its row, and the parts of the elements in the same order."""
    starts = offsets(value)
    row = np.repeat(np.arange(len(value)), np.diff(starts))
    return row, [part.slice(starts[0], starts[-1] - starts[0]) for part in parts]


def _equal(elements: pa.Array, wanted: Value, row: Numbers) -> Numbers:
    """Which elements equal what is wanted in their row."""
    if isinstance(wanted, pa.Array):
        wanted = wanted.take(pa.array(row))
    return np.asarray(pc.equal(elements, wanted).fill_null(False))


def value_at(call: Call) -> Kernel:  # noqa: ARG001
    """GetMapValue(map, key) or ElementAt(map, key): NULL if there is no such key."""

    def kernel(value: Value, key: Value) -> pa.Array:
        value = array_of(value, 1 if isinstance(key, pa.Scalar) else len(key))
        row, [keys, items] = _laid_open(value, value.keys, value.items)
        found = np.flatnonzero(_equal(keys, key, row))
        place, missing = np.zeros(len(value), np.int64), np.ones(len(value), np.bool_)
        place[row[found]], missing[row[found]] = found, False
        return items.take(pa.array(place, mask=either(nulls(value, key), missing)))

    return kernel


def has_such_keys(call: Call) -> bool:
    return bool(call.arguments[0].type.key_type == call.arguments[1].type)


def contains(value: Value, wanted: Value) -> pa.Array:
    """ArrayContains(array, element): NULL if it is not found, but a NULL is."""
    value = array_of(value, 1 if isinstance(wanted, pa.Scalar) else len(wanted))
    row, [elements] = _laid_open(value, value.values)
    found, doubtful = np.zeros(len(value), np.bool_), np.zeros(len(value), np.bool_)
    found[row[_equal(elements, wanted, row)]] = True
    doubtful[row[np.asarray(elements.is_null())]] = True
    return pa.array(found, mask=either(nulls(value, wanted), doubtful & ~found))


def holds_such(call: Call) -> bool:
    return bool(call.arguments[0].type.value_type == call.arguments[1].type)


def _listed(call: Call, starts: Numbers, values: pa.Array, missing: Numbers | None) -> pa.Array:
    places = pa.array((starts - starts[0]).astype(np.int64))
    mask = None if missing is None else pa.array(missing)
    return pa.LargeListArray.from_arrays(places, values, type=call.type, mask=mask)


def map_keys(call: Call) -> Kernel:
    return lambda value: _listed(call, offsets(value), _laid_open(value, value.keys)[1][0], nulls(value))


def map_values(call: Call) -> Kernel:
    return lambda value: _listed(call, offsets(value), _laid_open(value, value.items)[1][0], nulls(value))


def map_entries(call: Call) -> Kernel:
    """MapEntries(map): an array of structs of key and value."""
    fields = list(call.type.value_type)

    def kernel(value: pa.Array) -> pa.Array:
        parts = _laid_open(value, value.keys, value.items)[1]
        return _listed(call, offsets(value), pa.StructArray.from_arrays(parts, fields=fields), nulls(value))

    return kernel


def split(call: Call) -> Kernel:
    """StringSplit(text, constant pattern, -1), where the pattern means just itself."""
    pattern = _constant(call, 1)

    def kernel(text: pa.Array, *_: Value) -> pa.Array:
        parts = pc.split_pattern(text, pattern)
        return _listed(call, np.asarray(parts.offsets), parts.flatten(), nulls(text))

    return kernel


def splits_plainly(call: Call) -> bool:
    pattern = _constant(call, 1)
    return bool(pattern) and not _SPECIAL.intersection(pattern) and _constant(call, 2) == -1

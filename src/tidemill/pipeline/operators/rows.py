"""Rows as a node must hand them on: under its schema, and none that cancel out."""

from collections.abc import Sequence

import pyarrow as pa

from tidemill.pipeline.zset import ZSet, consolidate
from tidemill.pipeline.zset.value import batch


def shaped(arrays: Sequence[pa.Array], schema: pa.Schema, length: int) -> pa.RecordBatch:
    """These columns, by position, under the schema's names and nullability; nothing is copied."""
    labelled = [_labelled(array, field.type, field.name) for array, field in zip(arrays, schema, strict=True)]
    return batch(labelled, schema, length)


def relabel(z: ZSet, schema: pa.Schema) -> ZSet:
    """The same Z-set under the schema's names and nullability."""
    if z.schema == schema:
        return z
    return z.with_rows(shaped(z.rows.columns, schema, len(z)))


def settled(z: ZSet) -> ZSet:
    """The same sum, without rows that cancel out: what comes next could raise because of them.

    Where all weights are positive it leaves equal rows apart, as a state adds them up anyway.
    """
    return z if (z.weights > 0).all() else consolidate(z)


def _labelled(array: pa.Array, kind: pa.DataType, name: str) -> pa.Array:
    if array.type == kind:
        return array
    if not pa.types.is_nested(kind):
        # Arrow would cast without a word, and hide that the plan and the kernel disagree.
        raise TypeError(f"column {name!r} is {array.type}, not {kind}")
    return array.view(kind)  # the same values; the parts have other names or may not be NULL

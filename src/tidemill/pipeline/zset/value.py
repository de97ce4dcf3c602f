"""The Z-set itself: a batch of rows, and for each its weight."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Weights = npt.NDArray[np.int64]
Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class ZSet:
    """Rows with weights. Equal rows may appear several times until they are consolidated.

    `weights` has one number per row, or `width` numbers per row: then rows are groups and the numbers are
    what linear aggregates add up.
    """

    rows: pa.RecordBatch
    weights: Weights

    @staticmethod
    def empty(schema: pa.Schema, width: int | None = None) -> "ZSet":
        shape = 0 if width is None else (0, width)
        return ZSet(pa.RecordBatch.from_pylist([], schema), np.zeros(shape, np.int64))

    @staticmethod
    def of(rows: pa.RecordBatch, weight: int = 1) -> "ZSet":
        """Every row with the same weight."""
        return ZSet(rows, np.full(rows.num_rows, weight, np.int64))

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    @property
    def schema(self) -> pa.Schema:
        return self.rows.schema

    @property
    def width(self) -> int | None:
        return None if self.weights.ndim == 1 else self.weights.shape[1]

    def take(self, indices: Indices) -> "ZSet":
        return ZSet(take_rows(self.rows, indices), self.weights[indices])

    def filter(self, mask: Mask) -> "ZSet":
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def slice(self, start: int, length: int) -> "ZSet":
        return ZSet(self.rows.slice(start, length), self.weights[start : start + length])

    def negate(self) -> "ZSet":
        return ZSet(self.rows, -self.weights)

    def with_rows(self, rows: pa.RecordBatch) -> "ZSet":
        """Other columns for the same rows, with the same weights."""
        return ZSet(rows, self.weights)


def take_rows(rows: pa.RecordBatch, indices: Indices) -> pa.RecordBatch:
    if not rows.num_columns:
        return empty_rows(rows.schema, len(indices))
    return rows.take(pa.array(indices))


def pick(rows: pa.RecordBatch, columns: Sequence[int]) -> pa.RecordBatch:
    """Just these columns, in this order, without a copy."""
    schema = pa.schema([rows.schema.field(index) for index in columns])
    return batch([rows.column(index) for index in columns], schema, rows.num_rows)


def batch(arrays: Sequence[Any], schema: pa.Schema, length: int) -> pa.RecordBatch:
    """A batch of these columns; also right when there are none, where Arrow would forget the length."""
    if not arrays:
        return empty_rows(schema, length)
    return pa.RecordBatch.from_arrays(list(arrays), schema=schema)


def empty_rows(schema: pa.Schema, length: int) -> pa.RecordBatch:
    """Rows without columns: a global aggregate has groups of them."""
    filler = pa.StructArray.from_buffers(pa.struct([]), length, [None])
    return pa.RecordBatch.from_struct_array(filler).replace_schema_metadata(schema.metadata)


def concat(parts: Iterable[ZSet], schema: pa.Schema, width: int | None = None) -> ZSet:
    """All parts one after the other; of the schema and width given when there is none."""
    found = [part for part in parts if len(part)]
    if not found:
        return ZSet.empty(schema, width)
    if len(found) == 1:
        return found[0]
    return ZSet(concat_rows([part.rows for part in found]), np.concatenate([part.weights for part in found]))


def concat_rows(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """All rows of at least one batch, as one batch."""
    if len(parts) == 1:
        return parts[0]
    if not parts[0].num_columns:
        return empty_rows(parts[0].schema, sum(part.num_rows for part in parts))
    return pa.concat_batches(parts)

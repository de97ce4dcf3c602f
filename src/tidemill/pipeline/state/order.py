"""The order of rows by column values: Spark's, as numbers that numpy sorts.

NULL comes first unless said otherwise, NaN last, -0.0 equals 0.0, text goes by its bytes, structs field by
field, arrays element by element with the shorter first. Arrow's own sort puts NaN beside NULL and knows
neither structs nor arrays.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.pipeline.errors import UnsupportedType
from tidemill.pipeline.zset.hashing import fixed_values, list_lengths

Codes = list[npt.NDArray[Any]]
"""Arrays that order the rows of one batch, the most significant first. They mean nothing beside others."""


@dataclass(frozen=True, slots=True)
class Direction:
    """Which way a column orders rows. Where NULL goes is told apart from that."""

    descending: bool = False
    nulls_last: bool = False


ASCENDING = Direction()


def has_order(kind: pa.DataType) -> bool:
    """Whether values of the type have an order: all but maps, and what they are in."""
    parts = (kind.field(index).type for index in range(kind.num_fields))
    return not pa.types.is_map(kind) and all(map(has_order, parts))


def check_orderable(field: pa.Field) -> None:
    """Raise `UnsupportedType` if values of the column have no order."""
    if not has_order(field.type):
        raise UnsupportedType(f"column {field.name!r}: maps have no order")


def order_codes(rows: pa.RecordBatch, columns: Sequence[int], directions: Sequence[Direction] = ()) -> Codes:
    """Codes that compare as the rows do by these columns, all ascending unless each has its direction."""
    found = directions or [ASCENDING] * len(columns)
    return [
        code
        for index, direction in zip(columns, found, strict=True)
        for code in _codes(rows.column(index), direction)
    ]


def comes_before(
    left: pa.RecordBatch, right: pa.RecordBatch, directions: Sequence[Direction], *, or_equal: Any = False
) -> npt.NDArray[np.bool_]:
    """Whether row i of the left comes before row i of the right by all columns, or is equal to it.

    `or_equal` says what is true of equal ones, for all or for each row.
    """
    columns = [_together(one, other) for one, other in zip(left.columns, right.columns, strict=True)]
    both = pa.RecordBatch.from_arrays(columns, [str(index) for index in range(len(columns))])
    less = np.zeros(len(left), np.bool_)
    equal = np.ones(len(left), np.bool_)
    for code in order_codes(both, range(both.num_columns), directions):
        mine, other = code[: len(left)], code[len(left) :]
        less |= equal & (mine < other)
        equal &= mine == other
    found: npt.NDArray[np.bool_] = less | (equal & or_equal)
    return found


def numbers(array: pa.Array) -> npt.NDArray[Any] | None:
    """The values as numbers that compare as they do, without a copy; None where they are none, or NULL."""
    kind = array.type
    plain = pa.types.is_integer(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind)
    return fixed_values(array) if plain and not array.null_count else None


def _together(one: pa.Array, other: pa.Array) -> pa.Array:
    """The values of both; decimals of one scale compare, however many digits they have."""
    if one.type != other.type and pa.types.is_decimal(one.type):
        widest = pa.decimal128(38, one.type.scale)
        one, other = one.cast(widest), other.cast(widest)
    return pa.concat_arrays([one, other.view(one.type) if other.type != one.type else other])


def dense_ranks(codes: Codes, length: int) -> npt.NDArray[np.int64]:
    """One number for each row instead of several: equal where all codes are, else in their order."""
    ranks = np.zeros(length, np.int64)
    if codes and length:
        order = np.lexsort(codes[::-1])
        steps = np.zeros(length, np.bool_)
        for code in codes:
            steps[1:] |= code[order[1:]] != code[order[:-1]]
        ranks[order] = np.cumsum(steps)
    return ranks


def _codes(array: pa.Array, direction: Direction = ASCENDING) -> Codes:
    if pa.types.is_null(array.type):
        return []
    if not len(array):
        return [np.zeros(0, np.int64)]
    codes = _value_codes(array)
    if direction.descending:
        codes = [~code for code in codes]
    if not array.null_count:
        return codes
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    return [valid ^ direction.nulls_last, *(np.where(valid, code, 0) for code in codes)]


def _value_codes(array: pa.Array) -> Codes:
    """As `_codes`; what it says of a NULL means nothing."""
    kind = array.type
    if pa.types.is_boolean(kind):
        return [fixed_values(array.cast(pa.uint8()))]
    if pa.types.is_floating(kind):
        values = fixed_values(array).astype(np.float64) + 0.0  # -0.0 becomes 0.0
        values[np.isnan(values)] = np.nan  # the one whose bits are above infinity's
        bits = values.view(np.int64)
        return [np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)]
    if pa.types.is_decimal(kind):
        words = fixed_values(array)
        return [words[:, 1].copy().view(np.int64), words[:, 0]]
    if pa.types.is_struct(kind):
        return [code for child in array.flatten() for code in _codes(child)]
    if pa.types.is_large_list(kind):
        return [_rank_text(_as_text(array))]
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return [_rank_text(array)]
    return [fixed_values(array)]


def _rank_text(array: pa.Array) -> npt.NDArray[np.uint64]:
    ranks = pc.rank(array, sort_keys="ascending", tiebreaker="dense")
    return np.asarray(ranks.to_numpy(zero_copy_only=False))


def _as_text(array: pa.Array) -> pa.Array:
    """Lists as the bytes of their elements' ranks, which compare as the lists do."""
    ends = np.cumsum(list_lengths(array)) * 8
    ranks = dense_ranks(_codes(array.flatten()), int(ends[-1]) // 8).astype(">u8")
    offsets = np.append(0, ends).astype(np.int64)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(ranks)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(array), buffers)

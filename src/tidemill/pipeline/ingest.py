"""Rows that people hand in, made to fit their table or refused: columns, types, NULLs, keys, weights.

What is kept is canonical, so that equal rows are the same rows: maps in the order of their keys, 0.0 for
-0.0. A value is never changed otherwise: a number that does not fit the column's type is refused.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.pipeline import types
from tidemill.pipeline.errors import BadInput
from tidemill.pipeline.plan.node import Source
from tidemill.pipeline.zset import ZSet, group_rows, null_mask
from tidemill.pipeline.zset.value import batch

WEIGHT = "_weight"
KEY_BYTES = 64 * 1024
"""The most that the key of one row may take."""


def to_change(table: Source, rows: pa.Table, *, weight: int | None, zone: str) -> ZSet:
    """The change that these rows are to the table: each with `weight`, or with its own in `_weight`.

    To delete from a table with a primary key, the key columns are enough. Raises `BadInput`, which names the
    table, the column and the reason; nothing is kept then.
    """
    weights = _weights(table, rows, weight)
    if weight is None:
        rows = rows.drop_columns([WEIGHT])
    by_key = weight is not None and weight < 0 and bool(table.key)
    chosen = _columns(table, rows, only_key=by_key)
    columns = [
        _column(table, field, rows.column(field.name) if field.name in chosen else None, rows.num_rows, zone)
        for field in table.schema
    ]
    found = batch(columns, _loose(table.schema) if by_key else table.schema, rows.num_rows)
    change = ZSet(found, weights)
    _check_nulls(table, change, only_key=by_key)
    _check_keys(table, change)
    return change.filter(weights != 0)


def _loose(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])


def _weights(table: Source, rows: pa.Table, weight: int | None) -> Any:
    if weight is not None:
        return np.full(rows.num_rows, weight, np.int64)
    if WEIGHT not in rows.column_names:
        raise BadInput(f"table {table.table}: rows to apply need a column {WEIGHT}")
    column = rows.column(WEIGHT).combine_chunks()
    if not pa.types.is_integer(column.type) or column.null_count:
        raise BadInput(f"table {table.table}: {WEIGHT} must be whole numbers, without NULL")
    weights = np.asarray(_cast(table, WEIGHT, column, pa.int64()))
    if table.key and ((weights > 1) | (weights < -1)).any():
        raise BadInput(f"table {table.table}: with a primary key, {WEIGHT} is 1 or -1")
    return weights


def _columns(table: Source, rows: pa.Table, *, only_key: bool) -> set[str]:
    """The columns that are there, once it is certain that they are the right ones."""
    names = list(rows.column_names)
    known = set(table.schema.names)
    if len(set(names)) != len(names):
        raise BadInput(f"table {table.table}: a column is there twice: {', '.join(sorted(names))}")
    if unknown := [name for name in names if name not in known]:
        raise BadInput(f"table {table.table}: no column {_list(unknown)}; it has {_list(table.schema.names)}")
    wanted = [table.schema.names[at] for at in table.key] if only_key else table.schema.names
    if missing := [name for name in wanted if name not in names]:
        raise BadInput(f"table {table.table}: column {_list(missing)} is missing")
    return set(names)


def _column(table: Source, field: pa.Field, column: Any, length: int, zone: str) -> pa.Array:
    if column is None:
        return pa.nulls(length, field.type)
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):  # no chunk at all
        array = pa.nulls(0, column.type)
    found = _cast(table, field.name, array, field.type, zone)
    try:
        return canonical(found)
    except BadInput as error:
        raise BadInput(f"table {table.table}: column {field.name}: {error}") from error


def _cast(table: Source, name: str, array: pa.Array, kind: pa.DataType, zone: str = "UTC") -> pa.Array:
    """The same values in the column's type."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.type == kind:
        return array
    if not may_become(array.type, kind):
        raise BadInput(f"table {table.table}: column {name} is {types.sql_name(kind)}, not {array.type}")
    try:
        if (
            pa.types.is_timestamp(kind)
            and kind.tz
            and pa.types.is_timestamp(array.type)
            and not array.type.tz
        ):
            array = pc.assume_timezone(array, zone)
        if pa.types.is_decimal(kind) and pa.types.is_integer(array.type):
            # Arrow asks for room for the largest integer, whatever the values are.
            array = array.cast(pa.decimal256(76, kind.scale))
        found = array.cast(kind, safe=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        reason = str(error).partition("\n")[0]
        raise BadInput(f"table {table.table}: column {name} ({types.sql_name(kind)}): {reason}") from error
    if pa.types.is_floating(kind) and _infinite(found) > _infinite(array):
        raise BadInput(f"table {table.table}: column {name} ({types.sql_name(kind)}): a number is too large")
    return found


def _infinite(array: pa.Array) -> int:
    if not pa.types.is_floating(array.type):
        return 0
    return int(pc.sum(pc.is_inf(array)).as_py() or 0)


def may_become(found: pa.DataType, kind: pa.DataType) -> bool:
    """Whether values of one type can be kept in another without a change of meaning."""
    pairs = (
        (pa.types.is_integer, lambda t: pa.types.is_integer(t) or pa.types.is_decimal(t)),
        (pa.types.is_integer, pa.types.is_floating),
        (pa.types.is_floating, pa.types.is_floating),
        (pa.types.is_decimal, pa.types.is_decimal),
        (_is_text, _is_text),
        (_is_bytes, _is_bytes),
        (pa.types.is_timestamp, pa.types.is_timestamp),
        (pa.types.is_date, pa.types.is_date),
        (pa.types.is_null, lambda _: True),
    )
    if any(of(found) and to(kind) for of, to in pairs):
        return not (pa.types.is_timestamp(found) and found.tz and not kind.tz)
    if _is_list(found) and _is_list(kind):
        return _fits(found.value_type, kind.value_type)
    if pa.types.is_struct(found) and pa.types.is_struct(kind):
        return [f.name for f in found] == [f.name for f in kind] and all(
            _fits(one.type, other.type) for one, other in zip(found, kind, strict=True)
        )
    if pa.types.is_map(found) and pa.types.is_map(kind):
        return _fits(found.key_type, kind.key_type) and _fits(found.item_type, kind.item_type)
    return False


def _fits(found: pa.DataType, kind: pa.DataType) -> bool:
    return found == kind or may_become(found, kind)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_fixed_size_binary(kind)
    ) and not pa.types.is_decimal(kind)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def canonical(array: pa.Array) -> pa.Array:
    """Equal values in one form: 0.0 for -0.0, maps in the order of their keys. Also inside other values."""
    kind = array.type
    if not _has_forms(kind):
        return array
    if pa.types.is_floating(kind):
        return pc.add(array, pa.scalar(0.0, kind))
    if pa.types.is_struct(kind):
        parts = [canonical(part) for part in array.flatten()]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=array.is_null())
    if pa.types.is_large_list(kind):
        offsets, mask = _offsets(pc.list_value_length(array)), array.is_null()
        return pa.LargeListArray.from_arrays(offsets, canonical(array.flatten()), kind, mask=mask)
    return _sorted_map(array)


def _has_forms(kind: pa.DataType) -> bool:
    if pa.types.is_large_list(kind):
        return _has_forms(kind.value_type)
    if pa.types.is_struct(kind):
        return any(_has_forms(field.type) for field in kind)
    return bool(pa.types.is_floating(kind) or pa.types.is_map(kind))


def _sorted_map(array: pa.Array) -> pa.Array:
    starts, stops = np.asarray(array.offsets[:-1]), np.asarray(array.offsets[1:])
    lengths = np.where(np.asarray(array.is_valid()), stops - starts, 0)
    owner = np.repeat(np.arange(len(array)), lengths)
    ends = np.cumsum(lengths)
    entry = np.arange(len(owner)) - np.repeat(ends - lengths, lengths) + np.repeat(starts, lengths)
    keys, items = (canonical(part.take(pa.array(entry))) for part in (array.keys, array.items))
    if len(group_rows(pa.RecordBatch.from_arrays([pa.array(owner), keys], ["owner", "key"]))) < len(owner):
        raise BadInput("a map has the same key twice")
    by_key = pc.sort_indices(
        pa.RecordBatch.from_arrays([pa.array(owner), keys], ["owner", "key"]),
        sort_keys=[("owner", "ascending"), ("key", "ascending")],
    )
    offsets = pa.array(np.append(0, ends).astype(np.int32))
    if array.null_count:
        valid = np.append(np.asarray(array.is_valid()), True)
        offsets = pa.array(np.append(0, ends).astype(np.int32), mask=~valid)
    return pa.MapArray.from_arrays(offsets, keys.take(by_key), items.take(by_key)).cast(array.type)


def _offsets(lengths: Any) -> pa.Array:
    return pa.array(np.append(0, np.cumsum(np.asarray(lengths.fill_null(0)))).astype(np.int64))


def _check_nulls(table: Source, change: ZSet, *, only_key: bool) -> None:
    for at, field in enumerate(table.schema):
        if field.nullable or (only_key and at not in table.key):
            continue
        if nulls := change.rows.column(at).null_count:
            what = "the primary key" if at in table.key else "a NOT NULL column"
            raise BadInput(f"table {table.table}: {nulls} NULL in {field.name}, {what}")


def _check_keys(table: Source, change: ZSet) -> None:
    if not table.key or not len(change):
        return
    if null_mask(change.rows, table.key).any():
        raise BadInput(f"table {table.table}: NULL in the primary key")
    sizes = sum((_bytes_of(change.rows.column(at)) for at in table.key), np.zeros(len(change), np.int64))
    if (largest := int(sizes.max())) > KEY_BYTES:
        raise BadInput(f"table {table.table}: a primary key of {largest} bytes; at most {KEY_BYTES} fit")


def _bytes_of(array: pa.Array) -> Any:
    if _is_text(array.type) or _is_bytes(array.type):
        return np.asarray(pc.binary_length(array))
    return np.full(len(array), 16, np.int64)


def _list(names: Sequence[str]) -> str:
    return ", ".join(names)

"""Rows of plain Python values as Arrow columns, without a change of any value.

Arrow, told a type, makes 1 of 1.5 without a word; so a column is first taken for what its values are, and
only what Arrow cannot guess, such as a map, is made of the table's type and then compared with what came in.
"""

import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tidemill.pipeline.errors import BadInput
from tidemill.pipeline.ingest import WEIGHT, may_become
from tidemill.pipeline.plan.node import Source
from tidemill.pipeline.types import sql_name

_ERRORS = (pa.ArrowException, TypeError, ValueError, OverflowError)


def from_rows(table: Source, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """The rows as columns. Raises `BadInput` for a row without one of the columns of the others."""
    names = list(dict.fromkeys(name for row in rows for name in row)) or list(table.schema.names)
    for number, row in enumerate(rows):
        if missing := [name for name in names if name not in row]:
            raise BadInput(
                f"table {table.table}: row {number} has no {', '.join(missing)}, which others have"
            )
    return pa.table({name: from_values(table, name, [row[name] for row in rows]) for name in names})


def from_values(table: Source, name: str, values: Sequence[Any]) -> pa.Array:
    """One column. Values that do not fit the table's type are refused here or by the check of types."""
    kinds = {field.name: field.type for field in table.schema} | {WEIGHT: pa.int64()}
    kind = kinds.get(name)
    found = _guessed(values)
    if kind is None or (found is not None and (found.type == kind or may_become(found.type, kind))):
        return pa.nulls(len(values)) if found is None else found
    where = f"table {table.table}: column {name} ({sql_name(kind)})"
    if found is not None and not pa.types.is_nested(kind):
        raise BadInput(f"{where}: {_odd_one(values, kind)!r:.80} does not fit")
    try:
        typed = pa.array(values, kind)
    except _ERRORS as error:
        raise BadInput(f"{where}: {str(error).partition(chr(10))[0]}") from error
    for value, kept in zip(values, typed.to_pylist(), strict=True):
        if not _same(value, kept):
            raise BadInput(f"{where}: {value!r:.80} does not fit")
    return typed


def _guessed(values: Sequence[Any]) -> pa.Array | None:
    try:
        return pa.array(values)
    except _ERRORS:
        return None


def _odd_one(values: Iterable[Any], kind: pa.DataType) -> Any:
    """The first value that is not of the type, for the message."""
    for value in values:
        guess = _guessed([value])
        if guess is None or not (guess.type == kind or may_become(guess.type, kind)):
            return value
    return next(iter(values), None)


def _same(value: Any, kept: Any) -> bool:
    """Whether Arrow kept what it was given; inside maps, structs and arrays too."""
    if isinstance(value, Mapping):
        pairs = dict(kept) if isinstance(kept, list) else kept
        return isinstance(pairs, Mapping) and all(
            _same(part, pairs.get(name)) for name, part in value.items()
        )
    if isinstance(value, list | tuple):
        if isinstance(kept, Mapping):
            kept = list(kept.items())
        return isinstance(kept, list | tuple) and len(value) == len(kept) and all(map(_same, value, kept))
    if isinstance(value, float) and math.isnan(value):
        return isinstance(kept, float) and math.isnan(kept)
    if isinstance(value, dt.datetime) and isinstance(kept, dt.datetime):
        return value.replace(tzinfo=None) == kept.replace(tzinfo=None) or value == kept
    return bool(value == kept)

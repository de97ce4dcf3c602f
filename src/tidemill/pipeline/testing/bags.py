"""Z-sets as plain Python, equal where Spark's GROUP BY says so."""

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from tidemill.pipeline.zset import ZSet

Row = tuple[Any, ...]
Rows = list[tuple[Row, int]]
"""Rows with their weights, in order, not added up."""
Bag = Counter[Row]
"""How often each row is there; none that is there zero times."""


def canonical(value: Any) -> Any:
    """A hashable value that is equal for what Spark groups together."""
    match value:
        case float() if math.isnan(value):
            return "NaN"
        case float():
            return value + 0.0
        case list() | tuple():
            return tuple(canonical(part) for part in value)
        case dict():
            return tuple((name, canonical(part)) for name, part in value.items())
        case _:
            return value


def values_of(rows: pa.RecordBatch) -> list[Row]:
    """Each row as a tuple of canonical values."""
    if not rows.num_columns:
        return [()] * rows.num_rows
    return [canonical(row) for row in zip(*(column.to_pylist() for column in rows.columns), strict=True)]


def rows_of(z: ZSet) -> Rows:
    return list(zip(values_of(z.rows), map(int, z.weights), strict=True))


def bag(rows: Iterable[tuple[Row, int]]) -> Bag:
    """The rows added up."""
    total: Bag = Counter()
    for row, weight in rows:
        total[row] += weight
    return Counter({row: weight for row, weight in total.items() if weight})

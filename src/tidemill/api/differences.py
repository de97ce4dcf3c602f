"""Whether two bags of rows are the same, but for the rounding of floats."""

import math
from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.pipeline.zset import ZSet
from tidemill.sql.recompute import difference

RELATIVE = 1e-9
"""How far two floats may be apart, of their value."""


def unequal(one: ZSet, other: ZSet) -> ZSet:
    """The rows that one has more often than the other; with negative weights, those it has less often.

    Two rows that differ by the rounding of floats alone are the same.
    """
    found = difference(one, other)
    if not any(_has_floats(field.type) for field in found.schema):
        return found
    weights = found.weights.copy()
    rows = [tuple(row.values()) for row in found.rows.to_pylist()]
    for at, near in _pairs(rows, weights):
        both = min(weights[at], -weights[near])
        weights[at] -= both
        weights[near] += both
    return ZSet(found.rows, weights).filter(weights != 0)


def _pairs(rows: list[tuple[Any, ...]], weights: Any) -> Iterator[tuple[int, int]]:
    """Rows with a weight above 0, each with those that are as good as the same and have one below 0."""
    lacking: dict[Hashable, list[int]] = {}
    for at in np.flatnonzero(weights < 0).tolist():
        lacking.setdefault(_shape(rows[at]), []).append(at)
    for at in np.flatnonzero(weights > 0).tolist():
        for near in lacking.get(_shape(rows[at]), ()):
            if weights[at] > 0 > weights[near] and _close(rows[at], rows[near]):
                yield at, near


def _has_floats(kind: pa.DataType) -> bool:
    if pa.types.is_floating(kind):
        return True
    return any(_has_floats(kind.field(at).type) for at in range(kind.num_fields))


def _shape(value: Any) -> Hashable:
    """The value without its floats."""
    if isinstance(value, list | tuple):
        return tuple(map(_shape, value))
    if isinstance(value, dict):
        return tuple((name, _shape(part)) for name, part in value.items())
    return float if isinstance(value, float) else value


def _close(one: Any, other: Any) -> bool:
    """Whether two values of one shape are the same but for rounding."""
    if isinstance(one, list | tuple):
        return all(map(_close, one, other))
    if isinstance(one, dict):
        return all(_close(part, other[name]) for name, part in one.items())
    if isinstance(one, float):
        return math.isclose(one, other, rel_tol=RELATIVE) or (math.isnan(one) and math.isnan(other))
    return bool(one == other)

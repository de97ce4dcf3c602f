"""Whether two bags of rows are the same, but for the rounding of floats."""

import math
from collections import deque
from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.pipeline.zset import ZSet
from tidemill.sql.recompute import difference

RELATIVE = 1e-9
"""How far two floats may be apart, of their value."""

Weights = npt.NDArray[np.int64]
Place = tuple[tuple[float, ...], int]
"""The floats of a row, and its number."""


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


def _pairs(rows: list[tuple[Any, ...]], weights: Weights) -> Iterator[tuple[int, int]]:
    """Rows with a weight above 0, each with those that are as good as the same and have one below 0.

    Rows that agree but for their floats are cut, float by float, into clusters, so that few are compared.
    """
    groups: dict[Hashable, list[Place]] = {}
    for at, row in enumerate(rows):
        groups.setdefault(_shape(row), []).append((tuple(_floats(row)), at))
    for group in groups.values():
        clusters = [group]
        for column in range(len(group[0][0])):
            clusters = [part for cluster in clusters for part in _cut(cluster, column)]
        for cluster in clusters:
            yield from _neighbours(cluster, weights)


def _cut(cluster: list[Place], column: int) -> Iterator[list[Place]]:
    """The rows in the order of one float, in parts: no two rows of different ones are close."""
    values = [floats[column] for floats, _ in cluster]
    order = sorted(range(len(values)), key=lambda at: (math.isnan(values[at]), values[at]))
    start = 0
    for stop in range(1, len(order) + 1):
        if stop == len(order) or not _close(values[order[stop - 1]], values[order[stop]]):
            yield [cluster[at] for at in order[start:stop]]
            start = stop


def _neighbours(cluster: list[Place], weights: Weights) -> Iterator[tuple[int, int]]:
    """The pairs of a cluster, which is in the order of the last float."""
    lacking = deque(place for place in cluster if weights[place[1]] < 0)
    for floats, at in cluster:
        if weights[at] <= 0:
            continue
        while lacking and (not weights[lacking[0][1]] or _is_behind(lacking[0][0][-1], floats[-1])):
            lacking.popleft()
        for others, near in lacking:
            if not weights[at] or _is_behind(floats[-1], others[-1]):
                break
            if weights[near] and all(map(_close, floats, others)):
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


def _floats(value: Any) -> Iterator[float]:
    """The floats of a value, in order: as many in each value of a shape."""
    if isinstance(value, list | tuple):
        for part in value:
            yield from _floats(part)
    elif isinstance(value, dict):
        yield from _floats(list(value.values()))
    elif isinstance(value, float):
        yield value


def _close(one: float, other: float) -> bool:
    """Whether two floats are the same but for rounding. What lies between two that are is close to both."""
    return math.isclose(one, other, rel_tol=RELATIVE) or (math.isnan(one) and math.isnan(other))


def _is_behind(one: float, other: float) -> bool:
    """Whether the first is less than all that is close to the second."""
    return one < other and not _close(one, other)

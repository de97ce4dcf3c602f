"""States over small random data, beside a plain dictionary that says what must come out."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.state.spine import Matches, Spine
from tidemill.pipeline.zset import ZSet, hash_rows, pick

Row = tuple[Any, ...]
Change = Sequence[tuple[Row, int]]


def frozen(value: Any) -> Any:
    """A value as something that can be a key and equals what GROUP BY finds equal."""
    if isinstance(value, dict):
        return tuple((name, frozen(item)) for name, item in sorted(value.items()))
    if isinstance(value, list):
        return tuple(frozen(item) for item in value)
    if isinstance(value, float) and value != value:
        return "NaN"
    return value


def batch(schema: pa.Schema, rows: Iterable[Row]) -> pa.RecordBatch:
    listed = list(rows)
    arrays = [pa.array([row[index] for row in listed], field.type) for index, field in enumerate(schema)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def zset(schema: pa.Schema, change: Change) -> ZSet:
    return ZSet(batch(schema, [row for row, _ in change]), np.array([w for _, w in change], np.int64))


def rows_of(z: ZSet) -> Counter[Row]:
    """What a Z-set adds up to."""
    total: Counter[Row] = Counter()
    columns = [[frozen(value) for value in column.to_pylist()] for column in z.rows.columns]
    for index, weight in enumerate(z.weights.tolist()):
        total[tuple(column[index] for column in columns)] += weight
    return Counter({row: weight for row, weight in total.items() if weight})


def add(model: Counter[Row], change: Change) -> None:
    for row, weight in change:
        key = tuple(frozen(value) for value in row)
        model[key] += weight
        if not model[key]:
            del model[key]


def probe(spine: Spine, rows: Sequence[Row], *, before: bool = False) -> list[Counter[Row]]:
    """What a lookup of the keys of these rows finds, for each."""
    keys, hashes = keys_of(spine.spec, rows)
    return by_probe(spine.lookup(keys, hashes, before=before), len(rows))


def keys_of(spec: StateSpec, rows: Sequence[Row]) -> tuple[pa.RecordBatch, Any]:
    keys = pick(batch(spec.schema, rows), spec.key)
    return keys, hash_rows(keys)


def by_probe(matches: Matches, count: int) -> list[Counter[Row]]:
    found = []
    for index in range(count):
        mine = np.flatnonzero(matches.probe == index)
        found.append(rows_of(matches.found.take(mine)))
    return found


def scanned(spine: Spine, *, before: bool = False) -> Counter[Row]:
    """The whole state; every row must come once."""
    total: Counter[Row] = Counter()
    for z in spine.scan(before=before):
        part = rows_of(z)
        assert len(part) == len(z)
        assert not part.keys() & total.keys()
        total.update(part)
    return total

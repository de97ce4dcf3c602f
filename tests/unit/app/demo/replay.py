"""What a table holds once all changes to it are made, and that none of them is impossible."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa

from tidemill.app.demo.lives import WEIGHT, Lived, changes

Row = tuple[str, ...]
Bag = Counter[Row]


def replayed(table: Lived, key: tuple[int, ...], moments: Iterable[int]) -> Bag:
    """The rows after all events up to the last moment, taken in the pieces that the moments make."""
    held: Bag = Counter()
    by_key: dict[Row, Row] = {}
    for start, stop in pairwise(moments):
        frame, grown = changes(table, start, stop)
        before = len(by_key) if key else held.total()
        rows = list(as_texts(frame.drop_columns([WEIGHT])))
        if key:
            keys = [tuple(row[at] for at in key) for row in rows]
            assert len(set(keys)) == len(keys)
        for row, weight in zip(rows, frame.column(WEIGHT).to_pylist(), strict=True):
            if key and weight > 0:
                by_key[tuple(row[at] for at in key)] = row
            elif key:
                assert by_key.pop(tuple(row[at] for at in key)) == row
            else:
                held[row] += weight
                assert held[row] >= 0
        assert (len(by_key) if key else held.total()) == before + grown
    return Counter(by_key.values()) if key else +held


def current(table: Lived, events: int) -> Bag:
    """The rows after so many events, by their lives alone."""
    numbers = np.arange(table.come(events))
    versions = table.life.versions(numbers, table.come(events))
    there = versions >= 0
    return Counter(as_texts(table.rows(numbers[there], versions[there])))


def as_texts(rows: pa.Table) -> Iterator[Row]:
    """Rows that can be compared, whatever is in them."""
    return (tuple(map(repr, row.values())) for row in rows.to_pylist())

"""Session windows against a plain merge of intervals."""

import datetime as dt
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.pipeline.plan.node import Arrange, Sessions
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.testing import Bag, Rows, bag, check, feed, spark
from tidemill.pipeline.zset import ZSet

TIME = pa.timestamp("us", "UTC")
SCHEMA = pa.schema([("k", pa.int8()), ("v", pa.int8()), ("start", TIME), ("end", TIME)])
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@st.composite
def changes(draw: st.DrawFn) -> tuple[ZSet]:
    small = st.tuples(
        st.sampled_from([None, 0, 1]), st.integers(0, 1), st.integers(-20, 20), st.integers(1, 4)
    )
    rows = draw(st.lists(st.tuples(small, st.sampled_from([1, 1, 1, -1, 2])), max_size=8))
    columns = [
        pa.array([k for (k, _, _, _), _ in rows], pa.int8()),
        pa.array([v for (_, v, _, _), _ in rows], pa.int8()),
        pa.array([start for (_, _, start, _), _ in rows], pa.int64()).view(TIME),
        pa.array([start + gap for (_, _, start, gap), _ in rows], pa.int64()).view(TIME),
    ]
    weights = np.array([weight for _, weight in rows], np.int64)
    return (ZSet(pa.RecordBatch.from_arrays(columns, schema=SCHEMA), weights),)


def merged(keys: tuple[int, ...]) -> Callable[[Rows], Bag]:
    def model(rows: Rows) -> Bag:
        told = []
        present = sorted(bag(rows).items(), key=lambda one: one[0][2])
        for row, weight in present:
            start = end = None
            for other, _ in present:
                if any(other[key] != row[key] for key in keys):
                    continue
                if end is None or other[2] > end:
                    if end is not None and row[2] <= end:
                        break
                    start, end = other[2], other[3]
                else:
                    end = max(end, other[3])
            told.append(((*row[:2], start, end), weight))
        return bag(told)

    return model


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_each_row_is_told_the_session_it_is_in(
    open_spine: Callable[[StateSpec], Any], data: st.DataObject
) -> None:
    keys = data.draw(st.sampled_from([(), (0,), (0, 1)]))
    nodes = [
        feed(SCHEMA),
        Arrange((0,), spark(SCHEMA), key=keys),
        Sessions((1,), spark(SCHEMA), keys, start=2, end=3),
    ]

    check(nodes, data.draw(st.lists(changes(), min_size=1, max_size=4)), merged(keys), open_spine=open_spine)

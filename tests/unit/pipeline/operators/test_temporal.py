"""Temporal filters against the conditions themselves, at the clock of each step."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.pipeline.plan.clock import Clock, Shift
from tidemill.pipeline.plan.node import Arrange, Temporal, TemporalCondition
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.testing import Bag, bag, feed, rows_of, spark
from tidemill.pipeline.testing.bench import Bench
from tidemill.pipeline.zset import ZSet, concat

TIME = pa.timestamp("us", "UTC")
SCHEMA = pa.schema([("k", pa.int8()), ("a", TIME), ("b", TIME)])
SECOND = 1_000_000
COMPARE: dict[str, Callable[[int, int], bool]] = {
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    "=": lambda x, y: x == y,
}
conditions = st.builds(
    lambda column, compare, seconds: TemporalCondition(
        column, compare, Clock("timestamp", (Shift(us=seconds * SECOND),), "UTC")
    ),
    st.sampled_from([1, 2]),
    st.sampled_from(sorted(COMPARE)),
    st.integers(-2, 2),
)
seconds = st.none() | st.integers(-3, 8)


@st.composite
def changes(draw: st.DrawFn) -> ZSet:
    row = st.tuples(st.integers(0, 1), seconds, seconds, st.sampled_from([1, 1, 2, -1]))
    rows = draw(st.lists(row, max_size=6))
    times = [[None if (time := row[at]) is None else time * SECOND for row in rows] for at in (1, 2)]
    columns = [pa.array([row[0] for row in rows], pa.int8())]
    columns += [pa.array(values, pa.int64()).view(TIME) for values in times]
    weights = np.array([row[3] for row in rows], np.int64)
    return ZSet(pa.RecordBatch.from_arrays(columns, schema=SCHEMA), weights)


def visible(rows: ZSet, conditions: list[TemporalCondition], clock: int) -> Bag:
    numbers = [rows.rows.column(at).view(pa.int64()).to_pylist() for at in (1, 2)]
    shown = [
        all(
            numbers[one.column - 1][at] is not None
            and COMPARE[one.compare](numbers[one.column - 1][at], clock * SECOND + one.clock.shifts[0].us)
            for one in conditions
        )
        for at in range(len(rows))
    ]
    return bag(rows_of(rows.filter(np.array(shown, np.bool_))))


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_rows_come_and_go_with_the_clock(open_spine: Callable[[StateSpec], Any], data: st.DataObject) -> None:
    chosen = data.draw(st.lists(conditions, min_size=1, max_size=3))
    steps = data.draw(st.lists(st.lists(changes(), min_size=1, max_size=2), min_size=1, max_size=6))
    late = data.draw(st.booleans())
    bench = Bench([feed(SCHEMA), Arrange((0,), spark(SCHEMA), key=(0,))], open_spine)
    temporal = Temporal((1,), spark(SCHEMA), tuple(chosen))
    if not late:
        bench.add(temporal)
    arrived, shown = ZSet.empty(SCHEMA), ZSet.empty(SCHEMA)
    for clock, rounds in enumerate(steps):
        if late and clock == len(steps) // 2:
            bench.add(temporal)
        arrived = concat([arrived, *rounds], SCHEMA)
        out = bench.step(*[[change] for change in rounds])
        if not late or clock >= len(steps) // 2:
            shown = concat([shown, out], SCHEMA)
            assert bag(rows_of(shown)) == visible(arrived, chosen, clock)


def test_what_is_decided_is_not_kept() -> None:
    recent = TemporalCondition(1, ">", Clock("timestamp", (Shift(us=-2 * SECOND),), "UTC"))
    known = TemporalCondition(2, "<=", Clock("timestamp", (), "UTC"))
    for one, column in ((recent, 1), (known, 2)):
        bench = Bench([feed(SCHEMA), Temporal((0,), spark(SCHEMA), (one,))])
        times = pa.array([at * SECOND for at in range(5)], pa.int64()).view(TIME)
        rows = pa.RecordBatch.from_arrays([pa.array([0] * 5, pa.int8()), times, times], schema=SCHEMA)
        bench.step([ZSet.of(rows)])
        for _ in range(9):
            bench.step([ZSet.empty(SCHEMA)])
        kept = concat(list(bench.spines[1][0].scan()), SCHEMA)
        assert not len(kept), f"column {column}"
